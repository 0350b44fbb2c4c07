"""One connection to one broker: properties, TLS, logins, bytes in and events out."""

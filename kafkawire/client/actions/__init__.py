"""Changes to a cluster: verified, sent once, verified again."""

"""Detection of what listens at an address that is not the configured Kafka listener, by its first bytes or its
silence."""

from __future__ import annotations

_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16

_OTHERS = (
    (b"HTTP/", "an HTTP server answers here: give the port of a Kafka listener"),
    (b"SSH-", "an SSH server answers here: give the port of a Kafka listener"),
    (b"220 ", "a mail or FTP server answers here: give the port of a Kafka listener"),
    (b"-ERR", "no Kafka broker answers here (it speaks Redis's protocol): give the port of a Kafka listener"),
)

TLS_HERE = "this is a TLS listener: set security.protocol to SSL or SASL_SSL"
SASL_HERE = (
    "the broker closed the connection at the first request: either its listener requires authentication "
    "(security.protocol SASL_PLAINTEXT or SASL_SSL), or it was just stopped"
)
NOT_KAFKA = "closed without an answer: no Kafka listener, or one that requires TLS (security.protocol SSL or SASL_SSL)"
CERTIFICATE_REQUIRED = (
    "closed right after the TLS handshake: no Kafka listener, or one that requires a client certificate "
    "(ssl.keystore.location)"
)
LOST = "the broker closed the connection"


def first_bytes(data: bytes) -> str | None:
    """Why the first bytes of a connection are not a Kafka response; None if they may be one."""
    if len(data) >= 3 and data[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and data[1] == 3 and data[2] <= 4:
        return TLS_HERE
    for start, reason in _OTHERS:
        if data.startswith(start):
            return reason
    return None

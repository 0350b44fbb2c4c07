"""The option `--tls-certificate` of commands that clients of Kafka connect to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def server_tls(certificate: Path | None) -> ssl.SSLContext | None:
    """The context of a server with a certificate and its key, which are in one PEM file; None for no file. Raises
    ValueError: the file has no certificate with its key. Raises OSError: it cannot be read."""
    if certificate is None:
        return None
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate)
    except ssl.SSLError as problem:
        raise ValueError(f"--tls-certificate {certificate}: {problem.reason or problem}") from None
    return context

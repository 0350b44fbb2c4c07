"""TLS 1.2 and 1.3 of a captured connection, decrypted with the secrets that an endpoint wrote to a key log (sans-IO).

    key log        files of lines, or Decryption Secrets Blocks of a pcapng -> `Secrets`
    cipher_suites  the suites as a table
    handshake      messages that choose a version, a suite and keys
    key_schedule   secrets -> keys (RFC 5246, RFC 8446)
    protection     one protected record -> its content
    session        bytes of both directions in order -> decrypted bytes, and what was lost

Nothing here knows Kafka, a file format of captures, or TCP beyond `Chunk` and `Loss`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire._first_use import on_first_use

if TYPE_CHECKING:
    from kafkawire.capture.tls.direction import LostRecords
    from kafkawire.capture.tls.key_log import KeyLogFile, Secrets
    from kafkawire.capture.tls.protection import missing_ciphers
    from kafkawire.capture.tls.session import TlsSession

#: Module -> the names that it defines: imported on first use, for most captures have no TLS.
_NAMES = {
    "direction": "LostRecords",
    "key_log": "KeyLogFile Secrets",
    "protection": "missing_ciphers",
    "session": "TlsSession",
}

__all__ = ["KeyLogFile", "LostRecords", "Secrets", "TlsSession", "missing_ciphers"]

if not TYPE_CHECKING:  # checkers report names that are not there
    __getattr__ = on_first_use(__name__, _NAMES)

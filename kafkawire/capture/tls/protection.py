"""One protected record to its content: AEAD ciphers and CBC of TLS 1.2, AEAD ciphers of TLS 1.3.

`open` authenticates with a sequence number; a wrong one, wrong keys and damaged bytes all raise `Unauthentic`.
"""

from __future__ import annotations

import hmac
import struct
from importlib.util import find_spec
from typing import Any, Protocol

from kafkawire.capture.tls.cipher_suites import CipherSuite
from kafkawire.capture.tls.key_schedule import DirectionKeys
from kafkawire.errors import MissingExtraError

#: Content types of records.
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23

_TLS_1_2 = b"\x03\x03"
_BLOCK = 16
_EXPLICIT_NONCE = 8


def missing_ciphers() -> MissingExtraError | None:
    """The error where the library with the ciphers is not installed."""
    return MissingExtraError("decrypting TLS", "net") if find_spec("cryptography") is None else None


class Unauthentic(Exception):
    """A record that was not written with these keys and this sequence number."""


class RecordProtection(Protocol):
    """The protection of one direction's records.

    Attributes:
        parts: what the native engine needs to open the records: mode of the suite, whether it is TLS 1.3, key and IV;
            None of suites that it does not have.
    """

    parts: tuple[str, bool, bytes, bytes] | None

    def open(self, sequence: int, kind: int, fragment: bytes) -> tuple[int, bytes]:
        """The content type and content of a record.

        Args:
            sequence: number of the record under these keys, from 0.
            kind: content type of the record's header.
            fragment: the record without its header.

        Raises Unauthentic.
        """
        ...


def _aead(suite: CipherSuite, key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import aead

    if suite.mode == "GCM":
        return aead.AESGCM(key)
    if suite.mode == "CCM":
        return aead.AESCCM(key, tag_length=suite.tag_bytes)
    return aead.ChaCha20Poly1305(key)


def _parts(suite: CipherSuite, keys: DirectionKeys, *, tls13: bool) -> tuple[str, bool, bytes, bytes] | None:
    return None if suite.mode == "CCM" else (suite.mode, tls13, keys.key, keys.iv)


def _masked(iv: bytes, sequence: int) -> bytes:
    """The nonce of a record: the IV, with the sequence number added to its last bytes by XOR."""
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(len(iv), "big")


def _decrypted(cipher: Any, nonce: bytes, data: bytes, associated: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        plain: bytes = cipher.decrypt(nonce, data, associated)
    except (InvalidTag, ValueError):
        raise Unauthentic from None
    return plain


class _Tls13Protection:
    """Records of TLS 1.3 (RFC 8446, section 5.2)."""

    def __init__(self, suite: CipherSuite, keys: DirectionKeys) -> None:
        self._cipher, self._iv = _aead(suite, keys.key), keys.iv
        self.parts = _parts(suite, keys, tls13=True)

    def open(self, sequence: int, kind: int, fragment: bytes) -> tuple[int, bytes]:
        header = struct.pack(">B2sH", kind, _TLS_1_2, len(fragment))
        plain = _decrypted(self._cipher, _masked(self._iv, sequence), fragment, header).rstrip(b"\x00")
        if not plain:
            raise Unauthentic
        return plain[-1], plain[:-1]


class _Tls12AeadProtection:
    """Records of the AEAD suites of TLS 1.2 (RFC 5246, 6.2.3.3; RFC 5288; RFC 7905)."""

    def __init__(self, suite: CipherSuite, keys: DirectionKeys) -> None:
        self._cipher, self._iv, self._tag = _aead(suite, keys.key), keys.iv, suite.tag_bytes
        self._explicit = 0 if suite.mode == "POLY1305" else _EXPLICIT_NONCE
        self.parts = _parts(suite, keys, tls13=False)

    def open(self, sequence: int, kind: int, fragment: bytes) -> tuple[int, bytes]:
        size = len(fragment) - self._explicit - self._tag
        if size < 0:
            raise Unauthentic
        header = struct.pack(">QB2sH", sequence, kind, _TLS_1_2, size)
        nonce = self._iv + fragment[: self._explicit] if self._explicit else _masked(self._iv, sequence)
        return kind, _decrypted(self._cipher, nonce, fragment[self._explicit :], header)


class _Tls12CbcProtection:
    """Records of the CBC suites of TLS 1.2 (RFC 5246, 6.2.3.2), with the MAC inside or outside (RFC 7366)."""

    def __init__(self, suite: CipherSuite, keys: DirectionKeys, *, encrypt_then_mac: bool) -> None:
        from cryptography.hazmat.primitives.ciphers import algorithms

        assert suite.mac is not None
        self._algorithm = algorithms.AES(keys.key)
        self._mac_key, self._hash = keys.mac_key, suite.mac
        self._mac_bytes = len(keys.mac_key)
        self._outside = encrypt_then_mac
        self.parts: tuple[str, bool, bytes, bytes] | None = None

    def open(self, sequence: int, kind: int, fragment: bytes) -> tuple[int, bytes]:
        if self._outside:
            fragment, mac = fragment[: -self._mac_bytes], fragment[-self._mac_bytes :]
            self._authenticate(sequence, kind, fragment, mac)
            return kind, self._unpadded(fragment)
        plain = self._unpadded(fragment)
        size = len(plain) - self._mac_bytes
        if size < 0:
            raise Unauthentic
        self._authenticate(sequence, kind, plain[:size], plain[size:])
        return kind, plain[:size]

    def _authenticate(self, sequence: int, kind: int, data: bytes, mac: bytes) -> None:
        header = struct.pack(">QB2sH", sequence, kind, _TLS_1_2, len(data))
        if not hmac.compare_digest(hmac.digest(self._mac_key, header + data, self._hash), mac):
            raise Unauthentic

    def _unpadded(self, fragment: bytes) -> bytes:
        """The decrypted content, with its MAC if that is inside, without the padding."""
        from cryptography.hazmat.primitives.ciphers import Cipher, modes

        if len(fragment) < 2 * _BLOCK or len(fragment) % _BLOCK:
            raise Unauthentic
        decryptor = Cipher(self._algorithm, modes.CBC(fragment[:_BLOCK])).decryptor()
        plain = decryptor.update(fragment[_BLOCK:]) + decryptor.finalize()
        padding = plain[-1] + 1
        if padding > len(plain) or plain[-padding:] != plain[-1:] * padding:
            raise Unauthentic
        return plain[:-padding]


def protection_of(
    suite: CipherSuite, keys: DirectionKeys, *, tls13: bool, encrypt_then_mac: bool = False
) -> RecordProtection:
    """The protection of a direction's records.

    Args:
        suite: that the server has chosen.
        keys: of the direction.
        tls13: of TLS 1.3, not 1.2.
        encrypt_then_mac: whether the MAC of a CBC suite is outside (RFC 7366).
    """
    if tls13:
        return _Tls13Protection(suite, keys)
    if suite.mode == "CBC":
        return _Tls12CbcProtection(suite, keys, encrypt_then_mac=encrypt_then_mac)
    return _Tls12AeadProtection(suite, keys)

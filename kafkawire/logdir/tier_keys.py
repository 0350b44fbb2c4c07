"""The keys of encrypted objects in a tier of Aiven's plugin: each segment has a data key for AES-256-GCM, which RSA
wraps (`RsaEncryptionProvider`, OAEP with SHA3-512 for both hashes)."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from kafkawire.errors import MissingExtraError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

#: Bytes before and after the encrypted ones of a chunk: a nonce, an authentication tag.
NONCE, TAG = 12, 16
_HASH = hashlib.sha3_512


@cache
def private_key(path: str) -> RSAPrivateKey:
    """The RSA private key in a PEM file, without a password. Raises OSError: the file cannot be read, or holds no key
    that can be used. Raises MissingExtraError: cryptography is not installed."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise MissingExtraError("reading an encrypted tier", "net") from None
    with open(path, "rb") as file:
        data = file.read(1 << 20)
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise OSError(errno.EINVAL, f"no private key in PEM without a password: {error}", path) from None
    if not isinstance(key, RSAPrivateKey):
        raise OSError(errno.EINVAL, "a private key that is not RSA", path)
    return key


def unwrapped(wrapped: bytes, paths: Sequence[str]) -> bytes | None:
    """The data key that one of the private keys unwraps; None: none of them does. Raises OSError: a file of a private
    key cannot be read, or holds no key that can be used. Raises MissingExtraError: cryptography is not installed."""
    found = (_unwrapped(wrapped, private_key(path)) for path in paths)
    return next((key for key in found if key is not None), None)


def _unwrapped(wrapped: bytes, key: RSAPrivateKey) -> bytes | None:
    """RSAES-OAEP-DECRYPT of RFC 8017, 7.1.2. The library has no SHA-3 for it."""
    numbers = key.private_numbers()
    length, size = (key.key_size + 7) // 8, _HASH().digest_size
    cipher = int.from_bytes(wrapped)
    if len(wrapped) != length or cipher >= numbers.public_numbers.n or length < 2 * size + 2:
        return None
    first, second = pow(cipher, numbers.dmp1, numbers.p), pow(cipher, numbers.dmq1, numbers.q)
    plain = second + numbers.q * ((first - second) * numbers.iqmp % numbers.p)
    encoded = plain.to_bytes(length)
    seed = _masked(encoded[1 : 1 + size], encoded[1 + size :])
    block = _masked(encoded[1 + size :], seed)
    padding, mark, message = block[size:].partition(b"\x01")
    intact = encoded[0] == 0 and block[:size] == _HASH(b"").digest() and mark and not any(padding)
    return message if intact else None


def _masked(data: bytes, seed: bytes) -> bytes:
    """The data with the mask of MGF1 over a seed."""
    rounds = -(-len(data) // _HASH().digest_size)
    mask = b"".join(_HASH(seed + number.to_bytes(4)).digest() for number in range(rounds))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(mask)).to_bytes(len(data))


def decrypted(data: bytes, key: bytes, aad: bytes) -> bytes | None:
    """The plain bytes of an encrypted chunk or index; None: it was changed, or the key is another's. `data`: a nonce,
    the encrypted bytes, and the authentication tag. `key`: of AES, 32 bytes. `aad`: what the tag covers, too."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(data[:NONCE], data[NONCE:], aad)
    except (InvalidTag, ValueError):
        return None

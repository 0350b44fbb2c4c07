"""Secrets to keys: the PRF of TLS 1.2 (RFC 5246, section 5), HKDF-Expand-Label of TLS 1.3 (RFC 8446, section 7.1)."""

from __future__ import annotations

import hmac
import struct
from typing import NamedTuple

from kafkawire.capture.tls.key_log import MASTER_SECRET_BYTES


def prf(hash_name: str, secret: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """TLS 1.2's pseudorandom function (RFC 5246, 5).

    Args:
        hash_name: of `hashlib`.
        secret, label, seed: its arguments.
        size: bytes of output.
    """
    seed = label + seed
    out, state = b"", seed
    while len(out) < size:
        state = hmac.digest(secret, state, hash_name)
        out += hmac.digest(secret, state + seed, hash_name)
    return out[:size]


def master_secret(hash_name: str, premaster: bytes, randoms: bytes, session_hash: bytes | None) -> bytes:
    """The master secret of TLS 1.2 from a premaster secret.

    Args:
        randoms: of client and server.
        session_hash: hash of the handshake up to ClientKeyExchange, if the extended master secret was negotiated
            (RFC 7627).
    """
    label, seed = (b"master secret", randoms) if session_hash is None else (b"extended master secret", session_hash)
    return prf(hash_name, premaster, label, seed, MASTER_SECRET_BYTES)


class DirectionKeys(NamedTuple):
    """Keys with which one direction is written."""

    mac_key: bytes
    key: bytes
    iv: bytes


def key_block(
    hash_name: str, master: bytes, randoms: bytes, sizes: tuple[int, int, int]
) -> tuple[DirectionKeys, DirectionKeys]:
    """The keys of the client's and of the server's direction in TLS 1.2.

    Args:
        randoms: of server and client, in this order.
        sizes: bytes of the MAC key, the key and the IV.
    """
    block = prf(hash_name, master, b"key expansion", randoms, 2 * sum(sizes))
    parts = []
    for size in sizes:
        parts.append((block[:size], block[size : 2 * size]))
        block = block[2 * size :]
    client, server = zip(*parts, strict=True)
    return DirectionKeys(*client), DirectionKeys(*server)


def expand_label(hash_name: str, secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446, 7.1).

    Args:
        hash_name: `sha256` or `sha384`.
        secret: the pseudorandom key.
        label: without the prefix `tls13 `.
        size: bytes of output.
    """
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    label = b"tls13 " + label
    info = struct.pack(">HB", size, len(label)) + label + b"\x00"
    algorithm = hashes.SHA384() if hash_name == "sha384" else hashes.SHA256()
    return HKDFExpand(algorithm, size, info).derive(secret)


def traffic_keys(hash_name: str, secret: bytes, key_bytes: int) -> DirectionKeys:
    """The keys of a traffic secret of TLS 1.3.

    Args:
        hash_name: `sha256` or `sha384`.
        secret: the traffic secret.
        key_bytes: size of the cipher's key.
    """
    return DirectionKeys(
        b"", expand_label(hash_name, secret, b"key", key_bytes), expand_label(hash_name, secret, b"iv", 12)
    )


def next_traffic_secret(hash_name: str, secret: bytes) -> bytes:
    """The traffic secret after a KeyUpdate."""
    return expand_label(hash_name, secret, b"traffic upd", len(secret))

"""A fuzzer's bytes <-> a line of text: `FetchRequest 12 00ff...`.

The bytes begin with the index of a message's version, so that a fuzzer's mutations wander from message to message; in
text it is the name, which stays when messages are added.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache

from kafkawire.messages import REGISTRY
from kafkawire.wire.message import Message

#: Bytes of the index.
HEAD = 2


@cache
def versions() -> list[tuple[str, int]]:
    """Every version of every message, by name."""
    return sorted((entry.name, version) for entry in REGISTRY for version in entry.valid_versions)


def message_of(name: str) -> type[Message]:
    return REGISTRY.load(REGISTRY.entry(name))


def head_of(name: str, version: int) -> bytes:
    return bisect_left(versions(), (name, version)).to_bytes(HEAD, "big")


def split(data: bytes) -> tuple[str, int, bytes]:
    """Name, version, and the bytes behind the index."""
    name, version = versions()[int.from_bytes(data[:HEAD], "big") % len(versions())]
    return name, version, data[HEAD:]


def pieces_of(data: bytes) -> list[bytes]:
    """The values in a fuzzer's bytes: each behind a byte with its length, the last behind a byte that is too high."""
    pieces = []
    while data and data[0] < min(255, len(data) - 1) and len(pieces) < 7:
        pieces.append(data[1 : 1 + data[0]])
        data = data[1 + data[0] :]
    return [*pieces, data[1:]]


def joined(pieces: list[bytes]) -> bytes:
    """The bytes that `pieces_of` takes apart; pieces longer than 254 bytes are cut."""
    *first, last = pieces
    return b"".join(bytes([min(len(piece), 254)]) + piece[:254] for piece in first) + b"\xff" + last

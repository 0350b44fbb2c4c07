"""A fuzzer's bytes <-> the input that they mean, and <-> the line of text that stores it in the corpus and in findings.

- a message: `FetchRequest 12 00ff...`. The bytes begin with the index of its version, so that a fuzzer's mutations
  reach other messages; in text it is the name, which stays when messages are added
- parts: `00ff - 01`. In the bytes each part follows its length, and the last ends where the bytes end
- text: a JSON string, a character a byte
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from kafkawire.messages import REGISTRY
from kafkawire.wire.message import Message

T = TypeVar("T")

#: Bytes of a message's index, and of a part's length.
HEAD, LENGTH = 2, 2
#: The text of a part without bytes.
_EMPTY = "-"


# Messages -------------------------------------------------------------------------------------------------------------


@cache
def versions() -> list[tuple[str, int]]:
    """Every version of every message, by name."""
    return sorted((entry.name, version) for entry in REGISTRY for version in entry.valid_versions)


def message_of(name: str) -> type[Message]:
    return REGISTRY.load(REGISTRY.entry(name))


def message(name: str, version: int, body: bytes) -> bytes:
    """The bytes that `split` takes apart.

    Args:
        name: of the message's class. `body`: bytes of any content.
    """
    return bisect_left(versions(), (name, version)).to_bytes(HEAD, "big") + body


def split(data: bytes) -> tuple[str, int, bytes]:
    """Name, version, and the bytes after the index."""
    name, version = versions()[int.from_bytes(data[:HEAD], "big") % len(versions())]
    return name, version, data[HEAD:]


# Parts ----------------------------------------------------------------------------------------------------------------


def parts_of(data: bytes, most: int = 1 << 16) -> list[bytes]:
    """The parts in a fuzzer's bytes, not more than `most`; the last may be cut."""
    parts: list[bytes] = []
    place = 0
    while place < len(data) and len(parts) < most:
        end = place + LENGTH + int.from_bytes(data[place : place + LENGTH], "big")
        parts.append(data[place + LENGTH : end])
        place = end
    return parts


def joined(parts: Iterable[bytes]) -> bytes:
    """The bytes that `parts_of` takes apart."""
    return b"".join(len(part).to_bytes(LENGTH, "big") + part for part in parts)


def pick(choices: Sequence[T], part: bytes) -> T:
    """One of the choices, by the first byte; the first of them where there is none."""
    return choices[(part[0] if part else 0) % len(choices)]


# Lines of text --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """How a target's inputs are written as lines: `data(text(b))` means the same input as `b`."""

    text: Callable[[bytes], str]
    data: Callable[[str], bytes]


def _hex_words(parts: Iterable[bytes]) -> str:
    return " ".join(part.hex() or _EMPTY for part in parts)


def _bytes_of(words: Iterable[str]) -> list[bytes]:
    return [b"" if word == _EMPTY else bytes.fromhex(word) for word in words]


def _message_text(data: bytes) -> str:
    name, version, body = split(data)
    return f"{name} {version} {_hex_words([body])}"


def _message_data(line: str) -> bytes:
    name, version, body = line.split(" ")
    return message(name, int(version), *_bytes_of([body]))


def _message_parts_text(data: bytes) -> str:
    name, version, body = split(data)
    return " ".join([name, str(version), *filter(None, [_hex_words(parts_of(body))])])


def _message_parts_data(line: str) -> bytes:
    name, version, *words = line.split(" ")
    return message(name, int(version), joined(_bytes_of(words)))


HEX = Form(lambda data: _hex_words([data]), lambda line: _bytes_of([line])[0])
PARTS = Form(lambda data: _hex_words(parts_of(data)) or _EMPTY, lambda line: joined(_bytes_of(line.split(" "))))
TEXT = Form(lambda data: json.dumps(data.decode("latin-1")), lambda line: json.loads(line).encode("latin-1"))
MESSAGE = Form(_message_text, _message_data)
MESSAGE_PARTS = Form(_message_parts_text, _message_parts_data)

"""Damaged bytes: both engines agree on every one, and nothing but DecodeError comes out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

import kafkawire
from kafkawire.testing.strategies import messages
from kafkawire.wire.message import Message
from tests.engines import agree, refused
from tests.every import for_each
from tests.random_messages import for_random, seeds
from tests.strategies import for_all

pytestmark = pytest.mark.slow

LENGTHS = [
    *(n.to_bytes(4, "big", signed=True) for n in (-(1 << 31), -2, -1, 0x10000, (1 << 31) - 1)),
    *(n.to_bytes(2, "big", signed=True) for n in (-32768, -2, -1, 32767)),
    *map(bytes.fromhex, ("ffffffff07", "8080808008", "ffffffff0f", "8080808010", "ffffffff7f", "ffffffffff01", "8000")),
]


def mutations(data: bytes, numbers: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        at = numbers.randrange(len(data) + 1)
        kind = numbers.randrange(6)
        if kind == 0 and at < len(data):
            yield data[:at] + bytes([data[at] ^ 1 << numbers.randrange(8)]) + data[at + 1 :]
        elif kind == 1 and at < len(data):
            yield data[:at] + bytes([numbers.choice((0, 1, 2, 127, 128, 255))]) + data[at + 1 :]
        elif kind == 2:
            yield data[:at] + numbers.randbytes(numbers.randint(1, 4)) + data[at:]
        elif kind == 3:
            length = numbers.choice(LENGTHS)
            yield data[:at] + length + data[at + len(length) :]
        elif kind == 4:
            yield data[:at] + data[at + numbers.randint(1, 4) :]
        else:
            yield data[:at] + data[at : at + 16] * numbers.randint(2, 4) + data[at + 16 :]


@for_each(kafkawire.messages.__all__)
def test_engines_agree_on_damaged_bytes(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    for version in cls.spec.valid_versions:
        for_random(cls, version, 0.034, f"{name} {version}", partial(damage, cls, version))


def damage(cls: type[Message], version: int, value: Any, numbers: random.Random) -> None:
    data = value.encode(version)
    agree(cls, version, data)
    assert refused(cls, version, data, strict=True) is None
    for damaged in mutations(data, numbers, 12):
        agree(cls, version, damaged)
    # Every truncation of a short message, and some of a long one: no prefix of a message is a message.
    cuts = range(len(data))
    for cut in cuts if len(data) <= 48 else numbers.sample(cuts, 12):
        assert agree(cls, version, data[:cut]) is not None


@for_each(kafkawire.messages.__all__)
def test_engines_agree_on_any_bytes(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    version = cls.spec.valid_versions[-1]
    for seed in seeds(0.5, name):
        numbers = random.Random(seed)
        few = [b"\0", b"\1", b"\2", b"\xff", b"\x80", *LENGTHS, *map(numbers.randbytes, (1, 1, 2, 2, 3, 3))]
        data = b"".join(numbers.choices(few, k=numbers.randint(0, 12)))
        try:
            agree(cls, version, data)
        except BaseException as error:
            error.add_note(data.hex())
            raise


def test_every_truncation_is_refused() -> None:
    for_all(st.data(), 0.5, "truncations", truncate)


def truncate(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(kafkawire.messages.__all__))
    cls: type[Message] = getattr(kafkawire.messages, name)
    version = data.draw(st.sampled_from(cls.spec.valid_versions))
    encoded = data.draw(messages(cls, version)).encode(version)
    assume(len(encoded) < 400)
    for cut in range(len(encoded)):
        assert agree(cls, version, encoded[:cut]) is not None

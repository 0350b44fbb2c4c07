"""Random messages at a tenth of the time that Hypothesis takes, for checks of a few examples over every version.

They have the values of `kafkawire.testing.strategies` (tests/wire/test_random_messages.py). They are not made smaller
when a check fails: its error has the value and the seed.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import settings

from kafkawire.testing.strategies import BLOBS, LENGTHS, RANGES, TAGS, TEXTS, UUIDS, WIDTHS, borders
from kafkawire.wire.layout import STRUCT
from kafkawire.wire.message import Message, Struct
from kafkawire.wire.spec import Field
from kafkawire.wire.values import TaggedField

Draw = Callable[[random.Random], Any]

#: Code points of one to four bytes, without surrogates.
_PLANES = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))


class _Zeros(random.Random):
    """Draws zero each time: the simplest value."""

    def getrandbits(self, k: int, /) -> int:
        return 0

    def random(self) -> float:
        return 0.0


def for_random(
    cls: type[Message],
    version: int,
    share: float,
    name: str,
    check: Callable[[Any, random.Random], object],
    *,
    most: int | None = None,
) -> None:
    """Runs a check on messages, the simplest one first, and a generator for what else it draws.

    Args:
        share, name: As for `seeds`.
        most: The check gets a list, of 1 to so many messages; None: one message.
    """
    draw = message_of(cls, version)
    for number, seed in enumerate(seeds(share, name)):
        rng = random.Random(seed)
        drawn = rng if number else _Zeros()
        value = draw(drawn) if most is None else [draw(drawn) for _ in range(drawn.randint(1, most))]
        try:
            check(value, rng)
        except BaseException as error:
            error.add_note(f"{name}, seed {seed}: {value!r:.5000}")
            raise


def seeds(share: float, name: str) -> Iterator[int]:
    """Seeds of a share of the profile's examples, two at least; where it is derandomized, the name gives them."""
    default = settings.default
    assert default is not None
    first = zlib.crc32(name.encode()) if default.derandomize else random.SystemRandom().getrandbits(64)
    return iter(range(first, first + max(2, round(default.max_examples * share))))


def message_of(cls: type[Message], version: int) -> Draw:
    """Values that `strategies.messages` has, too."""
    assert version in cls.spec.valid_versions
    return _struct(cls, version, version in cls.spec.flexible_versions, 0)


@cache
def _struct(cls: type[Struct], version: int, flexible: bool, depth: int) -> Draw:
    fields = {field.attribute: _field(cls, field, version, flexible, depth) for field in cls.spec.fields}
    if flexible:
        fields["unknown_tagged_fields"] = _tags(frozenset(field.tag for field in cls.spec.fields))
    return lambda rng: cls(**{name: draw(rng) for name, draw in fields.items()})


def _field(cls: type[Struct], field: Field, version: int, flexible: bool, depth: int) -> Draw:
    default = getattr(cls(), field.attribute)
    if version not in field.versions:
        if not field.ignorable or not field.versions:
            return lambda rng: default
        version = field.versions[-1]
        return _either(lambda rng: default, _value(field, version, flexible, depth))
    value = _value(field, version, flexible, depth)
    return _either(lambda rng: default, value) if version in field.tagged_versions else value


def _value(field: Field, version: int, flexible: bool, depth: int) -> Draw:
    if field.kind == STRUCT:
        value = _struct(field.struct, version, flexible, depth + 1)
        if field.is_array:
            value = _list(value, WIDTHS[min(depth, len(WIDTHS) - 1)])
    elif field.is_array:
        item = SCALARS[field.type[2:]]
        value = _either(_list(item, 4), lambda rng: (item(rng),) * rng.choice(LENGTHS))
    else:
        value = SCALARS[field.type]
    return _either(lambda rng: None, value) if version in field.nullable_versions else value


def _either(*draws: Draw) -> Draw:
    return lambda rng: rng.choice(draws)(rng)


def _list(item: Draw, most: int) -> Draw:
    return lambda rng: tuple([item(rng) for _ in range(rng.randint(0, most))])


def _integer(low: int, high: int) -> Draw:
    edges = borders(low, high)
    return lambda rng: rng.choice(edges) if rng.getrandbits(1) == 0 else rng.randint(low, high)


def _characters(rng: random.Random) -> str:
    return "".join([chr(rng.randint(*rng.choice(_PLANES))) for _ in range(rng.randint(0, 8))])


def _undecodable(rng: random.Random) -> str:
    return rng.randbytes(rng.randint(0, 6)).decode("utf-8", "surrogateescape")


def _bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randint(0, 8))


def _float(rng: random.Random) -> float:
    found: float = struct.unpack(">d", rng.randbytes(8))[0]
    return found


_blob = _either(_bytes, lambda rng: rng.choice(BLOBS))

SCALARS: dict[str, Draw] = {
    "bool": lambda rng: rng.getrandbits(1) == 1,
    "float64": _either(_float, lambda rng: rng.choice((0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan")))),
    "uuid": _either(lambda rng: rng.choice(UUIDS), lambda rng: UUID(int=rng.getrandbits(128))),
    "string": _either(_characters, lambda rng: rng.choice(TEXTS), _undecodable),
    "bytes": _blob,
    "records": _blob,
    **{name: _integer(low, high) for name, (low, high) in RANGES.items()},
}


@cache
def _tags(own: frozenset[int | None]) -> Draw:
    """Ascending tags that the struct knows in no version; half the time none."""
    known = sorted({*range(21), *TAGS} - own)

    def draw(rng: random.Random) -> tuple[TaggedField, ...]:
        if rng.getrandbits(1) == 0:
            return ()
        return tuple([TaggedField(tag, _blob(rng)) for tag in sorted(rng.sample(known, rng.randint(1, 3)))])

    return draw

"""Our own random values, made from `spec` alone (never from the layouts that codecs execute), quickly and by seed."""

from __future__ import annotations

import struct
from random import Random
from typing import Any
from uuid import UUID

from kafkawire.wire.message import Message, Struct
from kafkawire.wire.spec import Field
from kafkawire.wire.values import TaggedField

_BORDERS = (0, 1, 126, 127, 128, 129)
_LONG = (16381, 16382, 16383, 16384, 16385, 32767)
_TAGS = (0, 1, 5, 127, 128, 16383, 16384, (1 << 28) - 1, (1 << 31) - 2)
_SIGNS = (
    "a", "Z", '"', "\\", "\0", "\n", "é", "\u07ff", "\u0800", "中", "\uffff", "\ufeff", "\ufffd", "𐀀", "😀",
    "\U0010ffff",
)  # fmt: skip
_FLOATS = tuple(
    struct.unpack(">d", bytes.fromhex(bits))[0]
    for bits in (
        "0000000000000000", "8000000000000000", "7ff0000000000000", "fff0000000000000", "7ff8000000000000",
        "7ff8000000000001", "fff80000deadbeef", "0000000000000001", "7fefffffffffffff", "3ff0000000000000",
    )
)  # fmt: skip
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}


#: About how many bytes a random value has, and an extreme one.
BUDGET, EXTREME_BUDGET = 1_500, 40_000


def make(cls: type[Message], version: int, seed: str, *, extreme: bool = False, budget: int = BUDGET) -> Any:
    """A value that the version can carry; the same arguments give the same value.

    Args:
        version: of the class. `seed`: text; equal seeds give equal values.
        extreme: lengths and numbers at their limits. `budget`: about how many bytes.
    """
    random = Random(f"{cls.spec.name} {version} {seed}")
    flexible = version in cls.spec.flexible_versions
    return _Maker(random, version, flexible, extreme, EXTREME_BUDGET if extreme else budget).struct(cls)


class _Maker:
    def __init__(self, random: Random, version: int, flexible: bool, extreme: bool, budget: int) -> None:
        self.random = random
        self.version = version
        self.flexible = flexible
        self.extreme = extreme
        self.budget = budget  # what comes when it is used up is small

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def struct(self, cls: type[Struct]) -> Any:
        values: dict[str, Any] = {}
        for field in cls.spec.fields:
            carried = self.version in field.versions
            # A field that the version does not have is dropped if its schema has `ignorable`, and refused otherwise.
            if self.version in field.tagged_versions and self.chance(3):
                continue
            if carried or (field.ignorable and field.versions and self.chance(8)):
                values[field.attribute] = self.value(field, self.version if carried else field.versions[-1])
        if self.flexible and self.chance(2 if self.extreme else 4):
            values["unknown_tagged_fields"] = self.tags({field.tag for field in cls.spec.fields})
        return cls(**values)

    def value(self, field: Field, version: int) -> Any:
        if version in field.nullable_versions and self.chance(4):
            return None
        if not field.is_array:
            return self.item(field)
        return tuple(self.item(field) for _ in range(self.count(field)))

    def count(self, field: Field) -> int:
        small = field.struct is None and field.type != "[]string"
        if self.budget <= 0:
            return self.random.randrange(2)
        if self.extreme and self.chance(3):
            return self.random.choice(_BORDERS)
        if self.extreme and small and self.chance(12):
            return self.random.choice(_LONG[:5])
        return self.random.randrange(6 if small else 4)

    def item(self, field: Field) -> Any:
        self.budget -= 8
        kind = field.type.removeprefix("[]")
        if field.struct is not None:
            return self.struct(field.struct)
        if kind == "bool":
            return self.chance(2)
        if kind == "float64":
            if self.chance(2):
                return self.random.choice(_FLOATS)
            return struct.unpack(">d", self.random.randbytes(8))[0]
        if kind == "uuid":
            return UUID(int=self.random.choice((0, (1 << 128) - 1, *(self.random.getrandbits(128) for _ in range(2)))))
        if kind == "string":
            return self.text()
        if kind in ("bytes", "records"):
            return self.random.randbytes(self.length())
        return self.integer(kind)

    def integer(self, kind: str) -> int:
        bits = _BITS[kind]
        half = 1 << (bits - 1)
        low, high = (0, 2 * half - 1) if kind.startswith("u") else (-half, half - 1)
        choices = (low, high, max(low, -1), 0, self.random.randrange(100), self.random.randint(low, high))
        return self.random.choice(choices[:4] if self.extreme and self.chance(2) else choices)

    def length(self) -> int:
        length = self.random.randrange(12)
        if self.budget > 0 and self.chance(2 if self.extreme else 10):
            length = self.random.choice(_BORDERS)
        if self.budget > 20_000 and self.chance(6):
            length = self.random.choice(_LONG)
        self.budget -= length
        return length

    def text(self) -> str:
        """A string whose UTF-8 has exactly the length that was drawn."""
        left = self.length()
        signs = []
        while left > 0:
            sign = self.random.choice(_SIGNS)
            size = len(sign.encode())
            if size > left:
                sign, size = "x", 1
            signs.append(sign)
            left -= size
        return "".join(signs)

    def tags(self, known: set[int | None]) -> tuple[TaggedField, ...]:
        some = {
            self.random.choice(_TAGS) if self.chance(2) else self.random.randrange(1 << self.random.randint(1, 30))
            for _ in range(self.random.randint(1, 3))
        }
        return tuple(TaggedField(tag, self.random.randbytes(self.length())) for tag in sorted(some - known))

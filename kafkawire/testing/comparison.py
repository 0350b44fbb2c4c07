"""Functions for tests of round trips: `carried`, a message as it comes out of a version's bytes, and `same`, equality
of two values."""

from __future__ import annotations

import struct
from typing import Any

from kafkawire.wire.layout import STRUCT
from kafkawire.wire.message import Struct
from kafkawire.wire.values import TaggedField


def carried(value: Any, version: int) -> Any:
    """A value after it went through the bytes of a version: fields that it lacks are at their default."""
    defaults = type(value)()
    values = {}
    for field in value.spec.fields:
        item = getattr(value if version in field.versions else defaults, field.attribute)
        if field.kind == STRUCT and item is not None:
            item = tuple(carried(part, version) for part in item) if field.is_array else carried(item, version)
        values[field.attribute] = item
    return type(value)(**values, unknown_tagged_fields=value.unknown_tagged_fields)


def same(left: Any, right: Any) -> bool:
    """Equality under which NaN equals NaN, and 1 differs from True as 0.0 from -0.0; memoryviews equal their bytes."""
    if isinstance(left, memoryview):
        left = bytes(left)
    if isinstance(right, memoryview):
        right = bytes(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack(">d", left) == struct.pack(">d", right)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (Struct, TaggedField)):
        return all(same(getattr(left, name), getattr(right, name)) for name in left.__struct_fields__)
    return bool(left == right)

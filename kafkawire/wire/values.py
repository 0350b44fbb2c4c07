"""The value types that readers, writers and the interpreter use."""

from __future__ import annotations

from mmap import mmap
from uuid import UUID

import msgspec

#: What codecs import of it (`kafkawire.runtime`).
__all__ = ["BOOLS", "NO_FIELDS", "ZERO_UUID", "Buffer", "TaggedField"]

#: What messages are read from.
Input = bytes | bytearray | memoryview | mmap

#: What codecs read: `memoryview` for input that is not to be copied.
Buffer = bytes | bytearray | memoryview

ZERO_UUID = UUID(int=0)

#: What a bool field may hold: True and False, and what is equal to them. Truth alone would write "false" as true.
BOOLS = {False: False, True: True}


def octets(data: Input) -> Input:
    """The input with one byte an item, which is what lengths and offsets count."""
    if isinstance(data, memoryview) and not is_octets(data):
        try:
            return data.cast("B")
        except TypeError:  # its items do not lie in a row, or have a format that views do not know
            return data.tobytes()
    return data


def may_change(view: memoryview) -> bool:
    """Whether the bytes of a view may change while they are read: another thread may write to its object, or another
    process to the file that is mapped."""
    return isinstance(view.obj, mmap) or not memoryview(view.obj).readonly


def is_octets(value: object) -> bool:
    """Whether a value is bytes in a row, one an item, so that its length is what is written."""
    if isinstance(value, memoryview):
        return value.format == "B" and value.ndim == 1 and value.c_contiguous
    return isinstance(value, (bytes, bytearray))


class TaggedField(msgspec.Struct, frozen=True, gc=False):
    """A tagged field that the schema does not know: its number and its bytes, kept and written back."""

    tag: int
    data: bytes


#: The unknown tagged fields of nearly all values. There is one empty tuple, so that `is` suffices.
NO_FIELDS: tuple[TaggedField, ...] = ()

"""Reading and writing of tagged fields, with which structs of flexible versions end.

A class with tagged fields in its schema has a `Tags`, a table with a line for each. Fields that are not in the table
are unknown tagged fields; they are kept and written back. Functions raise the errors of `read` and `write`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from kafkawire.wire.limits import MAX_TAGS
from kafkawire.wire.read import read_uvarint
from kafkawire.wire.values import NO_FIELDS, Buffer, TaggedField
from kafkawire.wire.write import Append, check_array, check_bytes, uvarint

#: What codecs import of it (`kafkawire.runtime`).
__all__ = ["NO_TAGS", "Tag", "Tags", "read_tags", "read_unknown_tags", "unknown_tags", "write_tags"]

NO_TAGS = b"\x00"


class Tag(NamedTuple):
    """One tagged field: its number, its attribute, the versions in which it is tagged, and what reads and writes it.

    `nested`: reader and writer take the version, for there are structs in the field.
    """

    tag: int
    attribute: str
    versions: range
    read: Callable[..., tuple[Any, int]]
    write: Callable[..., None]
    nested: bool = False


#: By tag: the place of the value, what reads it, whether that takes the version; None for a tag of other versions only.
_Readers = Mapping[int, tuple[int, Callable[..., tuple[Any, int]], bool] | None]
#: Ascending by tag: tag, attribute, default, what writes it, whether that takes the version.
_Writers = tuple[tuple[int, str, Any, Callable[..., None], bool], ...]


class Tags(dict[int, tuple[_Readers, _Writers]]):
    """The tagged fields of a class: by version, what reads and what writes them."""

    def __init__(self, cls: Any, *tags: Tag) -> None:
        self.tags = sorted(tags)
        slots = cls.__struct_fields__
        attributes = sorted({tag.attribute for tag in tags}, key=slots.index)
        defaults = dict(zip(slots, cls.__struct_defaults__, strict=True))
        self.places = {attribute: place for place, attribute in enumerate(attributes)}
        self.defaults = tuple(defaults[attribute] for attribute in attributes)

    def __missing__(self, version: int) -> tuple[_Readers, _Writers]:
        readers: dict[int, Any] = dict.fromkeys(tag.tag for tag in self.tags)
        writers = []
        for tag, attribute, versions, read, write, nested in self.tags:
            if version in versions:
                place = self.places[attribute]
                readers[tag] = place, read, nested
                writers.append((tag, attribute, self.defaults[place], write, nested))
        plan = self[version] = readers, tuple(writers)
        return plan


def read_tags(tags: Tags, b: Buffer, p: int, version: int) -> tuple[Any, ...]:
    """The tagged fields at `p`: the values of the class's own in the order of its slots, the unknown ones, the position
    after them.

    As Kafka does it, the size of a known field is skipped unread, order is free, and of a field given twice the later
    value counts.

    Args:
        tags: of the class.
        b, p, version: the buffer, the position in it, and the version of the message.
    """
    if not b[p]:
        return (*tags.defaults, (), p + 1)
    count, p = _count(b, p)
    readers = tags[version][0]
    values = list(tags.defaults)
    unknown: list[TaggedField] = []
    for _ in range(count):
        number, size, p = _head(b, p)
        if number in readers:
            known = readers[number]
            if known is None:
                raise ValueError
            place, read, nested = known
            values[place], p = read(b, p, version) if nested else read(b, p)
        else:
            field, p = _unknown(number, size, b, p)
            unknown.append(field)
    return (*values, tuple(unknown), p)


def read_unknown_tags(b: Buffer, p: int) -> tuple[tuple[TaggedField, ...], int]:
    """The tagged fields at `p` of a class that has none of its own."""
    count, p = _count(b, p)
    unknown: list[TaggedField] = []
    for _ in range(count):
        number, size, p = _head(b, p)
        field, p = _unknown(number, size, b, p)
        unknown.append(field)
    return tuple(unknown), p


def _count(b: Buffer, p: int) -> tuple[int, int]:
    count, p = read_uvarint(b, p)
    if not 0 <= count <= len(b) - p or count > MAX_TAGS:
        raise ValueError
    return count, p


def _head(b: Buffer, p: int) -> tuple[int, int, int]:
    number, size = b[p], b[p + 1]
    if number > 127 or size > 127:
        number, p = read_uvarint(b, p)
        size, p = read_uvarint(b, p)
        return number, size, p
    return number, size, p + 2


def _unknown(number: int, size: int, b: Buffer, p: int) -> tuple[TaggedField, int]:
    e = p + size
    if size < 0 or e > len(b):
        raise ValueError
    return TaggedField(number, bytes(b[p:e])), e


def write_tags(tags: Tags, value: Any, out: Append, version: int) -> None:
    """The tagged fields in ascending order: those that are not at their default, then the unknown ones (the tags that a
    schema knows count from 0 without gaps).

    Args:
        tags: of the class.
        value: the struct.
        out, version: the `append` of the list of chunks, and the version of the message.
    """
    readers, writers = tags[version]
    fields: list[tuple[int, Buffer]] = []
    for tag, attribute, default, write, nested in writers:
        field = getattr(value, attribute)
        if field is not default and field != default:
            written = bytearray()
            if nested:
                write(field, written.extend, version)
            else:
                write(field, written.extend)
            fields.append((tag, written))
    unknown = value.unknown_tagged_fields
    if unknown is not NO_FIELDS:
        _check_unknown(unknown, readers)
        fields.extend((field.tag, field.data) for field in unknown)
    if fields:
        out(_joined(fields))
    else:
        out(NO_TAGS)


def unknown_tags(unknown: Any) -> bytes:
    """The bytes of the tagged fields of a class that has none of its own."""
    _check_unknown(unknown, ())
    return _joined([(field.tag, field.data) for field in unknown])


def _joined(fields: list[tuple[int, Buffer]]) -> bytes:
    if len(fields) > MAX_TAGS:
        raise ValueError
    chunks: list[Buffer] = [uvarint(len(fields))]
    for number, data in fields:
        chunks += uvarint(number), uvarint(len(data)), data
    return b"".join(chunks)


def _check_unknown(unknown: Sequence[Any], known: Container[int]) -> None:
    """Unknown tags must ascend, be none that the schema knows, and stay below 2^31 - 1 (RawTaggedFieldWriter)."""
    check_array(unknown)
    last = -1
    for field in unknown:
        if not last < field.tag < 0x7FFFFFFF or field.tag in known:
            raise ValueError(field.tag)
        check_bytes(field.data)
        last = field.tag

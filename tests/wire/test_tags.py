"""`tags`: tagged fields of a class, known and unknown, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.wire import read, write
from kafkawire.wire.limits import MAX_TAGS
from kafkawire.wire.tags import Tag, Tags, read_tags, read_unknown_tags, unknown_tags, write_tags
from kafkawire.wire.values import TaggedField


class Tagged:
    __struct_fields__ = ("number", "text", "old", "unknown_tagged_fields")
    __struct_defaults__ = (-1, "", 0, ())

    def __init__(self, unknown: Any = (), number: int = -1, text: str = "") -> None:
        self.unknown_tagged_fields = unknown
        self.number = number
        self.text = text
        self.old = 5  # not at its default: version 1 does not have it


TAGS = Tags(
    Tagged,
    Tag(3, "old", range(1), read.read_int8, write.write_int8),
    Tag(2, "text", range(2), read.read_compact_string, write.write_compact_string),
    Tag(0, "number", range(1, 2), read.read_int16, write.write_int16),
)


def written(value: Any, version: int = 1) -> bytes:
    chunks: list[Any] = []
    write_tags(TAGS, value, chunks.append, version)
    return b"".join(chunks)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("00", (-1, "", 0, ())),
        ("8000", (-1, "", 0, ())),
        ("01 00 02 0102", (258, "", 0, ())),
        ("02 00 02 0102 02 03 03 6162", (258, "ab", 0, ())),
        # The size of a known field is not looked at, nor is the order; of two the later counts.
        ("03 02 00 02 61 00 7f 0001 00 02 0002", (2, "a", 0, ())),
        ("02 01 01 ff 04 00", (-1, "", 0, (TaggedField(1, b"\xff"), TaggedField(4, b"")))),
        ("01 7f 01 aa", (-1, "", 0, (TaggedField(127, b"\xaa"),))),
        ("01 8001 01 aa", (-1, "", 0, (TaggedField(128, b"\xaa"),))),
        ("01 01 8100 aa", (-1, "", 0, (TaggedField(1, b"\xaa"),))),
        ("01 8000 02 0102", (258, "", 0, ())),
        ("01 01 8001" + "bb" * 128, (-1, "", 0, (TaggedField(1, b"\xbb" * 128),))),
        ("8100 01 00", (-1, "", 0, (TaggedField(1, b""),))),
    ],
)
def test_reads_tagged_fields(text: str, values: tuple[Any, ...]) -> None:
    data = bytes.fromhex(text)
    assert read_tags(TAGS, b"?" + data + b"?", 1, 1) == (*values, 1 + len(data))
    for cut in range(len(data)):
        try:
            *_, end = read_tags(TAGS, data[:cut], 0, 1)
        except read.FAILURES:
            continue
        assert end > cut  # behind the buffer's end: the caller notices


def test_reads_unknown_tagged_fields_of_a_class_without_its_own() -> None:
    data = bytes.fromhex("02 00 01 ff 8001 00")
    assert read_unknown_tags(data + b"?", 0) == ((TaggedField(0, b"\xff"), TaggedField(128, b"")), len(data))
    for cut in range(len(data)):
        with pytest.raises(read.FAILURES):
            read_unknown_tags(data[:cut], 0)


@pytest.mark.parametrize("text", ["01 03 00", "01 01 ffffffff0f aa", "ffffffff0f 00", "03 01 00", "01 01 02 aa"])
def test_refuses_malformed_tagged_fields_and_tags_of_other_versions(text: str) -> None:
    with pytest.raises(read.FAILURES):
        read_tags(TAGS, bytes.fromhex(text), 0, 1)


def test_a_tag_is_known_in_its_versions() -> None:
    assert read_tags(TAGS, bytes.fromhex("01 03 01 07"), 0, 0) == (-1, "", 7, (), 4)
    with pytest.raises(read.FAILURES):
        read_tags(TAGS, bytes.fromhex("01 00 02 0102"), 0, 0)
    assert written(Tagged(), 0) == bytes.fromhex("01 03 01 05")
    assert written(Tagged(), 1) == b"\0"


def test_a_tagged_struct_is_given_the_version() -> None:
    versions: list[int] = []

    def read_struct(b: Any, p: int, version: int) -> tuple[int, int]:
        versions.append(version)
        return b[p], p + 1

    def write_struct(value: int, out: Any, version: int) -> None:
        versions.append(version)
        out(bytes([value]))

    tags = Tags(Tagged, Tag(0, "number", range(9), read_struct, write_struct, nested=True))
    assert read_tags(tags, b"\1\0\1\7", 0, 5) == (7, (), 4)
    chunks: list[Any] = []
    write_tags(tags, Tagged(number=7), chunks.append, 6)
    assert (b"".join(chunks), versions) == (b"\1\0\1\7", [5, 6])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Tagged(), "00"),
        (Tagged([]), "00"),
        (Tagged(number=258), "01 00 02 0102"),
        (Tagged(text="ab"), "01 02 03 03 6162"),
        (Tagged(number=0, text="x" * 127), "02 00 02 0000 02 8101 8001" + "78" * 127),
        (Tagged((TaggedField(1, b""), TaggedField(300, b"\xff"))), "02 01 00 ac02 01 ff"),
        (Tagged([TaggedField(4, memoryview(b"ab"))], 1), "02 00 02 0001 04 02 6162"),  # type: ignore[arg-type]
        (Tagged((TaggedField((1 << 31) - 2, b""),)), "01 feffffff07 00"),
    ],
)
def test_writes_tagged_fields(value: Any, text: str) -> None:
    assert written(value) == bytes.fromhex(text)


@pytest.mark.parametrize(
    "unknown",
    [
        None, "ab", {1}, (5,), (TaggedField(0, b""),), (TaggedField(3, b""),), (TaggedField(-1, b""),),
        (TaggedField((1 << 31) - 1, b""),), (TaggedField(5, b""), TaggedField(5, b"")),
        (TaggedField(7, b""), TaggedField(5, b"")), (TaggedField(5, "x"),), (TaggedField(5, None),),  # type: ignore[arg-type]
        (TaggedField(5, memoryview(b"abcd")[::2]),),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_refuses_to_write_unknown_tags_that_a_reader_would_not_return(unknown: Any) -> None:
    with pytest.raises(write.FAILURES):
        written(Tagged(unknown))


def test_writes_unknown_tagged_fields_of_a_class_without_its_own() -> None:
    assert unknown_tags((TaggedField(0, b"a"), TaggedField(5, b""))) == bytes.fromhex("02 00 01 61 05 00")
    assert unknown_tags([]) == b"\0"
    for unknown in (None, "ab", (TaggedField(5, b""), TaggedField(5, b""))):
        with pytest.raises(write.FAILURES):
            unknown_tags(unknown)


def test_limits_the_number_of_tagged_fields() -> None:
    for count, number in ((MAX_TAGS, -1), (MAX_TAGS - 1, 5)):
        unknown = tuple(TaggedField(tag, b"") for tag in range(4, count + 4))
        data = written(Tagged(unknown, number))
        assert read_tags(TAGS, data, 0, 1) == (number, "", 0, unknown, len(data))
    more = (*unknown, TaggedField(1 << 20, b""))
    with pytest.raises(write.FAILURES):
        written(Tagged(more, 5))
    with pytest.raises(read.FAILURES):
        read_unknown_tags(write.uvarint(MAX_TAGS + 1) + b"\1\0" * (MAX_TAGS + 1), 0)

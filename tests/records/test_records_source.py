"""Where bytes come from: memory of every kind, and sources that know their own way."""

from __future__ import annotations

from array import array
from mmap import mmap

import pytest

from kafkawire.records.source import Memory, source_of


def mapped(data: bytes) -> mmap:
    memory = mmap(-1, len(data))
    memory[:] = data
    return memory


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, mapped])
def test_memory(kind: type) -> None:
    source = source_of(kind(b"some bytes"))
    assert isinstance(source, Memory)
    assert source.size == 10
    assert [bytes(source.at(5, length)) for length in (0, 3, 5, 6)] == [b"", b"byt", b"bytes", b"bytes"]
    assert bytes(source.at(11, 4)) == b""


def test_sizes_count_bytes_whatever_the_items_are() -> None:
    source = source_of(memoryview(array("i", [0, 1])))
    assert (source.size, len(source.at(2, 100))) == (8, 6)


def test_a_view_with_gaps_is_read_as_the_bytes_it_stands_for() -> None:
    source = source_of(memoryview(b"s.o.m.e.")[::2])
    assert (source.size, bytes(source.at(1, 9))) == (4, b"ome")


def test_a_source_is_taken_as_it_is() -> None:
    source = Memory(b"x")
    assert source_of(source) is source

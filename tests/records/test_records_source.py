"""Where bytes come from: memory of every kind, and sources that know their own way."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections.abc import Callable
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from pathlib import Path
from typing import Any

import pytest

from kafkawire.records import Record, build
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


@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytearray(data)).toreadonly(), mapped])
def test_what_was_read_does_not_change_with_memory_that_does(kind: Callable[[bytes], Any]) -> None:
    given = kind(b"some bytes")
    found = source_of(given).at(5, 3)
    written = given.obj if isinstance(given, memoryview) else given
    written[5:8] = b"abc"
    assert (bytes(found), bytes(source_of(given).at(5, 3))) == (b"byt", b"abc")


def test_memory_that_cannot_change_is_not_copied() -> None:
    data = b"some bytes"
    for given in (data, memoryview(data)):
        assert source_of(given).at(5, 3).obj is data


def test_a_mapping_without_the_size_of_a_file_is_copied(tmp_path: Path) -> None:
    """It cannot be asked whether the file has become shorter."""
    given = [mapped(b"some bytes")]
    if sys.version_info >= (3, 13):
        path = tmp_path / "a.log"
        path.write_bytes(b"some bytes")
        with path.open("r+b") as file:
            given.append(mmap(file.fileno(), 0, trackfd=False))
    for memory in given:
        source = source_of(memory)
        memory[5:8] = b"abc"
        assert (source.size, bytes(source.at(0, 10))) == (10, b"some bytes")


@pytest.mark.parametrize("start", [0, ALLOCATIONGRANULARITY])
@pytest.mark.parametrize("skipped", [0, 2])
def test_reads_of_a_part_of_a_mapped_file_end_before_the_file_does(tmp_path: Path, start: int, skipped: int) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(bytes(start) + b"some bytes")
    with path.open("rb") as file:
        source = source_of(memoryview(mmap(file.fileno(), 0, access=ACCESS_READ, offset=start))[skipped:])
    assert bytes(source.at(0, 10)) == b"some bytes"[skipped:]
    os.truncate(path, start + 4)
    assert bytes(source.at(0, 10)) == b"some"[skipped:]
    os.truncate(path, start)
    assert bytes(source.at(0, 10)) == b""


@pytest.mark.slow
def test_a_mapped_file_that_becomes_shorter_is_damage(tmp_path: Path) -> None:
    """Touching pages behind the end of the file ends the process with SIGBUS."""
    path = tmp_path / "a.log"
    path.write_bytes(build([Record(value=b"v" * 1000)]) * 100)
    script = f"""
import mmap, os
from kafkawire.records import columns, read
for readers in (read, columns.read):
    size = os.path.getsize({str(path)!r})
    with open({str(path)!r}, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = readers(data)
        os.truncate({str(path)!r}, size // 2)
        *_, damage = found
        print(damage.detail)
        found = item = _ = None
"""
    size = path.stat().st_size
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    expected = [f"ended at {size // cut}, was {2 * size // cut} when opened" for cut in (2, 4)]
    assert done.stdout.splitlines() == expected

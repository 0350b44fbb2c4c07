"""Captures in files that a program rotates over."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafkawire import capture
from kafkawire.capture import ring
from kafkawire.rows import Exchange
from tests.capture.wiretap import Conversation, ask, ethernet, pcap, pcapng

DUMPCAP = [f"ring_{number:05}_2026112300{number:04}.pcapng" for number in range(1, 30)]
HEADER_BYTES = 24


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "POLL_S", 0)


def packets() -> list[bytes]:
    talk = Conversation(mss=50)
    for number in range(1, 21):
        ask(talk, number)
    return list(map(ethernet, talk.close().packets))


PACKETS = packets()
WHOLE = pcap(PACKETS)


def part(first: int, last: int) -> bytes:
    """The packets of a capture from `first` up to `last`, with their times, as a file."""
    starts = [HEADER_BYTES]
    for packet in PACKETS:
        starts.append(starts[-1] + 16 + len(packet))
    return WHOLE[:HEADER_BYTES] + WHOLE[starts[first] : starts[last]]


def parts(count: int) -> list[bytes]:
    cuts = [len(PACKETS) * number // count for number in range(count + 1)]
    return [part(first, last) for first, last in pairwise(cuts)]


def content(rows: Sequence[Exchange]) -> list[dict[str, Any]]:
    return [{name: value for name, value in msgspec.to_builtins(row).items() if name != "file"} for row in rows]


def plain(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "whole"
    path.write_bytes(WHOLE)
    return content(list(capture.read(path)))


def script(steps: Sequence[Callable[[], object]]) -> Callable[[], bool]:
    """Takes one step each time the reader has nothing to read, then lets it end."""
    left: Iterator[Callable[[], object]] = iter(steps)

    def goes_on() -> bool:
        step = next(left, None)
        if step is None:
            return False
        step()
        return True

    return goes_on


@pytest.mark.parametrize(
    "names",
    [
        DUMPCAP[:12],
        [f"ring{number:02}" for number in (9, 10, 11, *range(9))],  # tcpdump -W 12, rotated over
        ["ring", *(f"ring{number}" for number in range(1, 12))],  # tcpdump -C
        [f"ring-2026-11-23T00:{number:02}.pcap" for number in range(12)],  # tcpdump -G
    ],
    ids=["dumpcap", "tcpdump -W", "tcpdump -C", "tcpdump -G"],
)
def test_files_are_one_capture_in_order_of_time(names: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    for name, data in zip(names, parts(len(names)), strict=True):
        (folder / name).write_bytes(data)
    expected = plain(tmp_path)
    for path in (folder, folder / "ring*"):
        found = capture.read(path)
        assert content(list(found)) == expected
        assert found.summary.packets == len(PACKETS)
        assert found.summary.connections == {"kafka": 1}


def test_files_with_packets_of_one_time_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number, packet in enumerate(PACKETS):
        (tmp_path / f"ring{number}").write_bytes(pcap([packet]))
    rows = list(capture.read(tmp_path / "ring*"))
    assert [row.correlation_id for row in rows] == list(range(1, 21))
    assert not any(row.problem for row in rows)


def test_follows_files_that_grow_and_rotate(tmp_path: Path) -> None:
    steps: list[Callable[[], object]] = []

    def append(name: str, piece: bytes) -> Callable[[], object]:
        def step() -> None:
            with (tmp_path / name).open("ab") as file:
                file.write(piece)

        return step

    for name, data in zip(DUMPCAP, parts(7), strict=False):
        steps += [append(name, data[at : at + 100]) for at in range(0, len(data), 100)]
    found = capture.read(tmp_path / "*.pcapng", follow=script(steps))
    rows = list(found)
    assert content(rows) == plain(tmp_path)
    assert found.summary.unread == 0


def test_bytes_written_just_before_the_next_file_are_read(tmp_path: Path) -> None:
    """A file's last bytes and the next file come between two looks."""
    first, second = parts(2)

    def finish() -> None:
        (tmp_path / DUMPCAP[0]).write_bytes(first)
        (tmp_path / DUMPCAP[1]).write_bytes(second)

    (tmp_path / DUMPCAP[0]).write_bytes(first[:500])
    found = capture.read(tmp_path / "*.pcapng", follow=script([finish]))
    assert content(list(found)) == plain(tmp_path)


def test_file_that_is_deleted_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    first, second = parts(2)
    (tmp_path / "ring1").write_bytes(first)

    def rotate() -> None:
        (tmp_path / "ring1").unlink()
        (tmp_path / "ring2").write_bytes(second)

    found = capture.read(tmp_path / "ring*", follow=script([rotate]))
    assert content(list(found)) == plain(tmp_path)
    assert found.summary.unread == 0


def test_overwritten_file_is_reported_with_what_was_lost(tmp_path: Path) -> None:
    first, second = parts(2)
    path = tmp_path / "ring0"
    path.write_bytes(first)

    class Slow(ring._RingFile):
        """Reads up to a place, then the writer overwrites the file."""

        def read1(self, size: int, /) -> bytes:
            data = super().read1(min(size, max(0, 700 - self._position)) or size)
            if self._position == 700 and path.read_bytes() == first:
                path.write_bytes(second)
            return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring, "_RingFile", Slow)
        found = capture.read(path.with_name("ring*"), follow=script([]))
        rows = list(found)
    problems = [row.problem for row in rows if row.problem and "overwritten" in row.problem]
    assert problems
    assert f"{len(first) - 700} bytes were passed over" in problems[0]
    assert found.summary.unread >= len(first) - 700
    assert found.summary.packets > len(PACKETS) // 2  # the new content was read, too


def test_file_that_is_gone_before_it_is_read_is_reported(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in DUMPCAP[:3]]
    for path, data in zip(paths, parts(3), strict=True):
        path.write_bytes(data)
    lost = paths[1].stat().st_size
    found = capture.read(tmp_path)
    rows = iter(found)
    taken = [next(rows)]
    paths[1].unlink()
    taken += rows
    problems = [row.problem for row in taken if "deleted" in (row.problem or "")]
    assert problems == [
        f"the file is damaged after packet {len(PACKETS) // 3}: at byte 0: expected {paths[1]}, found that it was "
        f"deleted or overwritten before it was read; {lost} bytes were passed over"
    ]
    assert found.summary.unread == lost
    assert taken[-1].correlation_id == 20


def test_numbers_that_were_passed_over_are_reported(tmp_path: Path) -> None:
    for name, data in zip((DUMPCAP[0], DUMPCAP[4]), parts(2), strict=True):
        (tmp_path / name).write_bytes(data)
    rows = list(capture.read(tmp_path))
    assert [row.problem for row in rows if row.problem] == [
        f"the file is damaged after packet {len(PACKETS) // 2}: at byte 0: expected file number 2 to 4, "
        "found number 5 only; 0 bytes were passed over"
    ]


def test_file_that_is_no_capture_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "ring-notes.txt").write_text("hello")
    (tmp_path / "ring0").write_bytes(WHOLE)
    (tmp_path / "ring1").write_bytes(b"")
    (tmp_path / "ring2").write_bytes(WHOLE[:HEADER_BYTES])
    found = capture.read(tmp_path / "ring*")
    rows = list(found)
    assert len([row for row in rows if row.api]) == 20
    (problem,) = [row.problem for row in rows if not row.api]
    assert problem is not None
    assert "expected a pcap or pcapng file, found" in problem
    assert "ring-notes.txt" in problem


def test_file_and_its_compressed_copy_are_read_once(tmp_path: Path) -> None:
    first, second = parts(2)
    (tmp_path / "ring0").write_bytes(first)
    (tmp_path / "ring0.gz").write_bytes(gzip.compress(first))
    (tmp_path / "ring1.gz").write_bytes(gzip.compress(second))
    assert content(list(capture.read(tmp_path / "ring*"))) == plain(tmp_path)


def test_file_cut_within_a_packet_is_reported_and_the_next_is_read(tmp_path: Path) -> None:
    first, second = parts(2)
    (tmp_path / "ring0").write_bytes(first[:-10])
    (tmp_path / "ring1").write_bytes(second)
    rows = list(capture.read(tmp_path / "ring*"))
    assert any("the file is damaged after packet" in (row.problem or "") for row in rows)
    assert rows[-1].correlation_id == 20


def test_pattern_without_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file matches") as raised:
        list(capture.read(tmp_path / "ring*"))
    assert str(tmp_path / "ring*") in str(raised.value)


def test_name_with_magic_characters_of_a_file_that_exists_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "trace[1].pcap"
    path.write_bytes(WHOLE)
    found = list(capture.read(path))
    assert content(found) == plain(tmp_path)
    assert found[0].file == str(path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("editcap") is None, reason="editcap is not installed")
def test_files_that_editcap_splits_are_one_capture(tmp_path: Path) -> None:
    (tmp_path / "whole.pcapng").write_bytes(pcapng(PACKETS))
    folder = tmp_path / "ring"
    folder.mkdir()
    subprocess.run(["editcap", "-c", "13", tmp_path / "whole.pcapng", folder / "ring.pcapng"], check=True)
    assert len(list(folder.iterdir())) > 3
    expected = content(list(capture.read(tmp_path / "whole.pcapng")))
    assert content(list(capture.read(folder))) == expected

"""Reassembly of segments in any order."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.capture import Chunk, Conflict, Loss, Stream
from kafkawire.capture.tcp_stream import PATIENCE, RECENT_BYTES

DATA = bytes(range(256)) * 4


class Recorder:
    """A stream and its output: `data`, and `gaps` as (position in the data, missing bytes)."""

    def __init__(self, stream: Stream, first: int) -> None:
        self.stream = stream
        self.first = first
        self.data = b""
        self.gaps: list[tuple[int, int]] = []
        self.conflicts: list[int] = []
        self.packet = 0

    def note(self, events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            if isinstance(event, Loss):
                self.gaps.append((len(self.data), event.missing))
            elif isinstance(event, Conflict):
                self.conflicts.append(event.bytes)
            else:
                assert isinstance(event, Chunk)
                self.data += event.data

    def segment(self, position: int, data: bytes) -> None:
        self.packet += 1
        self.note(self.stream.segment((self.first + position) % 2**32, data, self.packet, 0))
        self.note(self.stream.tick())

    def acknowledge(self, position: int) -> None:
        self.stream.acknowledge((self.first + position) % 2**32)


def opened(first: int = 1000, **limits: int) -> Recorder:
    stream = Stream(**limits)
    stream.open((first - 1) % 2**32)
    return Recorder(stream, first)


FIRSTS = st.sampled_from([0, 1, 1000, 2**31, 2**32 - 1, 2**32 - 700])


@given(FIRSTS, st.lists(st.integers(1, len(DATA) - 1), max_size=20), st.integers(0, 1 << 30), st.booleans())
def test_reassembles_any_order_with_duplicates_and_overlaps(
    first: int, cuts: list[int], seed: int, repeat: bool
) -> None:
    edges = sorted({0, *cuts, len(DATA)})
    pieces = [(a, DATA[a:b]) for a, b in pairwise(edges)]
    shuffle = random.Random(seed)
    if repeat:
        for _ in range(5):
            a = shuffle.randrange(len(DATA))
            pieces.append((a, DATA[a : a + shuffle.randrange(400)]))
    shuffle.shuffle(pieces)
    recorder = opened(first)
    for position, data in pieces:
        recorder.segment(position, data)
    assert (recorder.data, recorder.gaps) == (DATA, [])
    assert recorder.stream.held_since is None
    recorder.note(recorder.stream.finish())
    assert recorder.gaps == []


def test_keeps_the_first_copy() -> None:
    recorder = opened()
    recorder.segment(0, b"abc")
    recorder.segment(1, b"XXd")
    recorder.segment(0, b"YYYYe")
    assert recorder.data == b"abcde"
    assert recorder.conflicts == [2, 4]


def test_keeps_the_first_copy_ahead_of_the_order() -> None:
    recorder = opened()
    recorder.segment(4, b"ef")
    recorder.segment(4, b"eXg")
    recorder.segment(5, b"Yg")
    recorder.segment(0, b"abcd")
    assert recorder.data == b"abcdefg"
    assert recorder.conflicts == [1, 1]


def test_compares_recent_bytes_only() -> None:
    recorder = opened()
    recorder.segment(0, b"a" * 10 + b"b" * RECENT_BYTES)
    recorder.segment(0, b"X" * 10 + b"b" * 10)
    assert recorder.conflicts == []
    recorder.segment(5, b"X" * 5 + b"b" * 9 + b"X")
    assert recorder.conflicts == [1]


def test_is_complete_when_all_bytes_before_the_fin_are_in_order() -> None:
    recorder = opened()
    recorder.stream.close(1006)
    assert not recorder.stream.complete
    recorder.segment(3, b"def")
    recorder.segment(0, b"ab")
    assert not recorder.stream.complete
    recorder.segment(2, b"c")
    assert recorder.stream.complete


def test_ignores_keep_alives_and_empty_segments() -> None:
    recorder = opened()
    recorder.segment(0, b"abc")
    recorder.segment(2, b"\0")
    recorder.segment(3, b"")
    recorder.segment(3, b"d")
    assert (recorder.data, recorder.gaps) == (b"abcd", [])


def test_starts_at_the_first_segment_without_a_syn() -> None:
    recorder = Recorder(Stream(), 77)
    recorder.segment(0, b"")
    assert not recorder.stream.started
    recorder.segment(10, b"abc")
    recorder.segment(13, b"def")
    assert recorder.data == b"abcdef"


def test_gives_up_an_acknowledged_hole_after_some_segments() -> None:
    recorder = opened()
    recorder.segment(0, b"abc")
    recorder.segment(10, b"k")
    recorder.acknowledge(3)
    for i in range(PATIENCE + 5):
        recorder.segment(11 + i, b"x")
    assert recorder.gaps == []  # not acknowledged: it may still be sent again
    recorder.acknowledge(11)
    for i in range(PATIENCE):
        recorder.segment(40 + i, b"y")
    assert recorder.gaps == []
    recorder.segment(60, b"z")
    assert recorder.gaps == [(3, 7)]
    assert recorder.data.startswith(b"abck" + b"x" * (PATIENCE + 5))


def test_a_late_segment_fills_an_acknowledged_hole() -> None:
    recorder = opened()
    recorder.segment(3, b"def")
    recorder.acknowledge(6)
    recorder.segment(0, b"abc")
    assert (recorder.data, recorder.gaps) == (b"abcdef", [])


def test_holds_a_limited_number_of_bytes() -> None:
    recorder = opened(max_held_bytes=100)
    for i in range(12):
        recorder.segment(10 + 10 * i, b"0123456789")
    assert recorder.gaps == [(0, 10)]
    assert recorder.data == b"0123456789" * 11 + b"0123456789"


def test_reports_missing_bytes_at_the_end() -> None:
    recorder = opened()
    recorder.segment(5, b"fgh")
    recorder.segment(20, b"u")
    recorder.acknowledge(30)
    recorder.note(recorder.stream.finish())
    assert (recorder.data, recorder.gaps) == (b"fghu", [(0, 5), (3, 12), (4, 8)])


@pytest.mark.parametrize("acknowledged", [3, 4])
def test_does_not_count_an_acknowledged_fin_as_missing(acknowledged: int) -> None:
    recorder = opened()
    recorder.segment(0, b"abc")
    recorder.acknowledge(acknowledged)
    recorder.note(recorder.stream.finish())
    assert recorder.gaps == []


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=10), st.integers(0, 2**32 - 1)), max_size=40))
def test_arbitrary_segments_yield_no_empty_event(segments: list[tuple[int, bytes, int]]) -> None:
    stream = Stream(max_held_bytes=50)
    for number, (sequence, data, acknowledged) in enumerate(segments):
        events = [*stream.segment(sequence, data, number, 0), *stream.tick()]
        stream.acknowledge(acknowledged)
        for event in events:
            assert (
                event.data
                if isinstance(event, Chunk)
                else (event.missing if isinstance(event, Loss) else event.bytes) > 0
            )
    assert all(event.missing > 0 for event in stream.finish() if isinstance(event, Loss))


def test_ignores_a_repeated_syn_and_truncation_before_the_first_byte() -> None:
    recorder = opened()
    recorder.segment(0, b"abc")
    recorder.stream.open(5)
    recorder.segment(3, b"d")
    assert recorder.data == b"abcd"
    unseen = Stream()
    unseen.reach(99)
    assert not unseen.started
    assert list(unseen.finish()) == []

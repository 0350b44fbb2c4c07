"""Frames of one direction: their packets, holes, and frame boundaries that are lost and found."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.capture.frame_stream import FrameStream, StreamFrame
from kafkawire.capture.recognition import SearchResult
from kafkawire.capture.tcp_stream import Chunk
from kafkawire.errors import DecodeError


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def begun(data: bytes = b"") -> FrameStream:
    """A frame stream with known frame boundaries, after its first packet."""
    side = FrameStream()
    assert list(side.begin(0)) == []
    assert list(side.take(Chunk(data, 1, 10))) == []
    return side


@given(st.lists(st.integers(0, 30), max_size=8), st.lists(st.integers(0, 200), max_size=12), st.integers(0, 3))
def test_frames_have_the_packet_of_their_first_byte(sizes: list[int], cuts: list[int], rest: int) -> None:
    contents = [bytes([number]) * size for number, size in enumerate(sizes)]
    data = b"".join(map(framed, contents)) + bytes(rest)
    bounds = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    side, found = FrameStream(), []
    list(side.begin(0))
    for number, (start, stop) in enumerate(pairwise(bounds), 1):
        found += side.take(Chunk(data[start:stop], number, 10 * number))
    starts = [0, *accumulate(map(len, map(framed, contents)))]
    packets = [bisect_right(bounds, start) for start in starts]
    wanted = [StreamFrame(content, packet, 10 * packet) for content, packet in zip(contents, packets, strict=False)]
    assert found == wanted
    assert side.unframed == side.held == rest
    assert side.first_unframed == ((packets[-1], 10 * packets[-1]) if rest else None)


def test_raises_an_invalid_size_after_the_frames_before_it() -> None:
    side = begun()
    found = side.take(Chunk(framed(b"one") + b"\xff\xff\xff\xfe", 2, 20))
    assert next(found) == StreamFrame(b"one", 2, 20)
    with pytest.raises(DecodeError) as caught:
        next(found)
    assert (caught.value.offset, caught.value.found) == (7, "-2")
    side.lose()
    assert (bytes(side.loose), side.synchronized) == (b"\xff\xff\xff\xfe", False)


def test_a_hole_costs_the_frame_around_it() -> None:
    side = begun(framed(bytes(10))[:7])
    assert [side.bridges(missing) for missing in (7, 8)] == [True, False]
    assert list(side.bridge(3)) == []
    assert (side.unframed, side.held, side.missing, side.first_unframed) == (7, 7, 3, (1, 10))
    assert [side.bridges(missing) for missing in (4, 5)] == [True, False]
    assert list(side.take(Chunk(b"ab", 2, 20))) == []
    assert (side.unframed, side.held) == (9, 7)  # what is behind the hole is counted, not kept
    assert list(side.take(Chunk(b"cd" + framed(b"next"), 3, 30))) == [
        StreamFrame(bytes(3), 1, 10, missing=3, left_out=4),
        StreamFrame(b"next", 3, 30),
    ]
    assert side.unframed == 0


def test_bridges_a_hole_up_to_the_frames_end() -> None:
    side = begun(framed(bytes(10))[:7])
    (frame,) = side.bridge(7)
    assert (frame, frame.size) == (StreamFrame(bytes(3), 1, 10, missing=7), 10)
    assert list(side.take(Chunk(framed(b"next"), 2, 20))) == [StreamFrame(b"next", 2, 20)]


def test_bridges_no_hole_without_a_known_size() -> None:
    assert not begun(b"\0\0\0").bridges(1)
    assert not FrameStream().bridges(1)


def test_does_not_search_a_lost_frame_with_a_hole() -> None:
    side = begun(framed(bytes(10))[:7])
    list(side.bridge(3))
    side.lose()
    assert (side.skipped, bytes(side.loose), side.missing) == (7, b"", 0)


def test_searches_again_only_with_enough_bytes() -> None:
    side = FrameStream()
    looked = []

    def look(data: bytes, starts: set[int]) -> SearchResult:
        looked.append((data, starts))
        return SearchResult(None, 6, 8)

    side.take(Chunk(b"junk", 1, 10))
    side.take(Chunk(b"more", 2, 20))
    assert side.find(look) is None
    # The newest packet stays: it may be the response to a request that comes next.
    assert (side.skipped, bytes(side.loose), side.first_unframed) == (4, b"more", (2, 20))
    side.take(Chunk(b"12345", 3, 30))
    assert side.find(look) is None
    assert looked == [(b"junkmore", {0, 4})]
    side.take(Chunk(b"6", 4, 40))
    assert side.find(look) is None
    assert looked[1:] == [(b"more123456", {0, 4, 9})]
    side.look_again()
    side.find(look)
    assert len(looked) == 3


def test_yields_frames_from_a_found_beginning() -> None:
    side = FrameStream()
    side.take(Chunk(b"junk" + framed(b"on")[:3], 1, 10))
    side.take(Chunk(framed(b"on")[3:] + framed(b"two"), 2, 20))
    assert side.find(lambda data, starts: SearchResult(4, 4, 0)) == 4
    assert list(side.begin(4)) == [StreamFrame(b"on", 1, 10), StreamFrame(b"two", 2, 20)]
    assert (side.synchronized, side.unframed, side.skipped) == (True, 0, 0)


def test_drops_loose_bytes_but_the_last() -> None:
    side = FrameStream()
    side.take(Chunk(b"abcdef", 1, 10))
    side.drop(keep=2)
    assert (bytes(side.loose), side.skipped) == (b"ef", 4)
    side.drop(keep=9)
    assert (bytes(side.loose), side.skipped) == (b"ef", 4)
    side.drop()
    assert (side.skipped, side.unframed, side.first_unframed) == (6, 0, None)

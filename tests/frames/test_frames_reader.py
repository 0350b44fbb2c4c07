"""`FrameReader`: splitting a byte stream into frames."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import DecodeError
from kafkawire.frames import FrameReader

FRAMES = [b"first", b"", b"x" * 300, b"last"]
STREAM = b"".join(len(f).to_bytes(4, "big") + f for f in FRAMES)


def test_yields_every_frame_of_a_complete_stream() -> None:
    reader = FrameReader()
    assert list(reader.feed(STREAM)) == FRAMES
    assert (reader.position, reader.pending) == (len(STREAM), 0)


def test_nothing_is_pending_before_the_first_byte() -> None:
    reader = FrameReader()
    assert (reader.position, reader.pending, reader.peek(), reader.release(), reader.position) == (0, 0, b"", b"", 0)


def test_reads_memoryviews_with_strides_and_shapes() -> None:
    stream = STREAM + STREAM
    for view in (memoryview(stream[::-1])[::-1], memoryview(stream).cast("B", (2, len(STREAM)))):
        assert list(FrameReader().feed(view)) == FRAMES * 2


def test_yields_the_same_frames_wherever_the_stream_is_split() -> None:
    for cut in range(len(STREAM) + 1):
        reader = FrameReader()
        frames = list(reader.feed(STREAM[:cut]))
        assert reader.position + reader.pending == cut
        assert frames + list(reader.feed(memoryview(STREAM)[cut:])) == FRAMES, cut


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 500)))
def test_position_follows_the_frames_of_any_stream(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(f).to_bytes(4, "big") + f for f in frames)
    reader = FrameReader()
    got, last = [], 0
    for cut in [*sorted(cuts), len(stream)]:
        position = reader.position
        for frame in reader.feed(stream[last:cut]):
            assert stream[position + 4 : reader.position] == frame
            position = reader.position
            got.append(frame)
        last = max(last, min(cut, len(stream)))
    assert got == frames


def test_next_call_yields_frames_that_were_not_iterated_over() -> None:
    reader = FrameReader()
    first = reader.feed(STREAM)
    assert next(first) == FRAMES[0]
    assert list(reader.feed(b"")) == FRAMES[1:]
    assert list(first) == []


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_rejects_a_size_outside_the_limits(size: int) -> None:
    reader = FrameReader(max_frame_bytes=100)
    frames = reader.feed(b"\0\0\0\2ok" + size.to_bytes(4, "big", signed=True) + b"rest")
    assert next(frames) == b"ok"
    with pytest.raises(DecodeError) as caught:
        next(frames)
    assert (caught.value.offset, caught.value.found) == (6, str(size))
    with pytest.raises(DecodeError):
        list(reader.feed(b"more"))


def test_allocates_no_memory_for_a_claimed_size() -> None:
    tracemalloc.start()
    assert list(FrameReader().feed(b"\x0f\xff\xff\xff" + b"x" * 10)) == []
    assert tracemalloc.get_traced_memory()[1] < 10_000
    tracemalloc.stop()


def test_assembles_a_large_frame_from_small_chunks() -> None:
    reader = FrameReader()
    assert list(reader.feed((1 << 22).to_bytes(4, "big"))) == []
    got = [frame for _ in range(1 << 12) for frame in reader.feed(b"y" * (1 << 10))]
    assert got == [b"y" * (1 << 22)]


def test_release_returns_and_removes_pending_bytes() -> None:
    reader = FrameReader()
    frames = reader.feed(STREAM)
    next(frames)
    assert reader.release() == STREAM[9:]
    assert (reader.position, reader.pending, list(frames)) == (len(STREAM), 0, [])
    assert list(reader.feed(STREAM)) == FRAMES

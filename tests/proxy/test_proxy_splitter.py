"""`Splitter`: whatever the chunks, what passes and what is taken are the stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import DecodeError
from kafkawire.frames import with_size
from kafkawire.proxy.splitter import Frame, Splitter


@given(st.lists(st.binary(max_size=60), max_size=12), st.lists(st.integers(1, 40), min_size=1), st.integers(1, 10))
def test_any_chunks(frames: list[bytes], sizes: list[int], head: int) -> None:
    asked = []

    def takes(shown: bytes) -> bool:
        asked.append(shown)
        return sum(shown) % 2 == 1

    splitter = Splitter(head, takes)
    stream, out, taken = b"".join(map(with_size, frames)), b"", []
    at = index = 0
    while at < len(stream):
        size = sizes[index % len(sizes)]
        for part in splitter.feed(stream[at : at + size]):
            if isinstance(part, Frame):
                taken.append(bytes(part))
                out += with_size(part)
            else:
                out += part
        at, index = at + size, index + 1
    assert out == stream
    assert asked == [frame[:head] for frame in frames]
    assert taken == [frame for frame in frames if sum(frame[:head]) % 2 == 1]
    assert not splitter.inside


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_size_that_no_frame_has(size: int) -> None:
    splitter = Splitter(4, lambda _: False)
    with pytest.raises(DecodeError, match="the size of a frame"):
        list(splitter.feed(size.to_bytes(4, "big", signed=True)))

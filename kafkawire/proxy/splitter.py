"""`Splitter`: one direction of a connection -> frames that are taken whole, and bytes of frames that pass (sans-IO)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkawire.errors import DecodeError
from kafkawire.frames import MAX_FRAME_BYTES

#: The beginning of a frame without its size -> whether the frame is taken.
Takes = Callable[[bytes], bool]


class Frame(bytes):
    """A frame that is taken, without its size; other bytes are passed on as they are."""


class Splitter:
    """Cuts a stream where frames begin, and does not copy the frames that pass.

    Args:
        head: bytes of a frame that say whether it is taken; a shorter frame is shown whole.
        takes: says it; it is called once for each frame, in their order.
        max_frame_bytes: the largest size of a frame that is taken, and the largest that any frame may state.
    """

    def __init__(self, head: int, takes: Takes, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._head = head
        self._takes = takes
        self._max = max_frame_bytes
        self._parts: list[bytes] = []  # of a frame that cannot be judged or is not whole yet
        self._have = self._need = 0
        self._passing = 0
        self._taking = False
        self._position = 0

    def feed(self, data: bytes) -> Iterator[Frame | memoryview | bytes]:
        """The bytes and frames that can be passed on or taken now, in order.

        Raises:
            DecodeError: a size is below 0 or above the limit.
        """
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        view, at, end = memoryview(data), 0, len(data)
        need = 0
        begun = 0  # the bytes from here on pass and were not yielded yet
        at = min(self._passing, end)
        self._passing -= at
        while end - at >= 4:
            size = int.from_bytes(view[at : at + 4], "big", signed=True)
            if not 0 <= size <= self._max:
                raise DecodeError(
                    expected=f"the size of a frame, 0 to {self._max}", found=str(size), offset=self._position + at
                )
            shown = min(size, self._head)
            if end - at - 4 < shown:
                break
            whole = at + 4 + size
            if not self._taking and not self._takes(bytes(view[at + 4 : at + 4 + shown])):
                self._passing = max(0, whole - end)
                at = min(whole, end)
                continue
            self._taking = whole > end  # `takes` is not called a second time
            if self._taking:
                need = whole - at
                break
            if begun < at:
                yield view[begun:at]
            yield Frame(view[at + 4 : whole])
            at = begun = whole
        if begun < at:
            yield view[begun:at]
        if at < end:
            self._parts.append(bytes(view[at:]))
            self._have, self._need = end - at, need
        self._position += at

    @property
    def inside(self) -> bool:
        """Whether the stream is inside of a frame that passes."""
        return self._passing > 0

"""`FrameReader`: a byte stream in, whole frames out (sans-IO)."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.errors import DecodeError
from kafkawire.wire.values import octets

#: Default limit of a frame, in bytes. Kafka limits requests to 100 MiB (socket.request.max.bytes), not responses.
MAX_FRAME_BYTES = 256 << 20

_SIZE = 4


class FrameReader:
    """Splits one direction of a connection into frames. Each frame follows its size, an int32.

    Attributes:
        position: byte offset in the stream at which the next frame's size begins.
        max_frame_bytes: largest accepted size. Memory is allocated for received bytes only, not for the claimed size.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.position = 0
        self.max_frame_bytes = max_frame_bytes
        self._held = bytearray()
        self._used = 0  # bytes of `_held` that are already in frames

    @property
    def pending(self) -> int:
        """The number of bytes that were fed and are not yet in a frame."""
        return len(self._held) - self._used

    def peek(self) -> bytes:
        """The pending bytes."""
        return bytes(memoryview(self._held)[self._used :])

    def release(self) -> bytes:
        """Returns the pending bytes and removes them, for callers that search the next frame's beginning themselves."""
        pending = self.peek()
        self.position += len(pending)
        self._held.clear()
        self._used = 0
        return pending

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """The frames that are complete now, without their sizes. Frames not iterated over come with the next call.

        Raises:
            DecodeError: a size is below 0 or above the limit; `offset` is its place in the stream. The frames before it
                are yielded first. No frame after it can be found.
        """
        del self._held[: self._used]
        self._used = 0
        self._held += octets(data)
        return self._cut()

    def _cut(self) -> Iterator[bytes]:
        while self.pending >= _SIZE:
            start = self._used + _SIZE
            size = int.from_bytes(self._held[self._used : start], "big", signed=True)
            if not 0 <= size <= self.max_frame_bytes:
                raise DecodeError(
                    expected=f"the size of a frame, 0 to {self.max_frame_bytes}",
                    found=str(size),
                    offset=self.position,
                )
            if start + size > len(self._held):
                return
            frame = bytes(memoryview(self._held)[start : start + size])
            self._used = start + size
            self.position += _SIZE + size
            yield frame

"""`FrameReader`: a byte stream in, whole frames out (sans-IO)."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.errors import DecodeError
from kafkawire.wire.values import octets

#: Largest frame by default. Kafka's own limit on requests is 100 MiB (socket.request.max.bytes); responses have none.
MAX_FRAME_BYTES = 256 << 20

_SIZE = 4


class FrameReader:
    """Cuts one direction of a connection into frames: each is preceded by its size as an int32.

    Attributes:
        position: bytes of the stream before the first one that no frame has been made of; where the next frame's size
            begins.
        max_frame_bytes: largest size that is accepted. No memory is reserved for a size that is only claimed.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.position = 0
        self.max_frame_bytes = max_frame_bytes
        self._held = bytearray()
        self._used = 0  # of what is held: already in frames

    @property
    def pending(self) -> int:
        """Bytes that were fed and are not yet in a frame."""
        return len(self._held) - self._used

    def peek(self) -> bytes:
        """The pending bytes."""
        return bytes(memoryview(self._held)[self._used :])

    def release(self) -> bytes:
        """The pending bytes, which the reader then forgets: for whoever has to look for the next frame's beginning."""
        pending = self.peek()
        self.position += len(pending)
        self._held.clear()
        self._used = 0
        return pending

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """The frames that are whole now, without their sizes. What is not iterated over comes with the next call.

        Raises:
            DecodeError: a size below 0 or above the limit, with its offset in the stream. The frames before it come
                first; after it the stream cannot be cut any further.
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

"""The pure-Python engine: runs the functions that were generated for one message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafkawire.wire import read, write
from kafkawire.wire.values import Buffer, octets

#: What codecs import of it (`kafkawire.runtime`).
__all__ = ["strided"]

if TYPE_CHECKING:
    from kafkawire.wire.values import Input

T = TypeVar("T")
#: Buffer, position and version -> the message and the position after it.
Decode = Callable[[Buffer, int, int], tuple[Any, int]]
#: Writes a message in a version.
Encode = Callable[[Any, write.Append, int], None]


def owned(
    run: Callable[[Buffer, int], tuple[Any, int] | None], data: Input, offset: int, own: bool
) -> tuple[Any, int] | None:
    """The result of `run` on a view of the data. Bytes after the message are not copied: its end is found first.

    Args:
        run: reads from a buffer at an offset.
        data: the input.
        offset: of the message in it.
        own: bytes in the value are no views of the data.
    """
    view = memoryview(data)
    found = run(view, offset)
    if found is None or not own:
        return found
    found = run(bytes(view[offset : found[1]]), 0)
    return found and (found[0], offset + found[1])


def strided(cls: type[T]) -> Callable[[read.Items[T]], read.Items[T]]:
    """Decorates a function that reads elements of a class one by one: many are read at once in versions whose layout
    allows it."""

    def decorate(items: read.Items[T]) -> read.Items[T]:
        readers: dict[int, Callable[[Buffer, int, int], read.Elements[T]]] = {}

        def read_items(b: Buffer, p: int, n: int, version: int) -> read.Elements[T]:
            reader = readers.get(version)
            if reader is None:
                from kafkawire.wire.strides import reader as reader_of

                reader = readers[version] = reader_of(cls, items, version)
            return reader(b, p, n)

        return read_items

    return decorate


class Generated:
    """An `Engine` made of generated functions, by version.

    A decoder is None where only the interpreter may execute the layout, because small input could make it allocate
    much. `holds_bytes`: whether values of the message hold bytes, which may be views of the input.
    """

    __slots__ = ("decoders", "encoders", "holds_bytes")

    def __init__(
        self, decoders: Mapping[int, Decode | None], encoders: Mapping[int, Encode], holds_bytes: bool
    ) -> None:
        self.decoders = decoders
        self.encoders = encoders
        self.holds_bytes = holds_bytes

    def decode(self, data: Input, version: int, offset: int, strict: bool, copy: bool) -> Any | None:
        """The message from `offset` to the end of the data (`Engine.decode`).

        Args:
            data, version, offset, strict, copy: see `Message.decode`.
        """
        decoder = self.decoders.get(version)
        if type(data) is not bytes or strict or offset or not copy or decoder is None:
            data = octets(data)
            found = self.decode_from(data, version, offset, strict, copy)
            return found[0] if found and found[1] == len(data) else None
        # As `decode_from` and `_run` do it, without the calls: most messages are read here, and most are small.
        try:
            value, end = decoder(data, 0, version)
        except read.FAILURES:
            return None
        return value if end == len(data) else None

    def decode_from(self, data: Input, version: int, offset: int, strict: bool, copy: bool) -> tuple[Any, int] | None:
        """The message at `offset`, and the offset after it (`Engine.decode_from`).

        Args:
            data, version, offset, strict, copy: see `Message.decode`.
        """
        data = octets(data)
        decoder = self.decoders.get(version)
        if decoder is None or not 0 <= offset <= len(data):
            return None
        if type(data) is bytes and (copy or not self.holds_bytes):
            return self._run(decoder, version, strict, data, offset)
        return owned(partial(self._run, decoder, version, strict), data, offset, copy and self.holds_bytes)

    def _run(self, decoder: Decode, version: int, strict: bool, buffer: Buffer, offset: int) -> tuple[Any, int] | None:
        try:
            value, end = decoder(buffer, offset, version)
        except read.FAILURES:
            return None
        if end <= len(buffer) and (not strict or self._is_canonical(value, version, buffer, offset, end)):
            return value, end
        return None

    def _is_canonical(self, value: Any, version: int, buffer: Buffer, offset: int, end: int) -> bool:
        """Whether the encoder writes the very bytes that the value was read from."""
        # One buffer and no list of chunks: this counts towards what a decode may allocate.
        written = bytearray()
        try:
            self.encoders[version](value, written.extend, version)
        except write.FAILURES:
            return False
        return written == buffer[offset:end]

    def encode(self, value: Any, version: int) -> bytes | None:
        encoder = self.encoders.get(version)
        if encoder is None:
            return None
        chunks: list[Buffer] = []
        try:
            encoder(value, chunks.append, version)
            return b"".join(chunks)
        except write.FAILURES:
            return None

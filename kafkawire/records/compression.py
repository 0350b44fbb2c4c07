"""The compression codecs of record batches: names, numbers, and functions to compress and decompress.

Decompression is capped: the output grows by steps up to a limit that the caller gives, and the codec stops at the first
byte beyond it, so small input that claims a huge size costs neither that memory nor that time. Snappy comes in two
framings, raw and xerial's (`SnappyOutputStream` of snappy-java, which Kafka's Java writes); both are read, xerial's is
written.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam

from kafkawire.records import lz4_frame
from kafkawire.wire.values import Buffer

#: Bits 0-2 of a batch's attributes (Kafka's `CompressionType`).
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

#: Most bytes that the records of one batch may hold, compressed or not.
MAX_BATCH_BYTES = 256 << 20

_FIRST_STEP = 64 << 10
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")  # magic, version, lowest version that can read it
_XERIAL_BLOCK = 32 << 10
_INT32 = struct.Struct(">i")
_LZ4_BLOCK = 64 << 10
_LZ4_UNCOMPRESSED = 1 << 31
_UINT32_LE = struct.Struct("<I")
#: Magic number and method of a gzip member. A shorter rest is none: Java does not look for one there.
_GZIP_MAGIC, _SHORTEST_MEMBER = b"\x1f\x8b\x08", 19
#: Bytes that a member is given at a time: the bytes after it are copied each time, and there may be many short members.
_FIRST_WINDOW, _MOST_WINDOW = 1 << 10, 1 << 16
#: No snappy element, of which each takes at least a byte, yields more bytes.
_SNAPPY_MOST = 64


class CompressionError(ValueError):
    """A compressed block cannot be decompressed. The caller adds its place."""


class TooLargeError(CompressionError):
    """The block holds more than the limit."""


def codec_name(number: int) -> str:
    """The name of a codec number; `UNKNOWN_5` where Kafka has none."""
    return CODECS[number] if 0 <= number < len(CODECS) else f"UNKNOWN_{number}"


#: The names of all numbers that a batch's attributes can hold.
CODEC_NAMES = tuple(map(codec_name, range(8)))


def decompress(codec: str, data: Buffer, limit: int = MAX_BATCH_BYTES, *, any_header_checksum: bool = False) -> Buffer:
    """The bytes that `data` holds, at most `limit` of them, as Kafka's Java reads them.

    Members of gzip, frames of zstd and streams of snappy that are joined are read one after the other; of lz4 the first
    frame is. What follows them is not looked at in gzip and lz4.

    Args:
        any_header_checksum: do not believe the checksum of lz4 frame headers: Kafka computed it wrongly for magic 0.

    Raises:
        TooLargeError: they are more than that.
        CompressionError: `data` is damaged, or the codec is not known.
    """
    if codec == "none":
        return data
    if codec == "snappy":
        return _decompress_snappy(data, limit)
    if codec not in CODECS:
        raise CompressionError(f"no known codec: {codec}")
    if codec == "gzip":
        return _decompress_gzip(data, limit)
    if codec == "lz4":
        try:
            return memoryview(lz4_frame.decompress(data, limit, any_header_checksum=any_header_checksum))
        except lz4_frame.FrameTooLargeError as error:
            raise TooLargeError(str(error)) from None
        except lz4_frame.FrameError as error:
            raise CompressionError(str(error)) from None
    return _grow(cramjam.zstd.decompress_into, data, limit)


def compress(codec: str, data: bytes, *, broken_header_checksum: bool = False) -> bytes:
    """`data` as Kafka's Java reads it back: gzip, xerial snappy, lz4 frames of independent blocks, zstd.

    Args:
        broken_header_checksum: of lz4 frames, as Kafka's clients wrote, and expected, them with magic 0.
    """
    if codec == "none":
        return data
    if codec == "gzip":
        return bytes(cramjam.gzip.compress(data))
    if codec == "snappy":
        blocks = (data[i : i + _XERIAL_BLOCK] for i in range(0, len(data), _XERIAL_BLOCK))
        packed = (bytes(cramjam.snappy.compress_raw(block)) for block in blocks)
        return _XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1) + b"".join(_INT32.pack(len(p)) + p for p in packed)
    if codec == "lz4":
        frame = lz4_frame.FRAME + b"".join(_lz4_blocks(data)) + bytes(4)
        return lz4_frame.broken(frame) if broken_header_checksum else frame
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"no known codec: {codec}; known are {', '.join(CODECS)}")


def _decompress_gzip(data: Buffer, limit: int) -> Buffer:
    """Member after member (`java.util.zip.GZIPInputStream`): bytes after one that are no member's header end them."""
    out = bytearray()
    at = 0
    while True:
        member, window = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), _FIRST_WINDOW
        while not member.eof:
            chunk = data[at : at + window]
            if not chunk:
                raise CompressionError("a gzip member that is cut off")
            try:
                out += member.decompress(chunk, limit + 1 - len(out))
            except zlib.error as error:
                raise CompressionError(str(error)) from None
            if len(out) > limit:
                raise TooLargeError(f"more than {limit} bytes")
            at += len(chunk) - len(member.unused_data)
            window = min(2 * window, _MOST_WINDOW)
        if len(data) - at < _SHORTEST_MEMBER or bytes(data[at : at + 3]) != _GZIP_MAGIC:
            return memoryview(out)


def _grow(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> Buffer:
    """Run a streaming codec into a buffer that grows until the output fits or the limit is reached."""
    size = min(limit, max(_FIRST_STEP, 16 * len(data)))
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: decompress_into(data, out)]
        except cramjam.DecompressionError as error:
            # The text of Rust's io::ErrorKind::WriteZero: the output buffer is full. All else is damage.
            if "write whole buffer" not in str(error):
                raise CompressionError(str(error)) from None
            if size == limit:
                raise TooLargeError(f"more than {limit} bytes") from None
        size = min(limit, 8 * size)


def _lz4_blocks(data: bytes) -> Iterator[bytes]:
    """Blocks of 64 KiB as Kafka's Java writes them: none refers to the ones before it, which its reader would refuse;
    none is longer than what it holds; and none has a checksum."""
    for i in range(0, len(data), _LZ4_BLOCK):
        block = data[i : i + _LZ4_BLOCK]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            yield _UINT32_LE.pack(len(packed)) + packed
        else:
            yield _UINT32_LE.pack(len(block) | _LZ4_UNCOMPRESSED) + block


def _decompress_snappy(data: Buffer, limit: int) -> Buffer:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_raw_snappy(data, limit, 0)
    out = bytearray()
    position = _XERIAL_HEADER.size
    while position < len(data):
        if bytes(data[position : position + 8]) == _XERIAL_MAGIC:
            # Streams may be joined. Java looks at the version of all but the first.
            version = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
            if version < 1 and len(data) - position >= _XERIAL_HEADER.size:
                raise CompressionError(f"a xerial snappy stream of version {version}")
            position += _XERIAL_HEADER.size
            continue
        if len(data) - position < 4:
            raise CompressionError("a xerial snappy block's length is cut off")
        (length,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise CompressionError(f"a xerial snappy block of {length} bytes, with {len(data) - position} left")
        out += _decompress_raw_snappy(data[position : position + length], limit, len(out))
        position += length
    return memoryview(out)


def _decompress_raw_snappy(data: Buffer, limit: int, before: int) -> Buffer:
    """A raw snappy block states its size first; it is believed only as far as its bytes could reach."""
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > limit - before:
            raise TooLargeError(f"more than {limit} bytes")
        if size > _SNAPPY_MOST * len(data):
            raise CompressionError(f"{len(data)} bytes of snappy that claim to hold {size}")
        out = bytearray(size)
        return memoryview(out)[: cramjam.snappy.decompress_raw_into(data, out)]
    except cramjam.DecompressionError as error:
        raise CompressionError(str(error)) from None

"""Mutants of batches: one to three places changed, of the header, of the compressed bytes, of the records in them, or
of how a codec frames them. Most mutants have right checksums again, since otherwise readers would check nothing
else."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from random import Random

import cramjam
import crc32c

from kafkawire.records import CODECS
from kafkawire.records.compression import CompressionError, compress, decompress
from kafkawire.records.header import HEADER, LOG_OVERHEAD, MAGIC
from kafkawire.records.legacy import KEY_AT

#: The largest records that are taken out of their compression to be changed.
_MOST = 1 << 20
#: place and size of each field of a header of magic 2, without the size and the checksum
_FIELDS = ((0, 8), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))
_VARINTS = (
    "00", "01", "02", "03", "7e", "7f", "8001", "ff01", "8000", "ffffffff0f", "feffffff0f", "8080808008", "808080800f",
    "ffffffffff", "ffffffffffffffffff01", "feffffffffffffffff01", "80808080808080808001", "ffffffffffffffffffff",
)  # fmt: skip


def with_checksum(data: bytes | bytearray) -> bytes:
    """The batch with the checksum of its bytes, where it has the place for one."""
    data = bytearray(data)
    if len(data) > HEADER.size and data[16] == MAGIC:
        data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    elif len(data) > 17 and data[16] in KEY_AT:
        data[12:16] = zlib.crc32(bytes(data[16:])).to_bytes(4, "big")
    return bytes(data)


def mutant(data: bytes, random: Random) -> bytes:
    """One mutant of a sound batch."""
    changed = random.choice(_KINDS)(bytearray(data), random)
    return with_checksum(changed) if random.random() < 0.9 else bytes(changed)


# The bytes of a batch -------------------------------------------------------------------------------------------------


def _cut(data: bytearray, random: Random) -> bytearray:
    del data[random.randrange(len(data)) :]
    return data


def _anywhere(data: bytearray, random: Random) -> bytearray:
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(data))
        data[place] = _other(data[place], random)
    return data


def _header(data: bytearray, random: Random) -> bytearray:
    """A field of the header at an edge of its type, or one off."""
    if data[16] != MAGIC:
        place, size = random.choice(((0, 8), (16, 1), (17, 1), (18, 8 if data[16] else 4)))
    else:
        place, size = random.choice(_FIELDS)
    old = int.from_bytes(data[place : place + size], "big")
    top = 1 << 8 * size
    new = random.choice((0, 1, top - 1, top - 2, top // 2, top // 2 - 1, old + 1, old - 1, random.randrange(top)))
    data[place : place + size] = (new % top).to_bytes(size, "big")
    return data


def _attributes(data: bytearray, random: Random) -> bytearray:
    """Another codec, or another bit, over the same records."""
    data[22 if data[16] == MAGIC else 17] ^= 1 << random.randrange(7)
    return data


def _resized(data: bytearray, random: Random) -> bytearray:
    """More or fewer bytes of records, and the size that counts them."""
    place = random.randrange(min(HEADER.size, len(data) - 1), len(data))
    kind = random.randrange(3)
    if kind == 0:
        data[place:place] = random.randbytes(random.randint(1, 4))
    elif kind == 1:
        del data[place : place + random.randint(1, 4)]
    else:
        data += random.choice((bytes(random.randint(1, 40)), random.randbytes(random.randint(1, 40))))
    return _sized(data)


def _sized(data: bytearray) -> bytearray:
    struct.pack_into(">i", data, 8, len(data) - LOG_OVERHEAD)
    return data


# Its records ----------------------------------------------------------------------------------------------------------


def _records(data: bytearray, random: Random) -> bytearray:
    """Changed records in the same compression."""
    found = _opened(data)
    if found is None:
        return _anywhere(data, random)
    codec, records = found
    changed = _changed(bytearray(records), random)
    if data[16] != MAGIC and random.random() < 0.7:
        changed = _inner_checksums(changed)
    return _with_payload(data, _packed(data, codec, bytes(changed)))


def _changed(records: bytearray, random: Random) -> bytearray:
    if not records:
        return records
    for _ in range(random.randint(1, 2)):
        # The fields of the first record are the likeliest place of a length.
        place = random.randrange(min(len(records), random.choice((12, 40, len(records)))))
        kind = random.randrange(5)
        if kind == 0:
            records[place : place + 1] = bytes.fromhex(random.choice(_VARINTS))
        elif kind == 1:
            records[place:place] = random.randbytes(random.randint(1, 3))
        elif kind == 2:
            del records[place : place + random.randint(1, 3)]
        else:
            records[place] = _other(records[place], random)
        if not records:
            break
    return records


def _inner_checksums(records: bytearray) -> bytearray:
    """Messages in a wrapper, with the checksums of their bytes."""
    at = 0
    while at + 17 < len(records):
        size = int.from_bytes(records[at + 8 : at + 12], "big", signed=True)
        if not 5 <= size <= len(records) - at - 12:
            break
        records[at + 12 : at + 16] = zlib.crc32(bytes(records[at + 16 : at + 12 + size])).to_bytes(4, "big")
        at += 12 + size
    return records


# How a codec frames them ----------------------------------------------------------------------------------------------


def _framing(data: bytearray, random: Random) -> bytearray:
    """The same records, framed as Kafka's Java would not, or with more streams after the first."""
    found = _opened(data)
    if found is None:
        return _resized(data, random)
    codec, records = found[0], bytes(found[1])
    packed = _packed(data, codec, records)
    half = len(records) // 2
    ways: list[Callable[[bytes, Random], bytes]] = [
        lambda _, __: _packed(data, codec, records[:half]) + _packed(data, codec, records[half:]),
        lambda _, __: packed + _packed(data, codec, b""),
        lambda _, __: packed + packed,
        lambda _, random: packed + random.randbytes(random.randint(1, 30)),
        lambda _, random: packed + bytes(random.randint(1, 30)),
        lambda _, random: packed[: -random.randint(1, 8)],
        lambda _, __: b"",
        lambda _, __: _SKIPPABLE + packed,
        lambda _, __: packed + _SKIPPABLE,
        *_OTHER_WAYS.get(codec, ()),
    ]
    return _with_payload(data, random.choice(ways)(records, random))


#: A frame that zstd and lz4 skip.
_SKIPPABLE = bytes.fromhex("502a4d18") + (4).to_bytes(4, "little") + b"skip"


def _gzip_member(records: bytes, random: Random) -> bytes:
    """A member with a name, a comment, more fields or a checksum of its header, or with a wrong trailer."""
    flags = random.randrange(32) | random.choice((0,) * 20 + (64,))
    head = bytes((0x1F, 0x8B, random.choice((8, 8, 8, 7)), flags, 1, 2, 3, 4, 0, 255))
    head += (3).to_bytes(2, "little") + b"abc" if flags & 4 else b""
    head += b"name\0" if flags & 8 else b""
    head += b"comment\0" if flags & 16 else b""
    if flags & 2:
        head += ((zlib.crc32(head) & 0xFFFF) ^ random.choice((0, 0, 1))).to_bytes(2, "little")
    raw = zlib.compressobj(random.randrange(10), zlib.DEFLATED, -15)
    body = raw.compress(records) + raw.flush()
    trailer = bytearray(struct.pack("<II", zlib.crc32(records), len(records)))
    if random.random() < 0.2:
        trailer[random.randrange(8)] ^= 1
    return head + body + trailer


def _xerial(records: bytes, random: Random) -> bytes:
    """xerial's framing in small blocks, empty ones among them, of other versions, or with an odd size."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", random.choice((1, 1, 2, 0, 9)), random.choice((1, 1, 2, 0, 9)))
    step = random.choice((1, 7, 100, 1 << 16))
    for i in range(0, min(len(records), 50 * step), step):
        block = bytes(cramjam.snappy.compress_raw(records[i : i + step]))
        out += struct.pack(">i", len(block) + random.choice((0,) * 200 + (1, -1))) + block
        if random.random() < 0.05:
            out += random.choice((bytes(4), out[:16], struct.pack(">i", 1) + b"\0"))
    return out


def _lz4(records: bytes, random: Random) -> bytes:
    """A frame of lz4 with checksums, sizes, linked blocks, reserved bits; some with a wrong checksum."""
    from kafkawire.records.lz4_frame import xxh32

    flags = 0x40 | random.choice((0x20, 0x20, 0x20, 0)) | random.choice((0, 0x10, 0x08, 0x04, 0x14, 0x1C, 0x01, 0x02))
    sizes = random.choice((0x40, 0x50, 0x60, 0x70, 0x30, 0x48, 0x80, 0x41))
    descriptor = bytes((flags, sizes))
    descriptor += (len(records) + random.choice((0, 0, 1))).to_bytes(8, "little") if flags & 8 else b""
    descriptor += bytes(4) if flags & 1 else b""
    check = xxh32(descriptor) >> 8 & 255
    out = b"\x04\x22\x4d\x18" + descriptor + bytes((check ^ random.choice((0,) * 9 + (1,)),))
    step = random.choice((9, 1000, 1 << 16))
    for i in range(0, min(len(records), 50 * step), step):
        block = records[i : i + step]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        raw = random.random() < 0.3
        content = block if raw else packed
        out += (len(content) | (1 << 31 if raw else 0)).to_bytes(4, "little") + content
        if flags & 0x10:
            out += (xxh32(content) ^ random.choice((0,) * 30 + (1,))).to_bytes(4, "little")
    out += bytes(4)
    if flags & 4:
        out += (xxh32(records) ^ random.choice((0, 1))).to_bytes(4, "little")
    return out


def _zstd(records: bytes, random: Random) -> bytes:
    """A frame of zstd as a stream, without its size, or of blocks that are stored."""
    kind = random.randrange(4)
    if kind == 0:
        stream = cramjam.zstd.Compressor(random.choice((1, 3, 19)))
        stream.compress(records)
        return bytes(stream.finish())
    single = random.random() < 0.5
    descriptor = (0x20 if single else 0) | random.choice((0, 0, 0, 0x04, 0x08, 0x10, 0x01))
    head = b"\x28\xb5\x2f\xfd" + bytes((descriptor,))
    if not single:
        head += bytes((random.choice((0x00, 0x58, 0x80, 0x88, 0x90, 0xA8)),))
    if descriptor & 1:
        head += b"\0"
    if single:
        head += bytes((len(records) & 255,))
    size = len(records) if not single else len(records) & 255
    block = ((size << 3) | random.choice((0, 0, 0, 2, 6)) | 1).to_bytes(4, "little")[:3]
    return head + block + records[:size]


_OTHER_WAYS: dict[str, tuple[Callable[[bytes, Random], bytes], ...]] = {
    "gzip": (
        _gzip_member,
        lambda records, random: _gzip_member(records[:9], random) + _gzip_member(records[9:], random),
        lambda records, _: zlib.compress(records),
        lambda records, _: gzip.compress(records, 0, mtime=0),
    ),
    "snappy": (
        lambda records, _: bytes(cramjam.snappy.compress_raw(records)),
        lambda records, _: bytes(cramjam.snappy.compress(records)),
        _xerial,
        _xerial,
    ),
    "lz4": (
        _lz4,
        _lz4,
        lambda records, _: bytes(cramjam.lz4.compress(records)),
        lambda records, _: bytes(cramjam.lz4.compress_block(records)),
    ),
    "zstd": (_zstd, _zstd, lambda records, _: bytes(cramjam.zstd.compress(records, 19))),
}


# ----------------------------------------------------------------------------------------------------------------------


def _other(byte: int, random: Random) -> int:
    return random.choice((byte ^ 1 << random.randrange(8), random.randrange(256), 0, 1, 127, 128, 255))


def _opened(data: bytearray) -> tuple[str, bytes] | None:
    """The codec and the records of a sound batch; None where it has none, or they are many."""
    magic = data[16]
    number = data[22 if magic == MAGIC else 17] & 7
    if magic != MAGIC and not number:
        return None
    payload = bytes(data[HEADER.size :]) if magic == MAGIC else _value(data)
    try:
        return CODECS[number], bytes(decompress(CODECS[number], payload, _MOST, any_header_checksum=magic == 0))
    except CompressionError:
        return None


def _value_at(data: bytearray) -> int:
    """Where the length of a message's value stands."""
    key = KEY_AT[data[16]]
    return key + 4 + max(0, int.from_bytes(data[key : key + 4], "big", signed=True))


def _value(data: bytearray) -> bytes:
    return bytes(data[_value_at(data) + 4 :])


def _packed(data: bytearray, codec: str, records: bytes) -> bytes:
    return compress(codec, records, broken_header_checksum=data[16] == 0)


def _with_payload(data: bytearray, payload: bytes) -> bytearray:
    if data[16] == MAGIC:
        return _sized(data[: HEADER.size] + payload)
    at = _value_at(data)
    return _sized(data[:at] + struct.pack(">i", len(payload)) + payload)


#: Each with its weight.
_KINDS = (
    *[_records] * 8, *[_framing] * 5, *[_header] * 3, *[_anywhere] * 4, *[_resized] * 3, _attributes, _attributes, _cut,
)  # fmt: skip

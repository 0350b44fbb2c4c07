"""Segments in the objects of Aiven's plugin for tiered storage, read at random positions.

A segment is three objects: `.log`, cut into chunks, each compressed (zstd) and encrypted by itself; `.indexes`, its
indexes one after the other; `.rsm-manifest`, the places of chunks and indexes. Here a file has the path that it would
have in `LocalTieredStorage`; an index is a part of the object `.indexes`.
"""

from __future__ import annotations

import base64
import binascii
import errno
import io
import struct
from array import array
from contextlib import ExitStack
from functools import lru_cache
from itertools import accumulate
from types import TracebackType
from typing import Annotated, Any, Protocol, Self

import msgspec

from kafkawire.logdir.file_source import Opened
from kafkawire.logdir.tier_keys import NONCE, TAG, decrypted, unwrapped
from kafkawire.records.compression import CompressionError, decompress

MANIFEST, INDEXES, LOG = "rsm-manifest", "indexes", "log"
#: Suffix of an index in `LocalTieredStorage` -> the attribute of `SegmentIndexesV1` with its place.
SLICES = {
    "index": "offset",
    "timeindex": "timestamp",
    "snapshot": "producer_snapshot",
    "leader_epoch_checkpoint": "leader_epoch",
    "txnindex": "transaction",
}
#: Chunks that are decrypted or decompressed are held in memory as a whole.
MAX_CHUNK_BYTES = 256 << 20
#: Of a segment; with the plugin's default of 4 MiB it has 512 at most.
_MAX_CHUNKS = 1 << 20
_MAX_SIZES = 5 * _MAX_CHUNKS
_MAX_MANIFEST = 8 << 20

_Int32 = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
_Size = Annotated[int, msgspec.Meta(ge=1, le=(1 << 31) - 1)]


class StoredFile(Protocol):
    """A file of a tier. `path`: of the file. `tier_keys`: paths of private keys."""

    @property
    def path(self) -> str: ...

    @property
    def tier_keys(self) -> tuple[str, ...]: ...

    def raw(self, path: str) -> Opened:
        """A file of the same store, with the bytes that it has there."""


class _Fixed(msgspec.Struct, tag="fixed", rename="camel"):
    original_chunk_size: _Size
    original_file_size: _Int32
    transformed_chunk_size: _Int32
    final_transformed_chunk_size: _Int32

    def ends(self) -> array[int]:
        """Where each chunk ends in the object."""
        count = _count(self.original_file_size, self.original_chunk_size)
        if count > _MAX_CHUNKS:
            raise ValueError(f"{count} chunks; at most {_MAX_CHUNKS} are read")
        sizes = [self.transformed_chunk_size] * (count - 1) + [self.final_transformed_chunk_size] * min(count, 1)
        return array("q", accumulate(sizes))


class _Variable(msgspec.Struct, tag="variable", rename="camel"):
    original_chunk_size: _Size
    original_file_size: _Int32
    transformed_chunks: str

    def ends(self) -> array[int]:
        """Where each chunk ends in the object."""
        sizes = chunk_sizes(
            bytes(decompress("zstd", base64.b64decode(self.transformed_chunks, validate=True), _MAX_SIZES))
        )
        count = _count(self.original_file_size, self.original_chunk_size)
        if len(sizes) != count:
            raise ValueError(f"sizes of {len(sizes)} chunks, and the segment has {count}")
        return array("q", accumulate(sizes))


def _count(size: int, chunk: int) -> int:
    return -(-size // chunk)


def chunk_sizes(data: bytes) -> list[int]:
    """The sizes of chunks, as `ChunkSizesBinaryCodec` writes them: count, least size, bytes of each difference, the
    differences, and the last size as a whole."""
    count = int.from_bytes(data[:4])
    if count > _MAX_CHUNKS:
        raise ValueError(f"{count} chunks; at most {_MAX_CHUNKS} are read")
    if count < 2:
        sizes = list(struct.unpack_from(f">{count}i", data, 4))
    else:
        base, width = struct.unpack_from(">iB", data, 4)
        end = 9 + (count - 1) * width
        if not 1 <= width <= 4 or len(data) != end + 4:
            raise ValueError(f"{len(data)} bytes for the sizes of {count} chunks")
        sizes = [base + int.from_bytes(data[at : at + width]) for at in range(9, end, width)]
        sizes.append(*struct.unpack_from(">i", data, end))
    if min(sizes, default=0) < 0:
        raise ValueError("a negative size")
    return sizes


class _Slice(msgspec.Struct):
    position: _Int32
    size: _Int32


class _Indexes(msgspec.Struct, rename="camel"):
    offset: _Slice
    timestamp: _Slice
    producer_snapshot: _Slice
    leader_epoch: _Slice
    transaction: _Slice | None = None


class _Encryption(msgspec.Struct, rename="camel"):
    data_key: str
    aad: str


class _Manifest(msgspec.Struct, tag_field="version", tag="1", rename="camel"):
    """`SegmentManifestV1`; what else it has is not needed here."""

    chunk_index: _Fixed | _Variable
    segment_indexes: _Indexes
    compression: bool
    encryption: _Encryption | None = None


class _Layout(msgspec.Struct, frozen=True):
    """A manifest that was checked.

    Attributes:
        path: of the manifest. `size`: of the segment. `chunk`: bytes of the segment in a chunk.
        ends: where the chunks end in the object.
        wrapped: the data key, `key_id`: of the key pair that wrapped it; None where nothing is encrypted.
    """

    path: str
    size: int
    chunk: int
    ends: array[int]
    indexes: _Indexes
    compressed: bool
    key_id: str
    wrapped: bytes | None
    aad: bytes

    @property
    def plain(self) -> bool:
        """Whether chunks are stored as they are."""
        return self.wrapped is None and not self.compressed

    def chunk_at(self, number: int) -> tuple[int, int]:
        """Where a chunk begins and ends in the object."""
        return self.ends[number - 1] if number else 0, self.ends[number]


def opened(file: StoredFile) -> Opened:
    """The bytes of a segment, or of one of its indexes, as a broker has them.

    Raises:
        OSError: an object is missing or cannot be read, is damaged, or its key is not there.
        MissingExtraError: it is encrypted, and cryptography is not installed.
    """
    stem, suffix = _named(file.path)
    if suffix == MANIFEST:
        return file.raw(file.path)
    layout = _layout(file)
    if suffix == LOG:
        with ExitStack() as unless_returned:
            objects = file.raw(file.path)
            unless_returned.callback(objects.close)
            chunks = _Chunks(objects, file.path, layout, _key(file, layout))
            unless_returned.pop_all()
        return chunks
    at: _Slice | None = getattr(layout.indexes, SLICES[suffix])
    if at is None or not at.size:
        return io.BytesIO()
    path = f"{stem}.{INDEXES}"
    with file.raw(path) as objects:
        data = _exactly(objects, at.position, at.size, path, f"the {suffix}")
    key = _key(file, layout)
    if key is not None:
        data = _plain(key, layout, data, path, f"the {suffix} at bytes {at.position} to {at.position + at.size}")
    return io.BytesIO(data)


def size(file: StoredFile) -> int:
    """The bytes of a segment, or of one of its indexes, as a broker has them. Raises OSError: the manifest is missing
    or cannot be read."""
    _, suffix = _named(file.path)
    if suffix == MANIFEST:
        with file.raw(file.path) as manifest:
            return manifest.seek(0, io.SEEK_END)
    layout = _layout(file)
    if suffix == LOG:
        return layout.size
    at: _Slice | None = getattr(layout.indexes, SLICES[suffix])
    return 0 if at is None else max(0, at.size - (NONCE + TAG if layout.wrapped is not None else 0))


def object_of(path: str) -> str:
    """The path of the object that a file of a tier is in."""
    stem, suffix = _named(path)
    return f"{stem}.{INDEXES}" if suffix in SLICES else path


def _named(path: str) -> tuple[str, str]:
    stem, _, suffix = path.rpartition(".")
    return stem, suffix


class _Chunks:
    """A segment's bytes: only the chunks that are read are fetched; the last one is kept."""

    def __init__(self, objects: Opened, path: str, layout: _Layout, key: bytes | None) -> None:
        self._objects, self._path, self._layout, self._key = objects, path, layout, key
        self._position = 0
        self._kept: tuple[int, bytes] = -1, b""
        stored, end = objects.seek(0, io.SEEK_END), layout.ends[-1] if layout.ends else 0
        if stored > end:
            raise _broken(path, f"{stored} bytes, and its manifest has {end}")

    def seek(self, position: int, whence: int = 0, /) -> int:
        self._position = position + (0, self._position, self._layout.size)[whence]
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        layout, start = self._layout, self._position
        end = layout.size if size < 0 else min(layout.size, start + size)
        if start >= end:
            return b""
        if layout.plain:
            data = _exactly(self._objects, start, end - start, self._path, "the segment")
        else:
            first, last = start // layout.chunk, (end - 1) // layout.chunk
            parts = [self._at(number) for number in range(first, last + 1)]
            parts[-1] = parts[-1][: end - last * layout.chunk]
            parts[0] = parts[0][start - first * layout.chunk :]
            data = b"".join(parts)
        self._position = end
        return data

    def _at(self, number: int) -> bytes:
        if self._kept[0] != number:
            self._kept = number, self._read(number)
        return self._kept[1]

    def _read(self, number: int) -> bytes:
        layout = self._layout
        start, end = layout.chunk_at(number)
        what = f"chunk {number} at bytes {start} to {end}"
        data = _exactly(self._objects, start, end - start, self._path, what)
        if self._key is not None:
            data = _plain(self._key, layout, data, self._path, what)
        whole = min(layout.chunk, layout.size - number * layout.chunk)
        if layout.compressed:
            try:
                data = bytes(decompress("zstd", data, whole))
            except CompressionError as error:
                raise _broken(self._path, f"{what} does not decompress: {error}") from None
        if len(data) != whole:
            raise _broken(self._path, f"{what} holds {len(data)} bytes of the segment instead of {whole}")
        return data

    def close(self) -> None:
        self._objects.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


def _exactly(objects: Opened, position: int, size: int, path: str, what: str) -> bytes:
    objects.seek(position)
    parts: list[bytes] = []
    left = size
    while left and (part := objects.read(left)):
        parts.append(part)
        left -= len(part)
    if left:
        raise _broken(path, f"the object ends {left} bytes before the end of {what}")
    return b"".join(parts)


def _plain(key: bytes, layout: _Layout, data: bytes, path: str, what: str) -> bytes:
    plain = decrypted(data, key, layout.aad)
    if plain is None:
        raise _broken(path, f"{what} does not decrypt: it was changed, or the data key is another segment's")
    return plain


def _broken(path: str, what: str) -> OSError:
    return OSError(errno.EIO, what, path)


def _key(file: StoredFile, layout: _Layout) -> bytes | None:
    if layout.wrapped is None:
        return None
    key = _data_key(layout.wrapped, file.tier_keys)
    if key is None:
        given = "none of the given private keys unwraps it" if file.tier_keys else "no private key was given"
        raise OSError(
            errno.EACCES, f"encrypted; its data key is wrapped with the key pair {layout.key_id!r}: {given}", file.path
        )
    return key


@lru_cache(maxsize=256)
def _data_key(wrapped: bytes, keys: tuple[str, ...]) -> bytes | None:
    return unwrapped(wrapped, keys)


def _layout(file: StoredFile) -> _Layout:
    """The manifest of a file's segment. Raises OSError: it is missing, cannot be read, or is not valid."""
    path = f"{_named(file.path)[0]}.{MANIFEST}"
    try:
        with file.raw(path) as manifest:
            data = manifest.read(_MAX_MANIFEST + 1)
    except FileNotFoundError:
        text = f"its manifest {path} is missing: the copy was not finished, or is being deleted"
        raise FileNotFoundError(errno.ENOENT, text, file.path) from None
    try:
        return _checked(path, data)
    except (msgspec.DecodeError, ValueError, struct.error, CompressionError, binascii.Error) as error:
        raise OSError(errno.EINVAL, f"its manifest {path} is not valid: {error}", file.path) from None


@lru_cache(maxsize=16)
def _checked(path: str, data: bytes) -> _Layout:
    if len(data) > _MAX_MANIFEST:
        raise ValueError(f"more than {_MAX_MANIFEST} bytes")
    manifest: Any = msgspec.json.decode(data, type=_Manifest)
    index, encryption = manifest.chunk_index, manifest.encryption
    key_id, wrapped, aad = "", None, b""
    if encryption is not None:
        key_id, mark, text = encryption.data_key.partition(":")
        wrapped, aad = base64.b64decode(text, validate=True), base64.b64decode(encryption.aad, validate=True)
        if not mark or not wrapped:
            raise ValueError("dataKey is not ID:KEY")
    layout = _Layout(
        path=path,
        size=index.original_file_size,
        chunk=index.original_chunk_size,
        ends=index.ends(),
        indexes=manifest.segment_indexes,
        compressed=manifest.compression,
        key_id=key_id,
        wrapped=wrapped,
        aad=aad,
    )
    _check_sizes(layout)
    return layout


def _check_sizes(layout: _Layout) -> None:
    end = layout.ends[-1] if layout.ends else 0
    if layout.plain:
        if end != layout.size:
            raise ValueError(f"chunks of {end} bytes of a segment of {layout.size}, neither compressed nor encrypted")
        return
    lengths = [
        min(layout.chunk, layout.size),
        *(end - start for start, end in map(layout.chunk_at, range(len(layout.ends)))),
    ]
    if max(lengths) > MAX_CHUNK_BYTES:
        raise ValueError(f"a chunk of {max(lengths)} bytes; at most {MAX_CHUNK_BYTES} are read")

"""The engine behind `columns`: the native one where it runs (`wire.backend`), otherwise `object_columns`."""

from __future__ import annotations

from typing import Protocol

from kafkawire.records.array_types import Bools, Bytes, Columns, Int32, Int64
from kafkawire.wire.backend import native


class ColumnEngine(Protocol):
    """The functions of both engines. An engine gives no reason for a refusal; the readers of objects do."""

    def scan_batches(self, data: Bytes, stop: int, check_crc: bool, max_batch_bytes: int, /) -> Columns:
        """The headers of the batches that begin before `stop`, one after the other from the start of `data` on, up to
        the first that does not lie whole in `data` or that `records.read` would not take for a batch.

        Args:
            data: bytes from the beginning of a batch on.
            stop: place in `data`.
            check_crc, max_batch_bytes: see `records.read`.
        """

    def checksums(self, data: Bytes, positions: Int64, /) -> Bools:
        """Whether the checksum of each batch at `positions` is that of its bytes."""

    def record_columns(
        self, data: Bytes, positions: Int64, first: int, most_bytes: int, max_batch_bytes: int, /
    ) -> tuple[Columns, Bytes | None, list[int], int, bool]:
        """The records of batches, until there are enough.

        Args:
            data: the bytes of all batches.
            positions: where each batch begins in `data`.
            first: index of the first batch to read.
            most_bytes: of records, after which no other batch is started.
            max_batch_bytes: most bytes of a batch, decompressed.

        Returns:
            The columns; the bytes that their positions refer to (None: `data`); the batches with malformed records
            (those before the malformed one are there); the batch to go on with; whether that one could not be
            decompressed.
        """

    def gather(self, data: Bytes, starts: Int64, lengths: Int32, /) -> tuple[Int32, Bytes]:
        """Byte strings as offsets and content of an Arrow column.

        Args:
            data: the bytes in which they lie.
            starts: the place of each one.
            lengths: the bytes of each one; a negative length is empty.

        Raises:
            ValueError: outside of the data, or more than 2^31 bytes.
        """


def _chosen() -> ColumnEngine:
    if native is not None:
        return native
    from kafkawire.records import object_columns

    return object_columns


#: The engine in use.
engine = _chosen()

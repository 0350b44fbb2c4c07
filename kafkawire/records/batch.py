"""`Batch`: a record batch of any magic.

A batch of magic 2 is a header and its records; one of magic 0 or 1 is a single message, or a wrapper with its messages
(see `legacy`). The header is parsed once; the records are read and decompressed only when they are used. So a loop over
the headers of batches reads no payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from kafkawire.errors import EncodeError, RecordError
from kafkawire.records import legacy
from kafkawire.records.compression import CompressionError, codec_name, decompress
from kafkawire.records.control import MALFORMED, Control, control_of
from kafkawire.records.header import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HIGHEST_OFFSET,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    checksum,
)
from kafkawire.records.record import NO_SEQUENCE, Record, read_records
from kafkawire.records.varints import wrap64
from kafkawire.wire.values import Buffer

#: The clock of the records' timestamps: the producer's, or (attribute LOG_APPEND_TIME) the broker's.
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
#: Base offset, length and leader epoch.
_REBASED = struct.Struct(">qii")


class Batch(msgspec.Struct, frozen=True, gc=False):
    """A batch; fields as on the wire, under Kafka's names. What magic 0 and 1 do not have is -1 there.

    Attributes:
        position: byte offset of the batch in what was read.
        magic: the format: 0, 1 or 2.
        data: all its bytes, a view of what was read.
        base_offset, last_offset_delta: the offsets that the batch covers, whether or not compaction left the records.
        batch_length: bytes after this field; `size` is the whole.
        partition_leader_epoch: of the leader that appended it; -1 in what a producer sends.
        crc: CRC-32C of all bytes from the attributes on (magic 0 and 1: CRC-32 from the magic on).
        attributes: bits (of magic 0 and 1 those that mean something); `codec`, `timestamp_type`, `transactional`,
            `is_control`, `delete_horizon` read them.
        base_timestamp, max_timestamp: epoch milliseconds, -1 for none.
        producer_id, producer_epoch, base_sequence: -1 where the producer is not idempotent.
        record_count: number of records; 0 for a batch that compaction emptied and kept for its producer's state; -1 for
            a wrapper of magic 0 or 1 that was not looked into (`measured`), whose offsets then are those of its last
            message.
        max_batch_bytes: most bytes that the records may have when decompressed.
    """

    position: int
    data: memoryview
    max_batch_bytes: int
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record; beyond 2^63 - 1, which no log has, it overflows as in Java."""
        return wrap64(self.base_offset + self.last_offset_delta)

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, -1 where the batch carries none. After 2^31 - 1 comes 0."""
        return (self.base_sequence + self.last_offset_delta) % (1 << 31) if self.base_sequence >= 0 else NO_SEQUENCE

    @property
    def codec(self) -> str:
        """none, gzip, snappy, lz4 or zstd."""
        return codec_name(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> str:
        """CreateTime or LogAppendTime (then every record's timestamp is `max_timestamp`, the broker's clock).

        NoTimestampType for magic 0, whose messages have no timestamps.
        """
        if not self.magic:
            return "NoTimestampType"
        return TIMESTAMP_TYPES[bool(self.attributes & LOG_APPEND_TIME)]

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker instead of data; costs no payload. `control` is the marker."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """When compaction may drop the batch's tombstones and markers (KIP-534), epoch milliseconds."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def crc_ok(self) -> bool:
        """Whether the stored checksum is right."""
        return checksum(self.data) == self.crc

    @property
    def records(self) -> Iterator[Record]:
        """The records, read anew at each access. Iterating raises RecordError where they are damaged.

        An iterator and no list: compressed records may be many times larger than the batch.
        """
        if self.magic < MAGIC:
            yield from legacy.read_messages(self.data, position=self.position, limit=self.max_batch_bytes)
            return
        if not self.record_count:
            return  # whatever follows the header: `DefaultRecordBatch.iterator`
        payload: Buffer = self.data[HEADER.size :]
        origin = self.position + HEADER.size
        if self.attributes & CODEC_MASK:
            try:
                payload = decompress(self.codec, payload, self.max_batch_bytes)
            except CompressionError as error:
                raise RecordError(
                    expected=f"records compressed with {self.codec}", found=str(error), offset=origin, path="records"
                ) from None
            origin = 0
        try:
            yield from read_records(
                bytes(payload),
                self.record_count,
                base_offset=self.base_offset,
                base_timestamp=self.base_timestamp,
                base_sequence=self.base_sequence,
                append_time=self.max_timestamp if self.attributes & LOG_APPEND_TIME else None,
                origin=origin,
            )
        except RecordError as error:
            if origin:
                raise
            # A position in decompressed bytes is no position in the file: report that of the batch.
            found = f"{error.found} (byte {error.offset} of the decompressed records)"
            raise RecordError(expected=error.expected, found=found, offset=self.position, path=error.path) from None

    @property
    def control(self) -> Control | None:
        """The control record; None for a batch of data.

        Raises:
            RecordError: the control record cannot be read.
        """
        if not self.attributes & CONTROL:
            return None
        if self.magic == MAGIC and not self.record_count and self.batch_length + LOG_OVERHEAD > HEADER.size:
            found = f"{self.batch_length + LOG_OVERHEAD - HEADER.size} bytes"
            raise RecordError(
                expected="no record, as the header counts", found=found, offset=self.position, path="records"
            )
        return control_of(next(self.records, None))

    def rebased(self, base_offset: int, leader_epoch: int) -> bytes:
        """The bytes of the batch as a broker writes them to its log: at its own offset, in the leader's epoch.

        Neither field is part of a checksum, so that of the bytes stays as right as it is. The records count their
        offsets from the batch's.

        Args:
            base_offset: of the first record.
            leader_epoch: of the leader that appends the batch; -1 for none.

        Raises:
            EncodeError: the batch is of magic 0 or 1, whose messages hold their offsets one by one; or a number does
                not fit.
        """
        if self.magic != MAGIC:
            raise EncodeError(f"a batch of magic {self.magic} cannot be rebased", path="magic")
        if not 0 <= base_offset <= HIGHEST_OFFSET:
            raise EncodeError(f"{base_offset} is no base offset (0 to {HIGHEST_OFFSET})", path="base_offset")
        if not -1 <= leader_epoch < 1 << 31:
            raise EncodeError(f"{leader_epoch} is no leader epoch (-1 to {(1 << 31) - 1})", path="leader_epoch")
        rebased = bytearray(self.data)
        _REBASED.pack_into(rebased, 0, base_offset, self.batch_length, leader_epoch)
        return bytes(rebased)

    def measured(self) -> Batch:
        """The batch with the offsets and the number of records of a wrapper of magic 0 or 1, which only its payload
        contains. Returns itself where the header contains them, where the payload is damaged, and where its offsets
        do not ascend.
        """
        if self.record_count >= 0 or self.magic == MAGIC:
            return self
        try:
            inside = legacy.contents(self.data, position=self.position, limit=self.max_batch_bytes)
        except RecordError:
            return self
        if inside.first > inside.last or inside.first < 0 <= self.base_offset:
            return self
        delta = inside.last - inside.first
        return replace(self, base_offset=inside.first, last_offset_delta=delta, record_count=inside.count)


def readable_control(batch: Batch) -> Control | None:
    """`Batch.control`; MALFORMED, with the problem, where the control record cannot be read."""
    try:
        return batch.control
    except RecordError as error:
        return Control(MALFORMED, problem=str(error))

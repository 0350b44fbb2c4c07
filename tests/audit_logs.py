"""Log directories for the audit's tests, written batch by batch as a broker would."""

from __future__ import annotations

from pathlib import Path

import crc32c

from kafkawire.messages import ProducerSnapshot, TransactionLogKey, TransactionLogValue
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.records import Batch, Record, build, build_marker, read
from kafkawire.transactions import Replay, append_of
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id

#: 2025-06-16 12:00:00 UTC; tests count from here.
NOON = 1_750_075_200_000
MINUTE = 60_000
HOUR = 60 * MINUTE

STATUS = {
    "Empty": 0,
    "Ongoing": 1,
    "PrepareCommit": 2,
    "PrepareAbort": 3,
    "CompleteCommit": 4,
    "CompleteAbort": 5,
    "Dead": 6,
}


def open_entry(start: int, last: int, producer_id: int = 1000) -> ProducerEntry:
    """The entry of a snapshot with an open transaction, three hours old."""
    return ProducerEntry(
        producer_id=producer_id,
        epoch=0,
        last_sequence=0,
        last_offset=last,
        offset_delta=0,
        timestamp=NOON - 3 * HOUR,
        coordinator_epoch=0,
        current_txn_first_offset=start,
    )


class PartitionLog:
    """A partition: what is appended, in segments."""

    def __init__(self, directory: Path, start: int = 0) -> None:
        self.directory = directory
        self.end = start
        self.leader_epoch = 0
        self.segments: list[tuple[int, bytearray]] = [(start, bytearray())]
        self.sequences: dict[tuple[int, int], int] = {}

    def data(
        self,
        producer_id: int,
        epoch: int = 0,
        *,
        at: int = NOON,
        records: int = 1,
        transactional: bool = True,
        append_time: int | None = None,
        codec: str = "none",
        sequence: int | None = None,
    ) -> int:
        """Append a batch; returns its base offset. `sequence`: its base sequence, by default the one that follows."""
        if sequence is None:
            sequence = self.sequences.get((producer_id, epoch), 0) if producer_id >= 0 else -1
        self.sequences[producer_id, epoch] = (sequence + records) % 2**31
        listed = [Record(key=b"k", value=b"v%d" % i, timestamp=at) for i in range(records)]
        return self._append(
            build(
                listed,
                base_offset=self.end,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                partition_leader_epoch=self.leader_epoch,
                transactional=transactional,
                append_time=append_time,
                codec=codec,
            ),
            records,
        )

    def plain(self, *, at: int = NOON, records: int = 1) -> int:
        """Append a batch of a producer that is not idempotent."""
        return self.data(-1, -1, at=at, records=records, transactional=False)

    def marker(self, name: str, producer_id: int, epoch: int = 0, *, at: int = NOON, coordinator_epoch: int = 0) -> int:
        data = build_marker(
            name,
            offset=self.end,
            timestamp=at,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            partition_leader_epoch=self.leader_epoch,
        )
        return self._append(data, 1)

    def empty_marker(self, producer_id: int, epoch: int = 0) -> int:
        """A marker whose record compaction removed."""
        data = build(
            [],
            base_offset=self.end,
            last_offset=self.end,
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=True,
            control=True,
        )
        return self._append(data, 1)

    def records(self, records: list[Record]) -> int:
        data = build(records, base_offset=self.end, partition_leader_epoch=self.leader_epoch)
        return self._append(data, len(records))

    def roll(self) -> None:
        """Begin a new segment."""
        self.segments.append((self.end, bytearray()))

    def skip(self, offsets: int) -> None:
        """Leave offsets out, as compaction does."""
        self.end += offsets

    def snapshot(self, *entries: ProducerEntry, offset: int | None = None) -> None:
        """Write a snapshot of producer state."""
        snapshot = ProducerSnapshot(producer_entries=tuple(entries))
        data = bytearray(snapshot.encode_prefixed(version=1))
        data[2:6] = crc32c.crc32c(bytes(data[6:])).to_bytes(4, "big")
        self.directory.mkdir(parents=True, exist_ok=True)
        number = self.end if offset is None else offset
        (self.directory / f"{number:020}.snapshot").write_bytes(data)

    def write(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for base_offset, data in self.segments:
            (self.directory / f"{base_offset:020}.log").write_bytes(data)

    def derive(self, *, stopped: bool = True) -> None:
        """Write the snapshots and transaction indexes that a broker has of such a log. `stopped`: cleanly, which writes
        a snapshot at the end."""
        replay = Replay()
        for base, data in self.segments:
            if base:
                self.snapshot(*replay.snapshot(), offset=base)
            index = b""
            for batch in read(bytes(data)):
                assert isinstance(batch, Batch)
                append = append_of(batch)
                ended = None if append is None else replay.add(append)
                if ended is not None and ended.aborted is not None:
                    index += ended.aborted.encode_prefixed(version=0)
            if index:
                (self.directory / f"{base:020}.txnindex").write_bytes(index)
        if stopped:
            self.snapshot(*replay.snapshot())

    def _append(self, data: bytes, offsets: int) -> int:
        self.segments[-1][1].extend(data)
        self.end += offsets
        return self.end - offsets


class LogDirectory:
    """A broker's log directory, with all partitions of `__transaction_state`.

    Args:
        ids: number of these partitions.
        stopped: the broker was stopped cleanly: all files are of one moment.
        compacted: records of ids are written as if compaction had removed others before each.
    """

    def __init__(self, root: Path, *, ids: int = 3, compacted: bool = True, stopped: bool = True) -> None:
        self.compacted = compacted
        self.stopped = stopped
        self.root = root
        self.partitions: dict[tuple[str, int], PartitionLog] = {}
        self.checkpoints: dict[str, dict[tuple[str, int], int]] = {}
        self.ids = ids
        for number in range(ids):
            self.partition("__transaction_state", number)

    def partition(self, topic: str, number: int = 0, *, start: int = 0) -> PartitionLog:
        if (topic, number) not in self.partitions:
            self.partitions[topic, number] = PartitionLog(self.root / f"{topic}-{number}", start)
        return self.partitions[topic, number]

    def id_log(self, transactional_id: str) -> PartitionLog:
        return self.partition("__transaction_state", partition_of_id(transactional_id, self.ids))

    def id(
        self,
        transactional_id: str,
        state: str | None,
        producer_id: int = -1,
        epoch: int = 0,
        *partitions: tuple[str, int],
        at: int = NOON,
        begun: int | None = None,
        timeout: int = 15 * MINUTE,
        version: int = 2,
        previous: int = -1,
        next: int = -1,
    ) -> None:
        """Write a record of `__transaction_state`; `state` None is a tombstone."""
        value = None if state is None else TransactionLogValue(
            producer_id=producer_id,
            previous_producer_id=previous,
            next_producer_id=next,
            producer_epoch=epoch,
            transaction_timeout_ms=timeout,
            transaction_status=STATUS[state],
            transaction_partitions=tuple(PartitionsSchema(topic, (number,)) for topic, number in partitions) or None,
            transaction_last_update_timestamp_ms=at,
            transaction_start_timestamp_ms=at if begun is None else begun,
            client_transaction_version=version,
        )  # fmt: skip
        log = self.id_log(transactional_id)
        if self.compacted:
            log.skip(1)
            number = partition_of_id(transactional_id, self.ids)
            self.checkpoint("cleaner-offset-checkpoint", "__transaction_state", number, log.end)
        key = TransactionLogKey(transactional_id=transactional_id).encode_prefixed(version=0)
        body = None if value is None else value.encode_prefixed(version=1)
        log.records([Record(key=key, value=body, timestamp=at)])

    def checkpoint(self, name: str, topic: str, number: int, offset: int) -> None:
        self.checkpoints.setdefault(name, {})[topic, number] = offset

    def high_watermark(self, topic: str, number: int, offset: int) -> None:
        self.checkpoint("replication-offset-checkpoint", topic, number, offset)

    def write(self) -> str:
        """Write all files; returns the directory's path."""
        self.root.mkdir(parents=True, exist_ok=True)
        for partition in self.partitions.values():
            partition.write()
        for name, lines in self.checkpoints.items():
            body = "".join(f"{topic} {number} {offset}\n" for (topic, number), offset in lines.items())
            (self.root / name).write_text(f"0\n{len(lines)}\n{body}")
        if self.stopped:
            (self.root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        (self.root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=test\n")
        return str(self.root)

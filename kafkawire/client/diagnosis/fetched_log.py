"""The log of a live partition in the form in which audits read segments: one file, of which only the piece that was
fetched last is in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType

from kafkawire.client.results import Offsets, ProducerState, TopicPartition
from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.directory import BrokerDirectory
from kafkawire.logdir.entries import SnapshotEntry
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Damage


class FetchedPiece:
    """The newest piece of a log. Positions count from the first byte that was fetched. `start`, `end`: positions.
    `data`: the bytes between them."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.data = b""

    def follow(self, data: bytes) -> None:
        """Replaces the piece by the next one."""
        self.start, self.end, self.data = self.end, self.end + len(data), data

    def skip(self, size: int) -> None:
        """Replaces the piece by the end of the next one, which was read before."""
        self.start = self.end = self.end + size
        self.data = b""


class _OpenedPiece:
    """See `file_source.Opened`. There is nothing before the piece any more."""

    def __init__(self, piece: FetchedPiece) -> None:
        self._piece = piece
        self._at = 0

    def seek(self, position: int, whence: int = 0, /) -> int:
        self._at = self._piece.end if whence == os.SEEK_END else position
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        first = self._at - self._piece.start
        found = self._piece.data[first : None if size < 0 else first + size] if first >= 0 else b""
        self._at += len(found)
        return found

    def close(self) -> None: ...

    def __enter__(self) -> _OpenedPiece:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class FetchedLog(LogFile, frozen=True, kw_only=True):
    """The log as a segment. `offset`: of its first batch; None where only the piece that is in memory is read."""

    piece: FetchedPiece

    @property
    def size(self) -> int:
        return self.piece.end

    @property
    def begin(self) -> int:
        return self.piece.start

    def opened(self) -> _OpenedPiece:
        return _OpenedPiece(self.piece)


class FetchedPartition(Partition):
    """The leader's replica of a partition.

    Args:
        address: of the cluster, in place of a log directory.
        first: base offset of the first batch that is read, or where none is: the offset to begin at.
        producers: that the leader remembers, in place of the newest `.snapshot`.
    """

    def __init__(
        self, address: str, place: TopicPartition, first: int, offsets: Offsets, producers: Sequence[ProducerState]
    ) -> None:
        path = f"{address}/{place}"
        self.log = FetchedLog(path, address, "log", place.topic, place.partition, first, piece=FetchedPiece())
        super().__init__([self.log], BrokerDirectory(address, self.log))
        self.path, self.state = path, ""
        self._offsets = offsets
        self._producers = producers

    @property
    def high_watermark(self) -> int:
        return self._offsets.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self._offsets.log_start

    @property
    def local_start_offset(self) -> int:
        return self._offsets.log_start

    @property
    def recovery_point(self) -> None:
        """No broker says it."""

    @property
    def cleaned_to(self) -> int:
        """No broker says how far its cleaner has come: it may have been everywhere."""
        return self._offsets.high_watermark

    def latest_snapshot(self) -> tuple[LogFile, list[SnapshotEntry | Damage]]:
        """The producers that the leader remembers."""
        return self.log, [SnapshotEntry(0, _entry(state)) for state in self._producers]


def _entry(state: ProducerState) -> ProducerEntry:
    """A producer as a snapshot has it; of what DescribeProducers does not give the value for "not known"."""
    start = state.transaction_start_offset
    return ProducerEntry(
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        last_sequence=_or_none(state.last_sequence),
        last_offset=-1 if start is None else start,
        offset_delta=0,
        timestamp=_or_none(state.last_timestamp),
        coordinator_epoch=_or_none(state.coordinator_epoch),
        current_txn_first_offset=_or_none(start),
    )


def _or_none(value: int | None) -> int:
    return -1 if value is None else value

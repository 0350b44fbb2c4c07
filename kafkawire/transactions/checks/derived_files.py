"""Whether a partition's `.snapshot` and `.txnindex` files agree with its log.

Both are derived from the log, and a broker believes them: a wrong one makes it refuse producers, or return aborted
records. Each entry is judged only where the log still shows all that it rests on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import msgspec

from kafkawire.logdir import LogFile
from kafkawire.logdir.entries import AbortedEntry, SnapshotEntry
from kafkawire.logdir.indexes import aborted_transactions, producer_snapshot
from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Damage
from kafkawire.transactions.answers import SNAPSHOT_EQUALS_REPLAY, TXNINDEX_EQUALS_LOG, Tally
from kafkawire.transactions.producer_state import Producer
from kafkawire.transactions.replay import Ended, Replay

_FIELDS = (
    "epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch",
    "current_txn_first_offset",
)  # fmt: skip

_HOLE = "offsets are missing below the file's"
_COMPACTED = "compaction rewrote the producer's last batch"
_FORGOTTEN = "the producer may have expired before the file was written"


class SnapshotCheck:
    """`.snapshot` files against the state replayed up to the offset in each one's name.

    A snapshot may know more than the log: of producers whose batches were deleted or compacted. So after one that the
    log cannot confirm, the next is compared with this one and the log between them, as when a broker recovers.

    Attributes:
        last_offset: of the newest file, -1 for none.
        replay: from a snapshot on, which has to follow the log; None: the one that the log alone gives is compared.
    """

    def __init__(self, files: Iterable[LogFile]) -> None:
        self.tally = Tally(SNAPSHOT_EQUALS_REPLAY)
        self._files = sorted(files, key=lambda file: file.offset or 0, reverse=True)
        self.last_offset = (self._files[0].offset or 0) if self._files else -1
        self.replay: Replay | None = None
        self._known_from = 0

    @property
    def next_offset(self) -> int | None:
        """Offset of the next file; None when there is none left."""
        return (self._files[-1].offset or 0) if self._files else None

    def reach(self, offset: int, intact_from: int, replay: Replay) -> None:
        """Compare the files up to the next batch.

        Args:
            offset: of the next batch. `intact_from`: as in `Append`, of that batch.
            replay: the state before it, from the log alone.
        """
        while self._files and (self._files[-1].offset or 0) <= offset:
            self._compare(self._files.pop(), intact_from, self.replay or replay)

    def finish(self) -> None:
        """The log has ended below the files that are left."""
        self.tally.lack("the log ends below the file's offset", len(self._files))
        self._files.clear()

    def _compare(self, file: LogFile, intact_from: int, replay: Replay) -> None:
        entries = _snapshot_entries(file)
        if entries is None:
            self.tally.lack("the file cannot be read")
            return
        before = self.tally.violated
        known = intact_from <= self._known_from
        stored = {entry.producer_id: entry for entry in entries}
        if known:
            self._compare_all(file, stored, replay)
        else:
            for producer_id, producer in replay.producers.items():
                if producer.last_data_offset >= intact_from:
                    self._judge(file, stored.get(producer_id), producer, known=False)
                else:
                    self.tally.lack(_HOLE)
            self.tally.lack(_HOLE, len(stored.keys() - replay.producers.keys()))
        if not known or self.tally.violated > before:
            self.replay = Replay(entries)
            self._known_from = file.offset or 0

    def _compare_all(self, file: LogFile, stored: dict[int, ProducerEntry], replay: Replay) -> None:
        """Compare a file whose every producer the replay knows. Brokers forget idle producers, the replay does not: so
        that the work grows with the file, those that it lacks are counted, and only the open ones are looked at."""
        unseen = []
        for entry in stored.values():
            producer = replay.producers.get(entry.producer_id)
            if producer is None:
                unseen.append(entry)
            else:
                self._judge(file, entry, producer, known=True)
        lacking = [producer for producer in replay.open() if producer.producer_id not in stored]
        for producer in lacking:
            self._judge(file, None, producer, known=True)
        self.tally.lack(_FORGOTTEN, len(replay.producers) - (len(stored) - len(unseen)) - len(lacking))
        for entry in unseen:
            what = "holds the producer, and the log has no batch of it"
            self.tally.breach(file.offset or 0, entry.producer_id, what, file.path)

    def _judge(self, file: LogFile, stored: ProducerEntry | None, producer: Producer, *, known: bool) -> None:
        if stored is None:
            if producer.first_offset >= 0:
                what = f"lacks the producer, whose transaction from offset {producer.first_offset} on is open"
                self.tally.breach(file.offset or 0, producer.producer_id, what, file.path)
            else:
                self.tally.lack(_FORGOTTEN)
            return
        if producer.rewritten or producer.epoch < 0:
            self.tally.lack(_COMPACTED)
            return
        replayed = producer.entry()
        # Where offsets are missing, so may be the producer's last marker and the beginning of its transaction.
        fields = _FIELDS if known else _FIELDS[:5]
        different = [name for name in fields if getattr(stored, name) != getattr(replayed, name)]
        if different == ["coordinator_epoch"] and stored.coordinator_epoch < 0:
            self.tally.lack(_FORGOTTEN)  # and it has come back since, which begins without a marker
        elif different:
            what = "; ".join(
                f"{name} {getattr(stored, name)}, the log has {getattr(replayed, name)}" for name in different
            )
            self.tally.breach(file.offset or 0, producer.producer_id, what, file.path)
        else:
            self.tally.held += 1


class _AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    """An aborted transaction as replayed. `intact_from`: from where on no offset is missing before its marker."""

    ended: Ended
    intact_from: int


class TransactionIndexCheck:
    """`.txnindex` files against the aborted transactions of the log, segment by segment."""

    def __init__(self, files: Iterable[LogFile]) -> None:
        self.tally = Tally(TXNINDEX_EQUALS_LOG)
        self._files = {file.offset or 0: file for file in files}
        self._any = bool(self._files)
        self._aborts: list[_AbortedTransaction] = []

    def add(self, ended: Ended, intact_from: int) -> None:
        """Take the next transaction that ended."""
        if ended.aborted is not None:
            self._aborts.append(_AbortedTransaction(ended, intact_from))

    def end_segment(self, base_offset: int, end_offset: int, intact_from: int, *, written: bool) -> None:
        """The segment has ended: compare its index.

        Args:
            intact_from: as of its last batch.
            written: the index was complete when it was copied. It may lag behind the last segment of a running broker.
        """
        aborts, self._aborts = self._aborts, []
        file = self._files.get(base_offset)
        entries: list[AbortedTxn] | None = []
        if file is not None:
            entries = _index_entries(file)
            if entries is None:
                self.tally.lack("the file cannot be read", max(1, len(aborts)))
                return
        assert entries is not None
        path = None if file is None else file.path
        self._ascending(entries, path)
        stored = {entry.last_offset: entry for entry in entries}
        reached = max(stored, default=-1)
        for abort in aborts:
            entry = stored.pop(abort.ended.last_offset, None)
            if abort.intact_from > abort.ended.first_offset:
                self.tally.lack("offsets are missing between the transaction's beginning and its marker")
            elif entry is not None:
                self._judge(entry, abort, path)
            elif not self._any:
                self.tally.lack("the partition has no .txnindex: it was not copied")
            elif not written and abort.ended.last_offset > reached:
                self.tally.lack("the index may have been copied before its entry was written")
            else:
                what = f"lacks the transaction from offset {abort.ended.first_offset} on, aborted at this offset"
                self.tally.breach(abort.ended.last_offset, abort.ended.producer_id, what, path)
        for entry in stored.values():
            if entry.last_offset >= end_offset:
                self.tally.lack("the log ends below the entry")
            elif intact_from > 0:
                self.tally.lack("offsets are missing below the entry")
            else:
                what = "has an entry, and the log aborts no transaction with data there"
                self.tally.breach(entry.last_offset, entry.producer_id, what, path)

    def _ascending(self, entries: Sequence[AbortedTxn], path: str | None) -> None:
        for before, entry in itertools.pairwise(entries):
            if entry.last_offset <= before.last_offset:
                what = f"entries are out of order: last offset {entry.last_offset} after {before.last_offset}"
                self.tally.breach(entry.last_offset, entry.producer_id, what, path)

    def _judge(self, entry: AbortedTxn, abort: _AbortedTransaction, path: str | None) -> None:
        ended = abort.ended
        different: list[str] = []
        if entry.producer_id != ended.producer_id:
            different.append(f"producer id {entry.producer_id}, the marker's is {ended.producer_id}")
        complete = abort.intact_from <= 0
        first = entry.first_offset
        if first != ended.first_offset and (complete or first > ended.first_offset):
            different.append(f"first offset {first}, the log has {ended.first_offset}")
        if not _stable_is_right(entry.last_stable_offset, ended, complete):
            different.append(f"last stable offset {entry.last_stable_offset}, the log has {ended.last_stable_offset}")
        if different:
            self.tally.breach(ended.last_offset, ended.producer_id, "; ".join(different), path)
        else:
            self.tally.held += 1


def _stable_is_right(stable: int, ended: Ended, complete: bool) -> bool:
    """A follower appends several batches at once, and takes those behind the marker for open already."""
    after = ended.last_offset + 1
    if stable == ended.last_stable_offset or (ended.last_stable_offset == after and stable > after):
        return True
    return not complete and stable <= after


def _snapshot_entries(file: LogFile) -> list[ProducerEntry] | None:
    """None for a file that cannot be read."""
    try:
        data = file.content()
    except OSError:
        return None
    found = [data] if isinstance(data, Damage) else list(producer_snapshot(data))
    entries = [item.producer for item in found if isinstance(item, SnapshotEntry)]
    return entries if len(entries) == len(found) else None


def _index_entries(file: LogFile) -> list[AbortedTxn] | None:
    """None for a file that cannot be read."""
    try:
        with file.source() as source:
            found = list(aborted_transactions(source))
    except OSError:
        return None
    entries = [item.aborted for item in found if isinstance(item, AbortedEntry)]
    return entries if len(entries) == len(found) else None

"""`SnapshotCheck`: whether a partition's `.snapshot` files agree with its log.

Snapshots are derived from the log, and a broker trusts them: a wrong one makes it refuse producers. Each entry is
judged only where the log still shows all that it rests on. `aborted_index` does the same for `.txnindex` files.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire import rows
from kafkawire.logdir import LogFile
from kafkawire.logdir.indexes import snapshot_producers
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.transactions.answers import SNAPSHOT_EQUALS_REPLAY, Tally
from kafkawire.transactions.log.ordered_replay import OrderedReplay, ordered_replay
from kafkawire.transactions.log.producer_state import Producer

_FIELDS = (
    "epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch",
    "current_txn_first_offset",
)  # fmt: skip

_HOLE = "offsets are missing below the file's"
_COMPACTED = "compaction rewrote the producer's last batch"
_DOUBT = "the file before disagrees with the log"
_FORGOTTEN = "the producer may have expired before the file was written"


class SnapshotCheck:
    """`.snapshot` files against the state replayed up to the offset in each one's name.

    A snapshot may know more than the log: of producers whose batches were deleted or compacted. So after one that the
    log cannot confirm, the next is compared with this one and the log between them, as when a broker recovers.

    Attributes:
        last_offset: of the newest file, -1 for none.
        doubted: from a snapshot that disagrees with the log, which has to follow, too: the next may go on from it.
        replay: from a snapshot on, which has to follow the log; None: the one that the log alone gives is compared.
    """

    def __init__(self, files: Iterable[LogFile]) -> None:
        self.tally = Tally(SNAPSHOT_EQUALS_REPLAY)
        self._files = sorted(files, key=lambda file: file.offset or 0, reverse=True)
        self._newest = self._files[0].path if self._files else None
        self.last_offset = (self._files[0].offset or 0) if self._files else -1
        self.replay: OrderedReplay | None = None
        self.doubted: OrderedReplay | None = None
        self._known_from = 0
        self._went_on = False
        self.damage: list[rows.DamageRow] = []

    @property
    def next_offset(self) -> int | None:
        """Offset of the next file; None when there is none left."""
        return (self._files[-1].offset or 0) if self._files else None

    def reach(self, offset: int, intact_from: int, replay: OrderedReplay) -> None:
        """Compare the files up to the next batch. `offset`: of the next batch. `intact_from`: as in `Append`, of that
        batch. `replay`: the state before it, from the log alone."""
        while self._files and (self._files[-1].offset or 0) <= offset:
            self._compare(self._files.pop(), intact_from, self.replay or replay)

    def finish(self) -> None:
        """The log has ended below the files that are left."""
        self.tally.lack("the log ends below the file's offset", len(self._files))
        self._files.clear()

    def _compare(self, file: LogFile, intact_from: int, replay: OrderedReplay) -> None:
        entries = self._entries(file)
        if entries is None:
            self.tally.lack("the file cannot be read")
            return
        before = self.tally.violated
        self._went_on = False
        known = intact_from <= self._known_from
        stored = {entry.producer_id: entry for entry in entries}
        if known:
            self._compare_all(file, stored, replay)
        else:
            unseen = set(stored)
            for producer in replay.all():
                unseen.discard(producer.producer_id)
                if producer.last_data_offset >= intact_from:
                    self._judge(file, stored.get(producer.producer_id), producer, known=False)
                else:
                    self.tally.lack(_HOLE)
            self.tally.lack(_HOLE, len(unseen))
        self.doubted = ordered_replay(entries) if known and (self._went_on or self.tally.violated > before) else None
        if not known:
            self.replay = ordered_replay(entries)
            self._known_from = file.offset or 0

    def _compare_all(self, file: LogFile, stored: dict[int, ProducerEntry], replay: OrderedReplay) -> None:
        """Compare a file whose every producer the replay knows. Brokers forget idle producers, the replay does not: so
        that the work grows with the file, those that it lacks are counted, and only the open ones are looked at."""
        unseen = []
        for entry in stored.values():
            producer = replay.producer(entry.producer_id)
            if producer is None:
                unseen.append(entry)
            else:
                self._judge(file, entry, producer, known=True)
        lacking = [producer for producer in replay.open() if producer.producer_id not in stored]
        for producer in lacking:
            self._judge(file, None, producer, known=True)
        self.tally.lack(_FORGOTTEN, len(replay) - (len(stored) - len(unseen)) - len(lacking))
        for entry in unseen:
            if self._goes_on(entry):
                self.tally.lack(_DOUBT)
                continue
            what = "holds the producer, and the log has no batch of it"
            since = entry.last_offset - entry.offset_delta
            self.tally.breach(file.offset or 0, entry.producer_id, what, file.path, since=since)

    def _goes_on(self, stored: ProducerEntry) -> bool:
        """Whether an entry follows from the file before, which disagrees with the log."""
        producer = None if self.doubted is None else self.doubted.producer(stored.producer_id)
        found = producer is not None and producer.entry() == stored
        self._went_on = self._went_on or found
        return found

    def _judge(self, file: LogFile, stored: ProducerEntry | None, producer: Producer, *, known: bool) -> None:
        if stored is None:
            if producer.first_offset >= 0:
                what = f"lacks the producer, whose transaction from offset {producer.first_offset} on is open"
                since = producer.first_offset
                self.tally.breach(file.offset or 0, producer.producer_id, what, file.path, since=since)
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
        if different == ["coordinator_epoch"] and stored.coordinator_epoch == -1:
            self.tally.lack(_FORGOTTEN)  # and it has come back since, which begins without a marker
        elif different and self._goes_on(stored):
            self.tally.lack(_DOUBT)
        elif different:
            what = "; ".join(
                f"{name} {getattr(stored, name)}, the log has {getattr(replayed, name)}" for name in different
            )
            begun = [start for one in (stored, replayed) if (start := one.current_txn_first_offset) >= 0]
            since = min([one.last_offset - one.offset_delta for one in (stored, replayed)] + begun)
            self.tally.breach(file.offset or 0, producer.producer_id, what, file.path, since=since)
        else:
            self.tally.held += 1

    def _entries(self, file: LogFile) -> list[ProducerEntry] | None:
        """None for a file that cannot be read."""
        producers, damage = snapshot_producers(file)
        if file.path != self._newest:  # which is read for itself
            self.damage += [rows.DamageRow.of(one, **file.place) for one in damage]
        return None if damage else producers

"""One ordered pass over a partition's log: the state of its producers, the rules of batches, and what ends.

    log = ordered_replay(checks=LogChecks())
    for appends in columns:                  # in the order of the log
        ended = log.run(appends)             # the transactions that its markers ended

The native engine makes the pass where it runs. It counts what its rules find kept; a batch that one of them does not
find kept, or that a rule asks for which the engine does not have, comes back with the state of its producer before it,
and the reference judges it. The reference, `Replay` and `LogChecks`, makes the whole pass where the engine is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records.array_types import Bools, Int64
from kafkawire.transactions.log.appends import Appends
from kafkawire.transactions.log.batch_rules.batch_rule import EXPIRED, GAP, BatchRule, Step
from kafkawire.transactions.log.endings import PACKED, packed, stacked
from kafkawire.transactions.log.log_checks import LogChecks
from kafkawire.transactions.log.producer_append import Append
from kafkawire.transactions.log.producer_state import BATCHES_TO_RETAIN, Producer, Retained
from kafkawire.transactions.log.replay import Replay, seeds
from kafkawire.transactions.log.spill import Packed
from kafkawire.wire.backend import native

#: Whether the native engine makes the pass.
ENGINE = native is not None


class EndedRows(NamedTuple):
    """Transactions that ended, in the order of their markers.

    Attributes:
        rows: packed (`endings.PACKED`).
        last_stable_offset: of each, as in `replay.Ended`.
        intact_from: of the batch that is its marker, as in `Append`.
    """

    rows: Packed
    last_stable_offset: Int64
    intact_from: Int64

    @classmethod
    def joined(cls, several: list[EndedRows]) -> EndedRows:
        """The rows of several, one after the other."""
        if len(several) == 1:
            return several[0]
        stable, intact = (np.concatenate([np.empty(0, np.int64), *(one[at] for one in several)]) for at in (1, 2))
        return cls(stacked([one.rows for one in several], PACKED), stable, intact)


def ordered_replay(entries: Iterable[ProducerEntry] = (), *, checks: LogChecks | None = None) -> OrderedReplay:
    """The state at the beginning of a pass.

    Args:
        entries: of a `.snapshot`, when the pass begins at its offset.
        checks: judge each batch; None: only the state is needed.
    """
    return _EngineReplay(entries, checks) if ENGINE else _PlainReplay(entries, checks)


class _PlainReplay:
    """The reference: the state of the producers of one partition, after the batches so far."""

    def __init__(self, entries: Iterable[ProducerEntry], checks: LogChecks | None) -> None:
        self._replay = Replay(entries)
        self._checks = checks

    def run(self, appends: Appends) -> EndedRows:
        """Take the next batches. Returns what they end."""
        replay, checks = self._replay, self._checks
        rows, stable, intact = [], [], []
        for append in appends:
            if checks is not None:
                checks.see(replay.producers.get(append.producer_id), append)
            ended = replay.add(append)
            if ended is not None:
                rows.append(ended.packed)
                stable.append(ended.last_stable_offset)
                intact.append(append.intact_from)
        return EndedRows(packed(rows), np.array(stable, np.int64), np.array(intact, np.int64))

    def __len__(self) -> int:
        """The number of producers."""
        return len(self._replay.producers)

    def producer(self, producer_id: int) -> Producer | None:
        """The state of one; None for a producer that was not seen yet."""
        return self._replay.producers.get(producer_id)

    def all(self) -> Iterator[Producer]:
        """The state of all, in the order in which they came."""
        return iter(self._replay.producers.values())

    def last_appends(self) -> tuple[Int64, Int64, Int64]:
        """The last batch or marker of each producer: ids, last offsets and timestamps."""
        rows = [(one.producer_id, one.last_append, one.timestamp) for one in self.all()]
        found = np.array(rows, np.int64).reshape(-1, 3)
        return found[:, 0], found[:, 1], found[:, 2]

    def open(self) -> Iterator[Producer]:
        """The producers with an open transaction, in the order in which these began."""
        return self._replay.open()


#: Numbers of a batch that comes back, in front of its producer's state: its index, whether a rule of the engine does
#: not find itself kept, whether another rule asks for it, the newest timestamp up to it, whether the producer is known.
_BEFORE_STATE = 5
_FIELDS = 16
#: Numbers of a producer's state (`Producer::push_row` of the engine).
_STATE = _FIELDS + 4 * BATCHES_TO_RETAIN + 5
#: Outcomes that the engine counts (`rules::Outcome`).
_OUTCOMES = 5


class _EngineReplay:
    """The native engine's pass."""

    def __init__(self, entries: Iterable[ProducerEntry], checks: LogChecks | None) -> None:
        assert native is not None
        self._checks = checks
        self._log = native.LogReplay(None if checks is None else checks.expiration_ms)
        listed = [number for entry in seeds(entries) for number in _numbers(Producer.of(entry))]
        if listed:
            self._log.restore(np.array(listed, np.int64))
        names = native.LOG_RULES
        rules = () if checks is None else checks.rules
        self._counted = [None if checks is None else checks.tallies.get(name) for name in names]
        self._own = [rule for rule in rules if rule.name in names]
        self._others = [rule for rule in rules if rule.name not in names]

    def run(self, appends: Appends) -> EndedRows:
        columns = tuple(np.ascontiguousarray(getattr(appends, name)) for name in _COLUMNS)
        asked, at, found = self._asked(appends), 0, []
        while at < len(appends):
            at, rows, stable, intact, steps, counts = self._log.run(columns, at, asked)
            found.append(EndedRows(np.frombuffer(rows, PACKED), stable, intact))
            if self._checks is not None:
                self._count(counts.reshape(-1, _OUTCOMES).tolist())
                if len(steps):
                    self._judge(self._checks, appends, steps.reshape(-1, _BEFORE_STATE + _STATE))
        return EndedRows.joined(found)

    def _asked(self, appends: Appends) -> Bools | None:
        """The batches that rules ask for which the engine does not have."""
        if not self._others:
            return None
        asked = np.zeros(len(appends), bool)
        for rule in self._others:
            asked |= True if rule.asks is None else rule.asks(appends)
        return asked

    def _count(self, counts: list[list[int]]) -> None:
        for tally, (_, held, noted, gap, expired) in zip(self._counted, counts, strict=True):
            if tally is not None:
                tally.held += held
                tally.noted += noted
                tally.lack(GAP, gap)
                tally.lack(EXPIRED, expired)

    def _judge(self, checks: LogChecks, appends: Appends, steps: npt.NDArray[np.int64]) -> None:
        """The batches that came back."""
        for append, row in zip(appends.where(steps[:, 0]), steps.tolist(), strict=True):
            _, of_engine, of_others, clock, known = row[:_BEFORE_STATE]
            step = Step(_producer(row[_BEFORE_STATE:]) if known else None, append, clock, checks.expiration_ms)
            if of_engine:
                _judge(self._own, step, append, checks)
            if of_others:
                _judge(self._others, step, append, checks)

    def __len__(self) -> int:
        return len(self._log)

    def producer(self, producer_id: int) -> Producer | None:
        row = self._log.row(producer_id)
        return None if row is None else _producer(row.tolist())

    def all(self) -> Iterator[Producer]:
        at, count = 0, len(self._log)
        while at < count:
            yield from _producers(self._log.rows(at, at + _AT_ONCE))
            at += _AT_ONCE

    def last_appends(self) -> tuple[Int64, Int64, Int64]:
        found: tuple[Int64, Int64, Int64] = self._log.last_appends()
        return found

    def open(self) -> Iterator[Producer]:
        return _producers(self._log.open())


OrderedReplay = _PlainReplay | _EngineReplay

#: As the engine takes them.
_COLUMNS = tuple(name for name in Appends.__struct_fields__ if name != "problems")
#: Producers whose states are taken out at once.
_AT_ONCE = 1 << 14


def _judge(rules: Iterable[BatchRule], step: Step, append: Append, checks: LogChecks) -> None:
    for rule in rules:
        if rule.data if append.control is None else rule.control:
            rule.judge(step, checks.tallies[rule.name])


def _producers(rows: Int64) -> Iterator[Producer]:
    return map(_producer, rows.reshape(-1, _STATE).tolist())


def _producer(row: list[int]) -> Producer:
    producer = Producer(row[0])
    (
        producer.epoch, producer.coordinator_epoch, producer.timestamp, producer.first_offset,
        producer.first_timestamp, producer.open_batches, producer.last_append, producer.data_known_from,
    ) = row[1:9]  # fmt: skip
    has_after, after, has_by, by, producer.marked_at, rewritten, kept = row[9:_FIELDS]
    producer.written_after, producer.written_by = after if has_after else None, by if has_by else None
    producer.rewritten = bool(rewritten)
    for at in range(_FIELDS, _FIELDS + 4 * kept, 4):
        producer.batches.append(Retained(*row[at : at + 4]))
    count, *doubted = row[_FIELDS + 4 * BATCHES_TO_RETAIN :]
    producer.doubted = tuple((doubted[2 * at], doubted[2 * at + 1]) for at in range(count))
    return producer


def _numbers(producer: Producer) -> Iterator[int]:
    """The reverse of `_producer`."""
    after, by = producer.written_after, producer.written_by
    yield from (
        producer.producer_id, producer.epoch, producer.coordinator_epoch, producer.timestamp, producer.first_offset,
        producer.first_timestamp, producer.open_batches, producer.last_append, producer.data_known_from,
        after is not None, after or 0, by is not None, by or 0, producer.marked_at, producer.rewritten,
        len(producer.batches),
    )  # fmt: skip
    for batch in producer.batches:
        yield from batch
    yield from [0] * (4 * (BATCHES_TO_RETAIN - len(producer.batches)))
    yield len(producer.doubted)
    for pair in producer.doubted:
        yield from pair
    yield from [0] * (2 * (2 - len(producer.doubted)))

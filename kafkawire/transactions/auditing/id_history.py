"""`IdHistory`: reduces the records of one partition of `__transaction_state` to `IdFacts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.records import Batch
from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.columns import Batches
from kafkawire.transactions.checks.coordinator_records import IdChecks
from kafkawire.transactions.cluster.clock_offsets import DecisionTimes
from kafkawire.transactions.coordinator.coordinator_log import (
    IdFacts,
    IdLog,
    UnreadableRecord,
    coordinator_records,
    registration,
)
from kafkawire.transactions.coordinator.coordinator_rules import PREPARED, state_name, status_of
from kafkawire.transactions.coordinator.decisions import Decision, Decisions
from kafkawire.transactions.coordinator.id_columns import (
    NUMBERS,
    ROW,
    CoordinatorFact,
    IdColumns,
    Lists,
    Rows,
    columns_of,
    coordinator_facts,
    partition_lists,
    registrations,
    texts,
)
from kafkawire.transactions.coordinator.packed_decisions import DECIDED, Decided
from kafkawire.transactions.facts import DecisionTime, Owner, Place, ProducerIdUse, Registration
from kafkawire.transactions.parts.coordinator_walk import NOTHING, Walked
from kafkawire.transactions.parts.producer_walk import Content
from kafkawire.wire.backend import native

#: Whether the native engine takes the records.
ENGINE = native is not None

_PREPARED = [status_of(state) for state in sorted(PREPARED)]


def id_history(place: Place, expiration_ms: int | None = None) -> IdHistory:
    """The state before the first record.

    Args:
        place: the partition of `__transaction_state`.
        expiration_ms: transactional.id.expiration.ms of the brokers; None where it is not known.
    """
    return EngineIdHistory(place, expiration_ms) if ENGINE else PlainIdHistory(place, expiration_ms)


class PlainIdHistory:
    """The reference. Takes the records of a partition of `__transaction_state` in offset order. The arguments are those
    of `id_history`."""

    def __init__(self, place: Place, expiration_ms: int | None = None) -> None:
        self._place = place
        self._decisions = Decisions()
        self._log = IdLog()
        self._checks = IdChecks(expiration_ms)
        self._uses: dict[tuple[int, str], ProducerIdUse] = {}
        self._times = DecisionTimes()

    def take(self, fact: CoordinatorFact) -> None:
        """Take the next."""
        if isinstance(fact, IdColumns):
            for found in fact.registrations(self._place):
                self._checks.reach(found.offset)
                self.add(found)
        elif isinstance(fact, UnreadableRecord):
            self.add(fact)
        else:
            self._checks.reach(fact.offset)
            registered = registration(self._place, fact)
            if registered is not None:
                self.add(registered)

    def read(self, found: Batches | Batch) -> None:
        """Take the records of the next batches: `coordinator_facts`, and `take` for each."""
        for fact in coordinator_facts(found):
            self.take(fact)

    def walk(self, content: Content, following: int | None, max_batch_bytes: int) -> Walked:
        """Take no batch (see `RecordWalk`): all are read with columns of their headers."""
        return NOTHING

    def add(self, found: Registration | UnreadableRecord) -> None:
        """Take the next record, whose offset was reached."""
        if isinstance(found, Registration):
            before = self._log.newest(found.transactional_id)
            self._checks.see(before, found)
            self._completed(self._decisions.add(before, found), before, found)
            if found.value is not None:
                key = found.value.producer_id, found.transactional_id
                if key not in self._uses:
                    self._uses[key] = ProducerIdUse(found.place, *key, found.offset, found.timestamp)
        self._log.add(found)

    def _completed(self, decision: Decision | None, prepare: Registration | None, complete: Registration) -> None:
        """A decision was carried out: its times, where one coordinator wrote both records."""
        if decision is None or prepare is None or prepare.leader_epoch != complete.leader_epoch:
            return
        if decision.until is not None and decision.lowest_epoch == decision.highest_epoch == decision.marker_epoch - 1:
            self._times.add(
                DecisionTime(
                    decision.producer_id,
                    decision.marker_epoch,
                    decision.since,
                    decision.until,
                    complete.leader_epoch,
                )
            )

    def decided(self, *, last: bool = False) -> Decided:
        """Take out the decisions that no later record changes: see `Decisions.drain`."""
        return Decided.listed(self._place, self._decisions.drain(last=last))

    def facts(self) -> IdFacts:
        """The content of the records so far."""
        owners = {producer_id: self._log.owner(producer_id) for producer_id in self._log.producer_ids()}
        records = list(self._log.records())
        return IdFacts(
            settled=sum(record.value is not None and not _is_prepared(record) for record in records),
            prepared=tuple(record for record in records if _is_prepared(record)),
            owners={producer_id: owner for producer_id, owner in owners.items() if owner is not None},
            uses=tuple(self._uses.values()),
            decisions=Decided.listed(self._place, chain.from_iterable(self._decisions.found.values())),
            unreadable=self._log.unreadable,
            intact=self._checks.intact_from == 0 and self._log.unreadable is None,
            answers=tuple(self._checks.answers()),
            completed=self._times.found(),
        )


class EngineIdHistory:
    """The native engine's pass: it counts the steps that plainly keep all rules, and hands the others to the reference.
    The arguments are those of `id_history`."""

    def __init__(self, place: Place, expiration_ms: int | None = None) -> None:
        assert native is not None
        self._place = place
        self._checks = IdChecks(expiration_ms)
        self._replay = native.CoordinatorReplay()
        self._names: list[str] = []
        self._lists: list[tuple[PartitionsSchema, ...]] = []
        self._sets: list[frozenset[tuple[str, int]]] = []
        self._unreadable: UnreadableRecord | None = None

    def take(self, fact: CoordinatorFact) -> None:
        """Take the next."""
        if isinstance(fact, IdColumns):
            self._run(fact)
            return
        found: Registration | UnreadableRecord | None = None
        if isinstance(fact, UnreadableRecord):
            found = fact
        else:
            found = registration(self._place, fact)
            if isinstance(found, Registration):
                self._run(columns_of(found))
                return
            self._replay.reach(fact.offset)
        self._unreadable = found or self._unreadable

    def read(self, found: Batches | Batch) -> None:
        """Take the records of the next batches."""
        if isinstance(found, Batch):
            for fact in coordinator_facts(found):
                self.take(fact)
            return
        data, starts, at = np.frombuffer(found.data, np.uint8), np.ascontiguousarray(found.start), 0
        while at < len(found):
            at, refused, asked, counts = self._replay.read(data, starts, at, found.max_batch_bytes)
            self._judge(asked, counts)
            if refused:
                for record in coordinator_records(found.batch(at)):
                    self.take(record)
                at += 1

    def walk(self, content: Content, following: int | None, max_batch_bytes: int) -> Walked:
        """Take the batches at the beginning of a content: see `RecordWalk`."""
        *found, asked, counts = self._replay.walk(content, following, max_batch_bytes)
        self._judge(asked, counts)
        return Walked(*found)

    def _run(self, columns: IdColumns) -> None:
        at, rows = 0, columns.rows.view(np.uint8)
        while at < len(columns):
            at, asked, counts = self._replay.run(rows, columns.names, columns.lists, at)
            self._judge(asked, counts)

    def _judge(self, asked: Int64, counts: tuple[int, int, int]) -> None:
        """Count the steps that hold, and judge those that came back."""
        self._checks.count(*counts)
        if not len(asked):
            return
        steps = asked.reshape(-1, 1 + 2 * NUMBERS).tolist()
        self._learn()
        names, lists = self._names, self._lists
        befores = registrations(self._place, (step[1 : 1 + NUMBERS] for step in steps), names, lists)
        afters = registrations(self._place, (step[1 + NUMBERS :] for step in steps), names, lists)
        for step, before, after in zip(steps, befores, afters, strict=True):
            self._checks.judge(before if step[0] else None, after)

    def _learn(self) -> None:
        """Take over names of ids and lists of partitions that are new."""
        self._names += texts(self._replay.names(len(self._names)))
        fresh = partition_lists(self._replay.lists(len(self._lists)))
        self._lists += fresh
        self._sets += [
            frozenset((entry.topic, number) for entry in one for number in entry.partition_ids) for one in fresh
        ]

    def decided(self, *, last: bool = False) -> Decided:
        """Take out the decisions that no later record changes: see `Decisions.drain`."""
        self._learn()
        return Decided(self._place, self._replay.decided(last).view(DECIDED), self._names, self._sets)

    def facts(self) -> IdFacts:
        """The content of the records so far."""
        self._learn()
        newest = self._replay.newest().view(ROW)
        prepared = np.isin(newest["status"], _PREPARED) & newest["has_value"]
        uses = self._replay.uses().reshape(-1, 4).tolist()
        times = self._replay.completed().reshape(-1, 5).tolist()
        return IdFacts(
            settled=int((newest["has_value"] & ~prepared).sum()),
            prepared=tuple(registrations(self._place, newest[prepared].tolist(), self._names, self._lists)),
            owners=OwnerColumns(self._place, self._replay.owners(), newest, self._names, self._lists),
            uses=tuple(
                ProducerIdUse(self._place, producer_id, self._names[name], offset, timestamp)
                for producer_id, name, offset, timestamp in uses
            ),
            decisions=self.decided(last=True),
            unreadable=self._unreadable,
            intact=self._replay.intact_from == 0 and self._unreadable is None,
            answers=tuple(self._checks.answers()),
            completed=tuple(DecisionTime(*numbers) for numbers in times),
        )


#: Takes the records of one partition of `__transaction_state` in offset order.
IdHistory = PlainIdHistory | EngineIdHistory


class OwnerColumns(Mapping[int, Owner]):
    """The owners of producer ids, each made when it is asked for.

    Args:
        owners: of each producer id, in the order of their first records: the index of its transactional id, and whether
            it is that id's own.
        newest: of each id its newest record (`id_columns.ROW`). `names`, `lists`: as in `registrations`.
    """

    def __init__(
        self,
        place: Place,
        owners: tuple[Int64, npt.NDArray[np.uint32], Bools],
        newest: Rows,
        names: Sequence[str],
        lists: Lists,
    ) -> None:
        producer_ids, self._ids, self._current = owners
        self._place, self._newest, self._names, self._lists = place, newest, names, lists
        self._at = dict(zip(producer_ids.tolist(), range(len(producer_ids)), strict=True))

    def __getitem__(self, producer_id: int) -> Owner:
        at = self._at[producer_id]
        (newest,) = registrations(self._place, [self._newest[self._ids[at]].tolist()], self._names, self._lists)
        return Owner(producer_id=producer_id, current=bool(self._current[at]), newest=newest)

    def __iter__(self) -> Iterator[int]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)


def _is_prepared(record: Registration) -> bool:
    return record.value is not None and state_name(record.value.transaction_status) in PREPARED

"""`CopiedReach`: how far copies of different moments reach: whether the coordinator's log was read past the data, and
the partition past the end that the coordinator recorded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

from kafkawire.rows import Premise
from kafkawire.transactions.cluster.broker_clocks import BrokerClocks, apart
from kafkawire.transactions.coordinator.coordinator_copies import (
    AFTER_RECORD,
    LATER_COPY,
    SKEW_MS,
    CoordinatorLog,
    PartitionLeader,
    ShortLog,
)
from kafkawire.transactions.coordinator.coordinator_log import BUMPED, CURRENT, ENDED
from kafkawire.transactions.coordinator.coordinator_rules import begun_ms
from kafkawire.transactions.facts import TRANSACTION_STATE, Owner, PartitionFacts
from kafkawire.transactions.formatting import numbers, when
from kafkawire.transactions.verdict.case import PLACE, REACH, Case, met, unmet


class CopiedReach(Case, frozen=True, kw_only=True, dict=True):
    """An open transaction in a copied log, and how far what was copied reaches.

    Attributes:
        partition: the replica that it was found in.
        owner: the transactional id of its producer id, None where no record names it.
        log: how much of the coordinator's log was read.
        covered_until: newest broker-side time in the log directory that the partition was read from.
        moment: of a broker that was stopped cleanly the ends of its partitions of `__transaction_state`, which are of
            one moment with the partition; None where it was not.
        leaders: by topic and partition.
        has_metadata: its directory has a metadata log, which goes on while a broker runs.
        given: the clock was given, and holds for all copies.
        clocks: of brokers: which of their times may be compared.
        id_expiration_ms: transactional.id.expiration.ms.
        skew_ms: by how much the clocks of its brokers may differ.
    """

    partition: PartitionFacts
    owner: Owner | None
    log: CoordinatorLog
    covered_until: int | None
    moment: dict[int, int] | None
    leaders: dict[tuple[str, int], PartitionLeader]
    has_metadata: bool
    given: bool
    clocks: BrokerClocks
    id_expiration_ms: int
    skew_ms: int = SKEW_MS

    @property
    def of_unheld(self) -> tuple[Premise, ...]:
        """Copies of different times. What follows from two of them holds only for times that both cover: the
        coordinator's log must reach past the data, and the partition past the end that the coordinator recorded."""
        return (*self._coordinator_reach, self._partition_reach)

    @property
    def _coordinator_reach(self) -> list[Premise]:
        """The premise that the coordinator's log lacks no later record about the data: ids register before they
        write."""
        owner = self.owner
        name = TRANSACTION_STATE if owner is None else f"{TRANSACTION_STATE}-{owner.newest.place.partition}"
        if owner is None and not self.log.read:
            what = f"No partition of {TRANSACTION_STATE} was read: nothing shows what coordinators knew after the data."
            return [unmet(REACH, what, f"give a copy of {TRANSACTION_STATE}, made after the data", None)]
        short = self._short
        if not short.partitions:
            first = owner.newest.place.partition if owner is not None else self.log.read[0]
            proof = self._read_past(first)
            what = f"{name} was read past the data{'' if proof is None else ': ' + proof[:1].lower() + proof[1:]}"
            return [met(REACH, what if what.endswith(".") else f"{what}.", self._coordinator_source)]
        if self.moment is not None and len(short.led) == short.partitions:
            brokers = numbers(sorted({leader.broker for leader in short.led}))
            what = f"Partitions {short.names} of {TRANSACTION_STATE} are led by brokers that were not read ({brokers})."
            return [unmet(PLACE, what, f"give the log directories of brokers {brokers}", short.led[0].source)]
        newest = "it holds no record" if short.newest is None else f"its newest is of {when(short.newest)}"
        those = name if owner is not None else f"{TRANSACTION_STATE} (partitions {short.names})"
        if self.written_by is None:
            what = (
                f"Nothing that a broker wrote follows its data, so that nothing shows that {those} was copied after it."
            )
        else:
            what = (
                f"{those} holds no record written after the data ({when(self._written)}; {newest}): it may have been "
                "copied too early."
            )
            if self._data_limit is not None and short.newest is not None and short.newest > self._data_limit:
                what += apart(self._data_limit)
        return [unmet(REACH, what, LATER_COPY.format(those), self._coordinator_source)]

    @property
    def _short(self) -> ShortLog:
        """The partitions of which it is not proven that they were read past the data. Without an owner each of them
        may have to be: one look serves all data of a directory that comes before the same of their times."""
        if self.owner is not None:
            return self._short_of([self.owner.newest.place.partition])
        log, stopped, limit = self.log, self._stopped_by, self._data_limit
        key = (
            self.open.place.copy,
            None if self.written_by is None else bisect_right(log.newest_times, self._written + self.skew_ms),
            None if stopped is None else bisect_right(log.until_times, stopped + self.skew_ms),
            None if limit is None else bisect_right(log.newest_times, limit),
            None if limit is None else bisect_right(log.until_times, limit),
        )
        found = log.short.get(key)
        if found is None:
            found = log.short[key] = self._short_of(log.read)
        return found

    def _short_of(self, read: Iterable[int]) -> ShortLog:
        found = [number for number in read if self._read_past(number) is None]
        return ShortLog(
            len(found),
            numbers(found),
            tuple(leader for number in found if (leader := self._other_leader(number)) is not None),
            min((self.log.newest[number] for number in found if number in self.log.newest), default=None),
        )

    def _read_past(self, number: int) -> str | None:
        """How it is proven that a partition of `__transaction_state` was read past the data, a sentence; None: it is
        not."""
        value, open_ = self.value, self.open
        if value is not None and (
            value.producer_epoch > open_.producer_epoch
            if value.producer_id == open_.producer_id
            else value.previous_producer_id == open_.producer_id
        ):
            return f"Its record has a later epoch ({value.producer_epoch}) than the data."
        newest = self.log.newest.get(number)
        if (
            self.written_by is not None
            and newest is not None
            and self._is_later(newest, self._written, self._data_limit)
        ):
            return f"The data was in the log by {when(self._written)}, and it has a record of {when(newest)}."
        if self._other_leader(number) is not None:
            return None
        if self.moment is not None and number in self.moment:
            return "Both are of one moment, when the broker was stopped cleanly."
        until, by = self.log.until.get(number), self._stopped_by
        if until is not None and by is not None and self._is_later(until, by, self._data_limit):
            return f"The data was in the log by {when(by)}, and its broker was stopped cleanly after {when(until)}."
        return None

    @property
    def _key(self) -> tuple[str, int]:
        return self.open.place.topic, self.open.place.partition

    def _is_later(self, later: int, earlier: int, limit: int | None) -> bool:
        """Whether a broker wrote one time after another broker wrote the other, however much their clocks differ.
        `limit`: up to which time those of others compare with the earlier; None: all do."""
        return later > earlier + self.skew_ms and (limit is None or later <= limit)

    @cached_property
    def _data_limit(self) -> int | None:
        """Up to which time those of others compare with that by which the data was in the log; None: all do."""
        by = self.covered_until if self.written_by is None else self.written_by
        return None if by is None else self.clocks.limit(self._key, by)

    @cached_property
    def _limit(self) -> int | None:
        """Up to which time those of others compare with all that the transaction is held since; None: all do."""
        times = [] if self.written_by is None else [(self._key, self.written_by)]
        if self.owner is not None and self.value is not None:
            coordinator = TRANSACTION_STATE, self.owner.newest.place.partition
            times += [(coordinator, begun_ms(self.value))]
            times += [(coordinator, self.value.transaction_last_update_timestamp_ms)]
        limits = (self.clocks.limit(*one) for one in times)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def _stopped_by(self) -> int | None:
        """The time by which the data was in the log, where only the newest time in its directory may show that: of a
        broker that was stopped cleanly, and whose metadata log went on until then."""
        if self.written_by is not None:
            return self._written
        return max(self._written, self.covered_until or 0) if self.has_metadata and self.moment is not None else None

    def _other_leader(self, number: int) -> PartitionLeader | None:
        """The leader of a partition of `__transaction_state` whose replica was not read."""
        leader = self.leaders.get((TRANSACTION_STATE, number))
        return None if leader is None or leader.read else leader

    @property
    def written_by(self) -> int | None:
        """The time by which its last batch was in the log, by the broker's clock; None where nothing shows that."""
        return self.open.written_by

    @property
    def _written(self) -> int:
        """The time by which its last batch was in the log; where several times may count, the latest, so that the copy
        must be later."""
        client = self.open.last_timestamp if self.stamp_problem is None else -1
        return max(-1 if self.written_by is None else self.written_by, self.open.written_after or -1, client)

    @property
    def _partition_reach(self) -> Premise:
        """The premise that a marker which the coordinator wrote would be in this copy."""
        place, owner, until = self.open.place, self.owner, self._partition_newest
        needs = AFTER_RECORD.format(place)
        if owner is None:
            newest = self.log.newest_times[-1] if self.log.newest_times else None
            if newest is None or (until is not None and newest - until < self.id_expiration_ms):
                what = f"No id that had a transaction when {place} was copied can have expired since."
                return met(REACH, what, self.log.source())
            what = (
                f"{place} was copied long before {TRANSACTION_STATE} ({when(until)}, {when(newest)}): its id may have "
                "ended the transaction and expired since."
            )
            return unmet(REACH, what, needs, place.path)
        record, ended = owner.newest, self._ended_by
        source = self.record_source
        limit = self.clocks.limit((TRANSACTION_STATE, record.place.partition), ended)
        if until is not None and self._is_later(until, ended, limit):
            return met(REACH, f"{place} was read past the coordinator's record, up to {when(until)}.", place.path)
        if self.moment is not None and record.offset < self.moment.get(record.place.partition, 0):
            return met(REACH, "The coordinator's record and the partition are of one moment.", place.path)
        value, marked_at = record.value, self.open.marked_at
        if (
            value is not None
            and self.standing == ENDED
            and marked_at is not None
            and self._is_later(marked_at, begun_ms(value), limit)
        ):
            return met(REACH, f"The data follows the marker of that transaction ({when(marked_at)}).", place.path)
        what = (
            f"The coordinator's record is of {when(ended)}, and {place} shows nothing after {when(until)}: the marker "
            "may have come later."
        )
        if limit is not None and until is not None and until > limit:
            what += apart(limit)
        return unmet(REACH, what, needs, source)

    @property
    def _partition_newest(self) -> int | None:
        """The newest broker-side time up to which it was read; None where it has none that counts."""
        if self.moment is not None:
            return self.covered_until
        time = self.partition.broker_time
        return None if time is None or self.clocks.is_far(time) else time

    @property
    def _ended_by(self) -> int:
        """The time by which the transaction that the data would belong to had ended, by the coordinator's record."""
        assert self.owner is not None
        newest, value = self.owner.newest, self.owner.newest.value
        if value is None or value.producer_id != self.open.producer_id or self.standing not in (BUMPED, CURRENT):
            return newest.timestamp
        start = value.transaction_start_timestamp_ms
        return newest.timestamp if start < 0 else min(start, newest.timestamp)

    @property
    def _coordinator_source(self) -> str | None:
        return self.record_source or self.log.source()

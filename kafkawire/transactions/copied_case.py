"""Cases from copied log directories: what copies of different moments can prove, and what they leave in doubt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

from kafkawire.messages import TransactionLogValue
from kafkawire.rows import Premise
from kafkawire.transactions.broker_clocks import BrokerClocks, apart, earlier_of
from kafkawire.transactions.case import DEADLINE, EXPIRED, PLACE, REACH, SOUNDNESS, Case, met, unmet
from kafkawire.transactions.coordinator_copies import LATER_COPY, SKEW_MS, CoordinatorLog, PartitionLeader, ShortLog
from kafkawire.transactions.coordinator_log import BUMPED, CURRENT, ENDED
from kafkawire.transactions.coordinator_rules import begun_ms, raises_epoch, state_name
from kafkawire.transactions.facts import TRANSACTION_STATE, Owner, PartitionFacts, Place
from kafkawire.transactions.formatting import count, duration, numbers, when
from kafkawire.transactions.replay import last_stable_offset


class CopiedCase(Case, frozen=True, kw_only=True, dict=True):
    """An open transaction in a copied log.

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
    def log_start(self) -> int:
        return self.partition.log_start

    @property
    def high_watermark(self) -> int | None:
        return self.partition.high_watermark

    @property
    def last_stable_offset(self) -> int | None:
        high = self.partition.high_watermark
        return None if high is None else last_stable_offset(high, self.first_start, self.partition.log_start)

    @property
    def last_offset(self) -> int | None:
        return self.open.last_offset

    @property
    def transactional_id(self) -> str | None:
        return self.owner.newest.transactional_id if self.owner else None

    @property
    def value(self) -> TransactionLogValue | None:
        return self.owner.newest.value if self.owner else None

    @property
    def record_place(self) -> Place | None:
        return self.owner.newest.place if self.owner else None

    @property
    def writer_epoch(self) -> int:
        return self.log.leader_epochs.get(self.owner.newest.place.partition, -1) if self.owner else -1

    @property
    def decided_epoch(self) -> int | None:
        return self.owner.newest.leader_epoch if self.owner else None

    @property
    def expired(self) -> bool:
        return self.owner is not None and self.owner.newest.value is None

    @property
    def coordinator_place(self) -> str:
        return f"the leader of {TRANSACTION_STATE}-{self.state_partition}, the coordinator"

    @property
    def leader_place(self) -> str:
        return f"the leader of {self.open.place.topic}-{self.open.place.partition}"

    @property
    def state_partition(self) -> int | None:
        return self.owner.newest.place.partition if self.owner else None

    @property
    def too_old(self) -> str:
        return "That record is older than the data: the copy of the coordinator's log ends too early."

    @property
    def certainty(self) -> str:
        return "read what was missing, or query the live cluster (kafkawire txn find-hanging)"

    @property
    def data(self) -> str:
        open_ = self.open
        return (
            f"{open_.place}: transactional data of producer id {open_.producer_id}, epoch {open_.producer_epoch}, in "
            f"offsets {open_.start_offset} to {open_.last_offset}, and no marker of it up to the end of the log "
            f"({self.partition.log_end})."
        )

    @property
    def coordinator_view(self) -> str:
        owner, log = self.owner, self.log
        if owner is None:
            read = len(log.read)
            where = f"{count(read, 'partition')} of {TRANSACTION_STATE}"
            return f"No record in the {where} that were read names the producer id."
        newest = owner.newest
        value = newest.value
        who = f"Transactional id {newest.transactional_id!r}"
        record = f"({newest.place}, offset {newest.offset}, {when(newest.timestamp)})"
        if value is None:
            return f"{who} has expired {record}: {EXPIRED}."
        return (
            f"{who} is {state_name(value.transaction_status)}, producer id {value.producer_id}, "
            f"epoch {value.producer_epoch} {record}{self.meaning}."
        )

    @property
    def of_coordinators(self) -> tuple[Premise, ...]:
        log, owner = self.log, self.owner
        if owner is not None:
            partition = owner.newest.place.partition
            name = f"{TRANSACTION_STATE}-{partition}"
            if partition in log.damaged:
                what = f"{name} is damaged: a newer record of the id may be lost."
                return (unmet(SOUNDNESS, what, f"give another copy of {name}", name),)
            return (met(SOUNDNESS, f"All that was copied of {name} could be read.", name),)
        found = []
        if log.missing:
            missing = numbers(log.missing)
            what = (
                f"{len(log.missing)} of {log.partitions} partitions of {TRANSACTION_STATE} were not read ({missing}): "
                "its transactional id may be there."
            )
            found.append(unmet(REACH, what, f"give a copy of these partitions of {TRANSACTION_STATE}"))
        if log.damaged:
            damaged = numbers(list(log.damaged))
            what = f"{TRANSACTION_STATE} is damaged in partitions {damaged}: its id may be lost."
            found.append(unmet(SOUNDNESS, what, f"give another copy of these partitions of {TRANSACTION_STATE}"))
        whole = f"All {log.partitions} partitions of {TRANSACTION_STATE} were read, and none is damaged."
        return tuple(found) or (met(REACH, whole, TRANSACTION_STATE),)

    @property
    def of_held(self) -> tuple[Premise, ...]:
        """That the record is of the transaction that the data belongs to, not of an earlier one.

        From version 2 on the epoch shows that. Below it the id's next transaction has the same epoch: then no marker
        may have come since the record's transaction began, or the record is newer than the data.
        """
        owner, value = self.owner, self.value
        assert owner is not None
        assert value is not None
        place, marked_at, begun = owner.newest.place, self.open.marked_at, begun_ms(value)
        if raises_epoch(value.client_transaction_version):
            state, epoch = state_name(value.transaction_status), value.producer_epoch
            if state == "Ongoing" or epoch > self.open.producer_epoch:
                return (met(REACH, "The record is of this transaction: it has its epoch.", str(place)),)
            what = f"The record is of the transaction before: {state} of epoch {epoch} ends data of epoch {epoch - 1}."
            return (unmet(REACH, what, LATER_COPY.format(place), str(place)),)
        if self.open.coordinator_epoch is None:
            return (met(REACH, "The record is of this transaction: no other has ended here.", self.open.place.copy),)
        limit = None if marked_at is None else self.clocks.limit(self._key, marked_at)
        if marked_at is not None and marked_at < begun and (limit is None or begun <= limit):
            what = f"The record's transaction began after the producer's last marker here ({when(marked_at)})."
            return (met(REACH, what, str(place)),)
        proof = self._read_past(place.partition)
        if proof is not None:
            return (met(REACH, proof, str(place)),)
        what = (
            f"The record may be of an earlier transaction: the producer's last marker here is of {when(marked_at)}, "
            f"and the record's transaction began {when(begun)}."
        )
        return (unmet(REACH, what, LATER_COPY.format(place), str(place)),)

    @property
    def of_unheld(self) -> tuple[Premise, ...]:
        """Copies of different times. What follows from two of them holds only for times that both cover: the
        coordinator's log must reach past the data, and the partition past the end that the coordinator recorded."""
        return (*self._coordinator_reach, self._partition_reach)

    @property
    def _coordinator_reach(self) -> list[Premise]:
        """That what the coordinator's log does not have was not to come: ids register before they write."""
        owner = self.owner
        name = TRANSACTION_STATE if owner is None else f"{TRANSACTION_STATE}-{owner.newest.place.partition}"
        short = self._short
        if not short.partitions:
            first = owner.newest.place.partition if owner is not None else next(iter(self.log.read), None)
            proof = None if first is None else self._read_past(first)
            what = f"{name} was read past the data{'' if proof is None else ': ' + proof[:1].lower() + proof[1:]}"
            return [met(REACH, what if what.endswith(".") else f"{what}.", name)]
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
        return [unmet(REACH, what, LATER_COPY.format(those), name)]

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

        Args:
            limit: up to which time those of others compare with the earlier; None: all do.
        """
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
        """By when the data was in the log, where only the newest time in its directory may show that: of a broker that
        was stopped cleanly, and whose metadata log went on until then."""
        if self.written_by is not None:
            return self._written
        return max(self._written, self.covered_until or 0) if self.has_metadata and self.moment is not None else None

    def _other_leader(self, number: int) -> PartitionLeader | None:
        """The leader of a partition of `__transaction_state` whose replica was not read."""
        leader = self.leaders.get((TRANSACTION_STATE, number))
        return None if leader is None or leader.read else leader

    @property
    def written_by(self) -> int | None:
        """By when its last batch was in the log, by the broker's clock; None where nothing shows that."""
        return self.open.written_by

    @property
    def _written(self) -> int:
        """The same, not before any other time that may count: the later the copy must be."""
        client = self.open.last_timestamp if self.stamp_problem is None else -1
        return max(-1 if self.written_by is None else self.written_by, self.open.written_after or -1, client)

    @property
    def _partition_reach(self) -> Premise:
        """That a marker which the coordinator wrote would be here."""
        place, owner, until = self.open.place, self.owner, self._partition_newest
        needs = f"copy {place} again, after the coordinator's log"
        if owner is None:
            newest = self.log.newest_times[-1] if self.log.newest_times else None
            if newest is None or (until is not None and newest - until < self.id_expiration_ms):
                what = f"No id that had a transaction when {place} was copied can have expired since."
                return met(REACH, what, TRANSACTION_STATE)
            what = (
                f"{place} was copied long before {TRANSACTION_STATE} ({when(until)}, {when(newest)}): its id may have "
                "ended the transaction and expired since."
            )
            return unmet(REACH, what, needs, place.copy)
        record, ended = owner.newest, self._ended_by
        source = str(record.place)
        limit = self.clocks.limit((TRANSACTION_STATE, record.place.partition), ended)
        if until is not None and self._is_later(until, ended, limit):
            return met(REACH, f"{place} was read past the coordinator's record, up to {when(until)}.", place.copy)
        if self.moment is not None and record.offset < self.moment.get(record.place.partition, 0):
            return met(REACH, "The coordinator's record and the partition are of one moment.", place.copy)
        value, marked_at = record.value, self.open.marked_at
        if (
            value is not None
            and self.standing == ENDED
            and marked_at is not None
            and self._is_later(marked_at, begun_ms(value), limit)
        ):
            return met(REACH, f"The data follows the marker of that transaction ({when(marked_at)}).", place.copy)
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
        """By when the transaction that the data would belong to had ended, by the coordinator's record."""
        assert self.owner is not None
        newest, value = self.owner.newest, self.owner.newest.value
        if value is None or value.producer_id != self.open.producer_id or self.standing not in (BUMPED, CURRENT):
            return newest.timestamp
        start = value.transaction_start_timestamp_ms
        return newest.timestamp if start < 0 else min(start, newest.timestamp)

    @property
    def seen_until(self) -> int | None:
        """Until when the partition was read; and while its coordinator held it Ongoing, there was no marker."""
        value = self.value
        if self.given or self.as_of is None:
            return self.as_of
        times = [self.partition.broker_time]
        if self.moment is not None and all(premise.holds for premise in self.of_partition):
            times.append(self.covered_until)
        if value is not None and self.standing == CURRENT and self.listed:
            ongoing = state_name(value.transaction_status) == "Ongoing"
            times.append(self.coordinator_until if ongoing else value.transaction_last_update_timestamp_ms)
        known = [time for time in times if time is not None]
        return earlier_of(self._limit, min(self.as_of, max(known))) if known else None

    @property
    def may_block(self) -> bool:
        """While a broker runs, its checkpoint of high watermarks is older than its logs: an earlier transaction whose
        marker is not below it has most likely ended."""
        earliest = self.first_start in (self.open.start_offset, self.partition.unreplicated)
        return self.blocked or (self.moment is None and earliest)

    @property
    def of_attention(self) -> Premise | None:
        """Open since its coordinator's record, its client's stamp, or at most since the marker before its last batch:
        no proof, but a doubt."""
        since = super().held_since
        if since is None:
            since = self.open.written_after if self.age_ms is None else self.open.last_timestamp
        if self.may_block and not self.given and self._key in self.clocks.apart:
            what = (
                "For how long it has held the last stable offset is not known: the newest time of the broker that "
                f"leads {self.open.place} is far before those of others."
            )
            return unmet(DEADLINE, what, "give the clock (--as-of)", self.open.place.copy)
        if not self.may_block or self.as_of is None or since is None or self.as_of - since <= self.blocked_after_ms:
            return None
        lasted = duration(self.as_of - since)
        what = (
            f"Whether it has held the last stable offset since {when(since)}, {lasted}, is not known: what was read "
            f"shows it open until {when(self.seen_until)}."
        )
        return unmet(DEADLINE, what, f"copy {self.open.place} and {TRANSACTION_STATE} again", self.open.place.copy)

    @property
    def coordinator_until(self) -> int | None:
        if self.given or self.owner is None:
            return self.as_of
        number = self.owner.newest.place.partition
        return earlier_of(self._limit, self.log.until.get(number, self.log.newest.get(number)))

    @property
    def waiting_until(self) -> int | None:
        if self.given:
            return self.as_of
        times = [self.coordinator_until, self._partition_newest]
        return None if None in times else min(time for time in times if time is not None)

    @property
    def held_since(self) -> int | None:
        """Where something of the log is missing, its marker may be; but a record of transaction version 2 shows that
        the transaction goes on."""
        held, value = super().held_since, self.value
        if held is not None and not all(premise.holds for premise in self.of_held):
            held = None  # the record may be of another transaction
        own = held is not None and value is not None and raises_epoch(value.client_transaction_version)
        if not own and not all(premise.holds or premise.name == PLACE for premise in self._sound):
            return None
        return self.written_by if held is None else held

    @property
    def of_partition(self) -> tuple[Premise, ...]:
        return (*self._sound, self._place)

    @property
    def _sound(self) -> list[Premise]:
        found = []
        gap, start, high = self.partition.gap, self.open.start_offset, self.partition.high_watermark
        if gap is not None and (gap.end is None or gap.end > start):
            end = "on" if gap.end is None else f"to {gap.end - 1}"
            what = f"Offsets from {gap.start} {end} could not be read: a marker may be among them."
            found.append(unmet(SOUNDNESS, what, f"give another replica of {self.open.place}"))
        log_end = self.partition.log_end
        if high is not None and log_end < high:
            what = f"The log ends at offset {log_end}, and its high watermark is {high}: a marker may be in between."
            found.append(unmet(REACH, what, f"copy {self.open.place} again, to its end", self.open.place.copy))
        if high is not None and start >= high:
            what = f"Its data is not below the high watermark {high}: a follower may still truncate it."
            found.append(unmet(PLACE, what, f"copy {self.open.place} from its leader"))
        return found or [met(SOUNDNESS, "No offset is missing from its first batch on.", self.open.place.copy)]

    @property
    def _place(self) -> Premise:
        """That the replica is the one that counts: what a follower lacks, its leader may have."""
        place, epoch = self.open.place, self.partition.leader_epoch
        leader = self.leaders.get((place.topic, place.partition))
        if leader is None:
            what = f"No metadata log that was read names a leader of {place} newer than leader epoch {epoch}."
            return met(PLACE, what, place.copy)
        who = f"Broker {leader.broker} leads {place} (leader epoch {leader.epoch})"
        if leader.read:
            return met(PLACE, f"{who}, and its replica was read.", leader.source)
        what = f"{who}, and its replica was not read: the one in {place.copy} may lack the marker."
        return unmet(PLACE, what, f"give the log directory of broker {leader.broker}", leader.source)

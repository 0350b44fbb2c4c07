"""`CopiedCase`: an open transaction in copied log directories, what copies of different moments prove of it, and what
they leave in doubt."""

from __future__ import annotations

from functools import cached_property

from kafkawire.logdir.ongoing import last_stable_offset
from kafkawire.rows import Premise
from kafkawire.transactions.cluster.broker_clocks import earlier_of
from kafkawire.transactions.coordinator.coordinator_copies import LATER_COPY, NOT_CLEANED, OTHER_COPY
from kafkawire.transactions.coordinator.coordinator_log import CURRENT
from kafkawire.transactions.coordinator.coordinator_rules import begun_ms, raises_epoch, state_name
from kafkawire.transactions.facts import CLUSTER_METADATA, TRANSACTION_STATE
from kafkawire.transactions.formatting import count, duration, numbers, when
from kafkawire.transactions.verdict.case import DEADLINE, EXPIRED, PLACE, REACH, SOUNDNESS, IdState, met, unmet
from kafkawire.transactions.verdict.copied_reach import CopiedReach


class CopiedCase(CopiedReach, frozen=True, kw_only=True, dict=True):
    """An open transaction in a copied log: what is known of it."""

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

    @cached_property
    def id_state(self) -> IdState | None:
        if self.owner is None:
            return None
        newest, place = self.owner.newest, self.owner.newest.place
        return IdState(
            transactional_id=newest.transactional_id,
            source=f"{place.path}: offset {newest.offset}",
            value=newest.value,
            partition=place.partition,
            epoch=self.log.leader_epochs.get(place.partition, -1),
            decided_epoch=newest.leader_epoch,
            place=place,
        )

    @property
    def coordinator_place(self) -> str:
        return f"the leader of {TRANSACTION_STATE}-{self.state_partition}, the coordinator"

    @property
    def leader_place(self) -> str:
        return f"the leader of {self.open.place.topic}-{self.open.place.partition}"

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
                return (unmet(SOUNDNESS, what, f"give another copy of {name}", self.record_source),)
            lost = log.lost_after(owner.newest)
            if lost is not None:
                what = f"Of {name} {lost}, {NOT_CLEANED}: a newer record of the id may be lost."
                return (unmet(SOUNDNESS, what, OTHER_COPY.format(name), f"{lost.file}: offset {lost.start}"),)
            if partition in log.lost:
                what = f"No offset of {name} is missing from its newest record on."
                return (met(SOUNDNESS, what, self.record_source),)
            return (met(SOUNDNESS, f"All that was copied of {name} could be read.", self.record_source),)
        found = []
        if log.missing:
            missing = numbers(log.missing)
            what = (
                f"{len(log.missing)} of {log.partitions} partitions of {TRANSACTION_STATE} were not read ({missing}): "
                "its transactional id may be there."
            )
            needs = f"give a copy of these partitions of {TRANSACTION_STATE}"
            if log.assumed:
                needs += f", or of {CLUSTER_METADATA}-0, which shows how many it has ({log.partitions} is the default)"
            found.append(unmet(REACH, what, needs, log.source()))
        if log.damaged:
            damaged = numbers(list(log.damaged))
            what = f"{TRANSACTION_STATE} is damaged in partitions {damaged}: its id may be lost."
            needs = f"give another copy of these partitions of {TRANSACTION_STATE}"
            found.append(unmet(SOUNDNESS, what, needs, log.source(log.damaged)))
        if log.lost:
            what = f"{TRANSACTION_STATE} lacks offsets, {NOT_CLEANED}: {log.losses}. Its id may be lost."
            needs = OTHER_COPY.format(f"these partitions of {TRANSACTION_STATE}")
            found.append(unmet(SOUNDNESS, what, needs, log.source(log.lost)))
        whole = f"All {log.partitions} partitions of {TRANSACTION_STATE} were read, and none is damaged."
        return tuple(found) or (met(REACH, whole, log.source()),)

    @property
    def of_held(self) -> tuple[Premise, ...]:
        """The premise that the record is of the transaction that the data belongs to, not of an earlier one.

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
                return (met(REACH, "The record is of this transaction: it has its epoch.", self.record_source),)
            what = f"The record is of the transaction before: {state} of epoch {epoch} ends data of epoch {epoch - 1}."
            return (unmet(REACH, what, LATER_COPY.format(place), self.record_source),)
        if self.open.coordinator_epoch is None:
            return (met(REACH, "The record is of this transaction: no other has ended here.", self.open.place.path),)
        limit = None if marked_at is None else self.clocks.limit(self._key, marked_at)
        if marked_at is not None and marked_at < begun and (limit is None or begun <= limit):
            what = f"The record's transaction began after the producer's last marker here ({when(marked_at)})."
            return (met(REACH, what, self.record_source),)
        proof = self._read_past(place.partition)
        if proof is not None:
            return (met(REACH, proof, self.record_source),)
        what = (
            f"The record may be of an earlier transaction: the producer's last marker here is of {when(marked_at)}, "
            f"and the record's transaction began {when(begun)}."
        )
        return (unmet(REACH, what, LATER_COPY.format(place), self.record_source),)

    @property
    def of_decision(self) -> tuple[Premise, ...]:
        newest = None if self.owner is None else self.owner.newest
        high = None if newest is None else self.log.unreplicated(newest)
        if newest is None or high is None:
            return ()
        what = (
            f"Its record at offset {newest.offset} of {newest.place} is not below the high watermark {high}: until its "
            "replicas have it, nothing is decided, and no marker is written."
        )
        needs = f"copy {newest.place} again, with replication-offset-checkpoint after it"
        return (unmet(REACH, what, needs, self.record_source),)

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
            return unmet(DEADLINE, what, "give the clock (--as-of)", self.open.place.path)
        if not self.may_block or self.as_of is None or since is None or self.as_of - since <= self.blocked_after_ms:
            return None
        lasted = duration(self.as_of - since)
        what = (
            f"Whether it has held the last stable offset since {when(since)}, {lasted}, is not known: what was read "
            f"shows it open until {when(self.seen_until)}."
        )
        return unmet(DEADLINE, what, f"copy {self.open.place} and {TRANSACTION_STATE} again", self.open.place.path)

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
            source = f"{self.open.place.path}: offset {gap.start}"
            found.append(unmet(SOUNDNESS, what, f"give another replica of {self.open.place}", source))
        log_end = self.partition.log_end
        if high is not None and log_end < high:
            what = f"The log ends at offset {log_end}, and its high watermark is {high}: a marker may be in between."
            found.append(unmet(REACH, what, f"copy {self.open.place} again, to its end", self.open.place.path))
        if high is not None and start >= high:
            what = f"Its data is not below the high watermark {high}: a follower may still truncate it."
            needs = f"copy {self.open.place} from its leader, with its replication-offset-checkpoint"
            found.append(unmet(PLACE, what, needs, self.open.place.path))
        return found or [met(SOUNDNESS, "No offset is missing from its first batch on.", self.open.place.path)]

    @property
    def _place(self) -> Premise:
        """The premise that the replica is the one that counts: what a follower lacks, its leader may have."""
        place, epoch = self.open.place, self.partition.leader_epoch
        leader = self.leaders.get((place.topic, place.partition))
        if leader is None:
            what = f"No metadata log that was read names a leader of {place} newer than leader epoch {epoch}."
            return met(PLACE, what, place.path)
        who = f"Broker {leader.broker} leads {place} (leader epoch {leader.epoch})"
        if leader.read:
            return met(PLACE, f"{who}, and its replica was read.", leader.source)
        what = f"{who}, and its replica was not read: the one in {place.copy} may lack the marker."
        return unmet(PLACE, what, f"give the log directory of broker {leader.broker}", leader.source)

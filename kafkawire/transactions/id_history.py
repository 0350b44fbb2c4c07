"""`IdHistory`: reduces the records of one partition of `__transaction_state` to `IdFacts`."""

from __future__ import annotations

from kafkawire.transactions.checks.coordinator_records import IdChecks
from kafkawire.transactions.clock_offsets import DecisionTimes
from kafkawire.transactions.coordinator_log import IdFacts, IdLog, UnreadableRecord
from kafkawire.transactions.coordinator_rules import PREPARED, state_name
from kafkawire.transactions.decisions import Decision, Decisions
from kafkawire.transactions.facts import DecisionTime, ProducerIdUse, Registration


class IdHistory:
    """Takes the records in offset order.

    Args:
        expiration_ms: transactional.id.expiration.ms of the brokers; None where it is not known.
    """

    def __init__(self, expiration_ms: int | None = None) -> None:
        self._decisions = Decisions()
        self._log = IdLog()
        self._checks = IdChecks(expiration_ms)
        self._uses: dict[tuple[int, str], ProducerIdUse] = {}
        self._times = DecisionTimes()

    def reach(self, offset: int) -> None:
        """Note a record at this offset, of whatever content."""
        self._checks.reach(offset)

    def add(self, found: Registration | UnreadableRecord) -> None:
        """Take the next record, after `reach` of its offset."""
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

    def decided(self, *, last: bool = False) -> list[Decision]:
        """Take out the decisions that no later record changes: see `Decisions.drain`."""
        return self._decisions.drain(last=last)

    def facts(self) -> IdFacts:
        """The content of the records so far."""
        owners = {producer_id: self._log.owner(producer_id) for producer_id in self._log.producer_ids()}
        records = list(self._log.records())
        return IdFacts(
            settled=sum(record.value is not None and not _is_prepared(record) for record in records),
            prepared=tuple(record for record in records if _is_prepared(record)),
            owners={producer_id: owner for producer_id, owner in owners.items() if owner is not None},
            uses=tuple(self._uses.values()),
            decisions=self._decisions.found,
            unreadable=self._log.unreadable,
            intact=self._checks.intact_from == 0 and self._log.unreadable is None,
            answers=tuple(self._checks.answers()),
            completed=self._times.found(),
        )


def _is_prepared(record: Registration) -> bool:
    return record.value is not None and state_name(record.value.transaction_status) in PREPARED

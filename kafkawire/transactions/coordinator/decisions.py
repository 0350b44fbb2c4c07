"""`Decision`: a transaction that its coordinator decided, from records of `__transaction_state` (KIP-98, KIP-890)."""

from __future__ import annotations

import msgspec

from kafkawire.messages import TransactionLogValue
from kafkawire.transactions.coordinator.coordinator_rules import (
    COMPLETE,
    MAX_EPOCH,
    OUTCOMES,
    partitions_of,
    raises_epoch,
    state_name,
)
from kafkawire.transactions.facts import Place, Registration


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A Prepare record and the Complete that follows it, or the Complete alone where compaction removed the Prepare.

    Attributes:
        place, offset: of the record. `producer_id`: of the data.
        lowest_epoch, highest_epoch: the data has one of these; the same where the Ongoing record is known.
        marker_epoch: what the coordinator's markers carry. `outcome`: COMMIT or ABORT.
        version: the transaction version of the Prepare: from 2 on no other transaction has the epoch of its data.
        partitions: that it is in; None where only Complete is known, which lists none.
        since, until: the markers were written between these times (the coordinator's clock); `until` None: not yet. It
            is when the Complete record was appended: the update that it names is older than the markers.
    """

    transactional_id: str
    place: Place
    offset: int
    producer_id: int
    lowest_epoch: int
    highest_epoch: int
    marker_epoch: int
    outcome: str
    version: int
    partitions: frozenset[tuple[str, int]] | None
    since: int
    until: int | None


class Decisions:
    """Takes the records of one partition of `__transaction_state` in offset order.

    Attributes:
        found: by the producer id of the data, in the order in which they were decided; without those taken out.
    """

    def __init__(self) -> None:
        self.found: dict[int, list[Decision]] = {}

    def add(self, before: Registration | None, record: Registration) -> Decision | None:
        """Take the next record. `before`: the id's record before it. Returns the decision whose Prepare record was that
        one, and whose Complete record this is."""
        decision = decision_of(None if before is None else before.value, record)
        if decision is None:
            return None
        known = self.found.setdefault(decision.producer_id, [])
        prepared = known[-1] if known and known[-1].until is None else None
        if before is not None and prepared is not None and prepared.offset == before.offset:  # this is its Complete
            known[-1] = msgspec.structs.replace(prepared, until=decision.until)
            return known[-1]
        known.append(decision)
        return None

    def drain(self, *, last: bool = False) -> list[Decision]:
        """Take out those that no later record changes, of each producer id in their order. `last`: all, after the
        last record."""
        drained = []
        for producer_id, known in list(self.found.items()):
            pending = known[-1:] if not last and known[-1].until is None else []
            drained += known[: len(known) - len(pending)]
            if pending:
                self.found[producer_id] = pending
            else:
                del self.found[producer_id]
        return drained


def decision_of(before: TransactionLogValue | None, record: Registration) -> Decision | None:
    """What a Prepare or Complete record decided; None for others. A Complete right after its Prepare decides the same.

    Args:
        before: the id's record before it, which may be older than the one that compaction removed.
    """
    value = record.value
    if value is None:
        return None
    state = state_name(value.transaction_status)
    outcome = OUTCOMES.get(state)
    if outcome is None:
        return None
    producer_id, epoch = value.producer_id, value.producer_epoch
    complete = state in COMPLETE
    if complete and epoch == 0 and value.previous_producer_id not in (-1, producer_id):
        producer_id, epoch = value.previous_producer_id, MAX_EPOCH  # its Prepare used the epochs up
    lowest, highest = _data_epochs(before, producer_id, epoch, outcome, value.client_transaction_version)
    since = value.transaction_start_timestamp_ms if complete else value.transaction_last_update_timestamp_ms
    return Decision(
        transactional_id=record.transactional_id,
        place=record.place,
        offset=record.offset,
        producer_id=producer_id,
        lowest_epoch=lowest,
        highest_epoch=highest,
        marker_epoch=epoch,
        outcome=outcome,
        version=value.client_transaction_version,
        partitions=None if complete else partitions_of(value),
        since=since,
        until=record.timestamp if complete else None,
    )


def _data_epochs(
    before: TransactionLogValue | None, producer_id: int, epoch: int, outcome: str, version: int
) -> tuple[int, int]:
    ongoing = before is not None and state_name(before.transaction_status) == "Ongoing"
    if before is not None and ongoing and before.producer_id == producer_id and epoch - before.producer_epoch in (0, 1):
        return before.producer_epoch, before.producer_epoch
    if raises_epoch(version):
        return epoch - 1, epoch - 1
    return (epoch - 1 if outcome == "ABORT" else epoch), epoch

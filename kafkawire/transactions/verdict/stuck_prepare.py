"""Advice on a stuck Prepare: where the broker's log names the cause, and how the transaction ends as it was decided.

The sentence of the log is that of Kafka's `TransactionMarkerRequestCompletionHandler`. A coordinator that is elected
sends the markers of all decided transactions again, with its own epoch: the leader epoch of the partition of
`__transaction_state`, which each election raises by one (`TransactionStateManager`).
"""

from __future__ import annotations

from kafkawire.transactions.commands import quoted
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.verdict.case import Case

#: Elections that an operator may well cause one after the other.
_FEW = 10


def log_line(case: Case) -> str:
    """Which line of which broker's log names the cause."""
    place = case.open.place
    return (
        f"In the log of {case.coordinator_place}, search for \"Sending {case.transactional_id}'s transaction marker "
        f'for partition {place.topic}-{place.partition}": the line has the error and the coordinator epoch of the '
        'marker, and "permanently failed" where it is not sent again.'
    )


def resolution(case: Case, outcome: str) -> str:
    """What ends the transaction with the outcome that was decided, as the end of a sentence. `outcome`: COMMIT or
    ABORT."""
    open_, writer = case.open, case.writer_epoch
    number = case.state_partition
    partition = f"its partition of {TRANSACTION_STATE}" if number is None else f"{TRANSACTION_STATE}-{number}"
    fence = -1 if open_.coordinator_epoch is None else open_.coordinator_epoch
    if not fence > writer >= 0:
        return (
            f"check that {case.leader_place}, is up, read the log of {case.coordinator_place}, then have a new leader "
            f"elected for {partition} (a restart of the coordinator does that): it sends the {outcome} again"
        )
    if fence - writer <= _FEW:
        return (
            f"the coordinator's epoch has to rise from {writer} to {fence}: each new leader of {partition} raises it "
            f"by one or more (restart {case.coordinator_place}) and sends the {outcome} again"
        )
    by_hand = f"elections of {partition} do not raise the epoch from {writer} to {fence}"
    if outcome == "ABORT":
        return f"{by_hand}, so write the ABORT that is decided: {marker_command(case, fence)}"
    return (
        f"{by_hand}, so a COMMIT marker has to be written to {case.leader_place} (producer id {open_.producer_id}, "
        f'producer epoch {open_.producer_epoch}, coordinator epoch {fence}): docs/transactions.md, "A stuck Prepare"'
    )


def marker_command(case: Case, coordinator_epoch: int) -> str:
    """The command of Kafka's that writes an ABORT marker into the transaction's partition, whatever the verdict."""
    open_ = case.open
    return (
        f"kafka-transactions.sh --bootstrap-server {case.address} abort --topic {quoted(open_.place.topic)} "
        f"--partition {open_.place.partition} --producer-id {open_.producer_id} "
        f"--producer-epoch {open_.producer_epoch} --coordinator-epoch {coordinator_epoch}"
    )

"""Ending a transaction by hand: which one is meant, whether that may be done, with which marker, and whether it worked.

Pure functions over findings. An ABORT marker is written into a partition without the coordinator. Where the coordinator
holds the transaction, the marker destroys data that is committed elsewhere. So every verdict but *hanging* is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from kafkawire.errors import KafkaWireError
from kafkawire.rows import Finding
from kafkawire.transactions.coordinator.coordinator_rules import NEVER
from kafkawire.transactions.verdict.abort_premises import difference
from kafkawire.transactions.verdict.verdicts import HANGING, UNKNOWN

#: Reasons of what is not hanging, and may be aborted with `force`.
_FORCEABLE = ("young",)
#: States in which a coordinator has decided. Whatever else is in doubt, an abort may contradict it.
DECIDED = ("PrepareCommit", "PrepareAbort")
#: The reason where the transaction that is meant is not open.
NOT_OPEN = "not_open"
#: The reason where what was judged is not so any more, or could not be read again in time.
CHANGED = "changed"
_OVER = ("Empty", "CompleteCommit", "CompleteAbort")
#: Index of the first doubt in the evidence of what is *unknown*, after the data and the coordinator's state.
_DOUBT = 2


class Refused(KafkaWireError):
    """Nothing was sent. `reason`: that of the verdict (live, late, stuck_prepare, ...), or not_open, other, changed."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class TransactionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction as an operator names it: by its start offset, or by producer id, producer epoch and coordinator
    epoch (AbortTransactionSpec)."""

    topic: str
    partition: int
    start_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    coordinator_epoch: int | None = None

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """An ABORT marker for one partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class PartitionAfterAbort(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition looks like after the marker was sent.

    Attributes:
        start_offset: of what the producer has open there now, None for nothing.
        marker_offset: of the marker that was sent, None where the log does not have it (yet).
        first_open: first offset of the earliest open transaction of any producer, None where none is open.
        overtaken: first offset of what the producer wrote after the check, and the marker has aborted too; None for
            nothing.
    """

    start_offset: int | None = None
    marker_offset: int | None = None
    first_open: int | None = None
    overtaken: int | None = None
    last_stable_offset: int = -1
    high_watermark: int = -1


# Before --------------------------------------------------------------------------------------------------------------


def choose(findings: Iterable[Finding], named: TransactionSpec) -> Finding:
    """The open transaction that is meant. Raises Refused: none is open (not_open), or the epochs are others (other)."""
    here = [one for one in findings if (one.topic, one.partition) == (named.topic, named.partition)]
    if named.start_offset is not None:
        for finding in here:
            if finding.start_offset == named.start_offset:
                return finding
        raise Refused(NOT_OPEN, f"{_none(named, here)} that began at offset {named.start_offset}{_open(here)}")
    for finding in here:
        if finding.producer_id == named.producer_id:
            _same_epochs(finding, named)
            return finding
    raise Refused(NOT_OPEN, f"{_none(named, here)} of producer id {named.producer_id}{_open(here)}")


def permit(finding: Finding, *, force: bool = False) -> None:
    """Whether the transaction may be aborted in its partition. `force` is for what is *unknown* or young, and for
    nothing else. Raises Refused: it may not; the text has what to do instead."""
    if finding.verdict == HANGING:
        return
    unknown = finding.verdict == UNKNOWN
    doubt = f": {finding.evidence[_DOUBT].rstrip('.')}" if unknown and len(finding.evidence) > _DOUBT else ""
    what = f"{_place(finding)} is not aborted: {finding.verdict} ({finding.reason}){doubt}; {finding.action}"
    if unknown and finding.coordinator_state in DECIDED:
        raise Refused("stuck_prepare", f"{what}; its coordinator has it as {finding.coordinator_state}")
    if not unknown and finding.reason not in _FORCEABLE:
        raise Refused(finding.reason, what)
    if not force:
        raise Refused(finding.reason, f"{what} (--force REASON overrides this, on your responsibility)")


def marker_of(finding: Finding) -> Marker:
    """The marker that aborts the transaction: with the partition's own producer epoch, and the coordinator epoch that
    it has seen. A lower one is fenced; a higher one would fence the coordinator's own markers later. Where it has seen
    none, 0, as Kafka's tool has it: no coordinator's is lower."""
    return Marker(
        topic=finding.topic,
        partition=finding.partition,
        producer_id=finding.producer_id,
        producer_epoch=finding.producer_epoch,
        coordinator_epoch=_coordinator_epoch(finding),
    )


def unchanged(before: Finding, findings: Collection[Finding]) -> Finding:
    """The transaction as judged, found again in a reading right before its marker is sent. Raises Refused: it is not
    open any more (not_open), or not as it was judged (changed). That it is proven to hang by now is not counted as a
    change."""
    same = ("start_offset", "producer_epoch", "coordinator_epoch", "last_timestamp")
    judged = ("verdict", "reason")
    for now in findings:
        if (now.topic, now.partition, now.producer_id) != (before.topic, before.partition, before.producer_id):
            continue
        proven = now.verdict == HANGING != before.verdict
        refuse_change(before, difference(before, now, same if proven else (*same, *judged)))
        return now
    raise Refused(NOT_OPEN, f"{_place(before)}: nothing was sent: it is not open any more")


def refuse_change(before: Finding, what: str) -> None:
    """Refuses a transaction that is not as it was judged. `what`: the end of the sentence, "" where nothing has
    changed."""
    if what:
        raise Refused(CHANGED, changed_text(before, what))


def changed_text(before: Finding, what: str) -> str:
    """The sentence of `refuse_change`."""
    return f"{_place(before)}: nothing was sent: changed since it was checked: {what}"


def all_hanging(findings: Iterable[Finding]) -> list[Finding]:
    """The transactions that may be aborted without force, in the order that frees readers first."""
    hanging = [finding for finding in findings if finding.verdict == HANGING]
    return sorted(hanging, key=lambda one: (one.topic, one.partition, one.start_offset or 0))


def permit_end(transactional_id: str, state: str, timeout_ms: int, *, force: bool = False) -> bool:
    """Whether an id's transaction may be ended through its coordinator; False where there is none to end.

    Args:
        state, timeout_ms: as the coordinator describes it.
        force: of two-phase commit too, where a transaction waits for its owner's decision (KIP-939).

    Raises:
        Refused: it would not be ended, or must not be.
    """
    who = f"transactional id {transactional_id}"
    if state == "Ongoing":
        if timeout_ms == NEVER and not force:
            raise Refused(
                "two_phase_commit",
                f"{who} takes part in a two-phase commit: its owner must commit or abort it "
                "(--force REASON overrides this, on your responsibility)",
            )
        return True
    if state in _OVER:
        return False
    if state in DECIDED:
        outcome = "COMMIT" if state == "PrepareCommit" else "ABORT"
        raise Refused(
            "stuck_prepare",
            f"{who} is {state}: {outcome} is decided and cannot be changed; its coordinator would answer "
            "CONCURRENT_TRANSACTIONS until every partition has the marker",
        )
    raise Refused("state", f"{who} is {state}: nothing can be ended in that state")


# After ---------------------------------------------------------------------------------------------------------------


def missing(before: Finding, seen: PartitionAfterAbort) -> list[str]:
    """What is not yet as it is after an abort, in sentences; empty where all is. Another open transaction may hold the
    last stable offset on: that is no fault of the abort."""
    start = before.start_offset
    problems = []
    if seen.start_offset == start:
        problems.append("the partition has the transaction open")
    if seen.marker_offset is None:
        problems.append("its marker is not in the log")
    held = seen.first_open is not None and start is not None and seen.first_open < start
    if start is not None and not held and seen.last_stable_offset <= start:
        problems.append(f"the last stable offset is {seen.last_stable_offset}")
    return problems


def lost(before: Finding, seen: PartitionAfterAbort) -> str:
    """What the marker aborted that was not judged, as a sentence; "" for nothing."""
    if seen.overtaken is None or seen.marker_offset is None:
        return ""
    return (
        f"its producer wrote from offset {seen.overtaken} on between the check and the marker: these records of "
        f"{before.topic}-{before.partition} are aborted with it, and must be sent again"
    )


def still_held(before: Finding, seen: PartitionAfterAbort) -> str:
    """What holds the last stable offset after the abort, as a sentence; empty where nothing does."""
    if seen.first_open is None or seen.last_stable_offset >= seen.high_watermark:
        return ""
    place = f"{before.topic}-{before.partition}"
    return f"Another open transaction holds the last stable offset of {place}, at {seen.first_open}."


# Sentences -----------------------------------------------------------------------------------------------------------


def _same_epochs(finding: Finding, named: TransactionSpec) -> None:
    if named.producer_epoch != finding.producer_epoch:
        raise Refused(
            "other",
            f"{_place(finding)}: producer id {finding.producer_id} has epoch {finding.producer_epoch} there, "
            f"not {named.producer_epoch}",
        )
    wanted = _coordinator_epoch(finding)
    given = named.coordinator_epoch
    if given is not None and max(given, 0) != wanted:
        fault = "would be fenced" if given < wanted else "would fence the coordinator's own markers"
        raise Refused(
            "other", f"{_place(finding)}: a marker of coordinator epoch {given} {fault}; it has to be {wanted}"
        )


def _coordinator_epoch(finding: Finding) -> int:
    return max(finding.coordinator_epoch or 0, 0)


def _place(finding: Finding) -> str:
    return f"{finding.topic}-{finding.partition}, offset {finding.start_offset}"


def _none(named: TransactionSpec, here: Collection[Finding]) -> str:
    return f"{named.place}: no transaction is open there" if not here else f"{named.place}: no transaction is open"


def _open(here: Collection[Finding]) -> str:
    if not here:
        return ""
    each = (f"at {one.start_offset} (producer id {one.producer_id}, epoch {one.producer_epoch})" for one in here)
    return "; open ones began " + ", ".join(each)

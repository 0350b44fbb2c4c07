"""Comparisons of two readings of a cluster, and of two findings about one transaction: pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire import rows
from kafkawire.client.diagnosis.cluster_reading import ClusterReading, OpenKey
from kafkawire.messages import TransactionLogValue
from kafkawire.transactions.coordinator.coordinator_rules import PREPARED, state_name
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import some
from kafkawire.transactions.verdict.case import IdState
from kafkawire.transactions.verdict.live_case import ClockSkew, skew_of
from kafkawire.transactions.verdict.verdicts import HANGING, HELD, UNKNOWN

_FEW = 5


def is_abandoned(finding: rows.Finding) -> bool:
    """Whether no coordinator will end it, by its verdict: it hangs, or will when it is older."""
    return finding.verdict == HANGING or finding.reason == "young"


def is_being_ended(finding: rows.Finding) -> bool:
    """Whether its coordinator is ending it, shortly or, if stuck, never."""
    return finding.reason in ("live", "stuck_prepare") and finding.coordinator_state in PREPARED


def is_suspect(finding: rows.Finding) -> bool:
    """Whether the transaction has to be read again before its verdict counts."""
    blocking = finding.reason == "ghost" and finding.blocked
    return is_abandoned(finding) or is_being_ended(finding) or blocking or finding.verdict == UNKNOWN


def preparing_ms(key: OpenKey, before: ClusterReading, after: ClusterReading) -> int | None:
    """For how long a coordinator has been preparing an open transaction, in milliseconds; None where it has not. `key`:
    open in `after`. `before`, `after`: two readings, the earlier one first."""
    producer, id_state = after.opens[key], after.id_states.get(key[1])
    then = before.opens.get(key), before.id_states.get(key[1])
    if id_state is None or id_state.value is None or state_name(id_state.value.transaction_status) not in PREPARED:
        return None
    return after.at - before.at if then == (producer, id_state) else None


def agree(key: OpenKey, before: ClusterReading, after: ClusterReading) -> bool:
    """Whether two readings found an open transaction, and its id at the coordinator, as the same."""
    then, now = ((one.opens.get(key), one.id_states.get(key[1])) for one in (before, after))
    return then == now


def clock_skews(before: ClusterReading, after: ClusterReading) -> dict[int, ClockSkew]:
    """How far the clocks of coordinators are from this machine's, by broker, as far as two readings show it.

    A transaction that the earlier reading's description of its id does not have began before the later one, and not
    before its coordinator could still be waiting for replicas of its record: so its start, a time of its coordinator's,
    is between these two times of this machine's clock, or the clocks differ. `before`, `after`: two readings, the
    earlier one first."""
    found: dict[int, ClockSkew] = {}
    for producer_id, now in after.id_states.items():
        then = before.id_states.get(producer_id)
        if then is None or then.value is None or now.value is None or now.coordinator is None:
            continue
        begun = now.value.transaction_start_timestamp_ms
        same = (then.transactional_id, then.coordinator, then.epoch) == (
            now.transactional_id,
            now.coordinator,
            now.epoch,
        )
        if not same or begun in (-1, then.value.transaction_start_timestamp_ms):
            continue
        skew = skew_of(f"broker {now.coordinator}", begun, begins_after(now.value, before.at), after.until)
        if skew is not None:
            found[now.coordinator] = skew
    return found


def begins_after(value: TransactionLogValue, seen: int) -> int:
    """After which time a transaction began that was not described at a time. A coordinator describes it once its record
    is replicated, and waits for that for no longer than the transaction's timeout (`TransactionStateManager`, which
    appends with it), for example while fewer than min.insync.replicas are in sync. `value`: the transaction. `seen`:
    this machine's clock when it was not described, epoch milliseconds."""
    return seen - max(value.transaction_timeout_ms, 0)


def coordinator_skew(
    id_state: IdState | None, old: rows.Finding | None, since: int | None, until: int, known: Mapping[int, ClockSkew]
) -> ClockSkew | None:
    """How far the coordinator's clock is from this machine's: as two readings of a search show it, or as the
    transaction does, if it began after an earlier search saw its producer's last one.

    Args:
        old: the finding of that search on the producer. `since`: when it was first seen, epoch milliseconds.
        until: end of the reading, epoch milliseconds. `known`: by coordinator, as two readings show it.
    """
    if id_state is None or id_state.value is None or id_state.coordinator is None:
        return None
    begun = id_state.value.transaction_start_timestamp_ms
    seen = old is not None and begun >= 0 and old.reason in HELD
    if not seen or old is None or since is None or old.transaction_start_timestamp in (None, begun):
        return known.get(id_state.coordinator)
    return skew_of(f"broker {id_state.coordinator}", begun, begins_after(id_state.value, since), until)


def same_verdict(finding: rows.Finding, before: rows.Finding | None) -> bool:
    """Whether an earlier reading gave the same verdict on the same transaction."""
    return before is not None and (finding.verdict, finding.reason, finding.start_offset) == (
        before.verdict,
        before.reason,
        before.start_offset,
    )


def is_unsettled(reading: ClusterReading) -> bool:
    """Whether a broker is missing, or a coordinator moved while it was read."""
    before, after = reading.coordinators
    lacking = before.missing or after.missing or reading.listed.errors or reading.gone
    return bool(lacking) or before.leaders != after.leaders


def coordinator_moves(before: ClusterReading, after: ClusterReading) -> str:
    """Which coordinators have moved between two readings, or are not agreed on in the later one, as a sentence; empty
    where none is."""
    first, *_, last = maps = [*before.coordinators, *after.coordinators]
    if all(one.leaders == first.leaders for one in maps):
        split = [str(place.partition) for place in sorted(after.disputed) if place.topic == TRANSACTION_STATE]
        if split:
            return f"Brokers disagree on who coordinates (partitions {some(split, _FEW)} of {TRANSACTION_STATE})."
        return ""
    moved = [n for n in last.leaders if any(one.leaders.get(n) != last.leaders[n] for one in maps)]
    which = some(list(map(str, sorted(moved))), _FEW)
    return f"Coordinators moved while it was read (partitions {which} of __transaction_state)."

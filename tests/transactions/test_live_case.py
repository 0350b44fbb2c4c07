"""Cases of a live cluster: answers of leaders and coordinators, and what they leave in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.messages import TransactionLogValue
from kafkawire.rows import Finding
from kafkawire.transactions.facts import Open, Place
from kafkawire.transactions.verdict.case import IdState
from kafkawire.transactions.verdict.client_stamps import TOLERANCE_MS
from kafkawire.transactions.verdict.live_case import HIDDEN, Absence, LiveCase, described, skew_of
from kafkawire.transactions.verdict.verdicts import judge
from tests.audit_logs import HOUR, NOON

PID, EPOCH = 1000, 4
SOURCE = "coordinator broker 2"


def open_transaction(**fields: Any) -> Open:
    defaults = {
        "place": Place("", "orders", 0),
        "producer_id": PID,
        "producer_epoch": EPOCH,
        "start_offset": 20,
        "last_offset": 20,
        "last_timestamp": NOON - 3 * HOUR,
    }
    return Open(**{**defaults, **fields})


def finding(id_state: IdState | None = None, *, open_: Open | None = None, **fields: Any) -> Finding:
    defaults = {"first_start": 20, "as_of": NOON, "leader": 1, "last_stable_offset": 20, "high_watermark": 30}
    return judge(LiveCase(open=open_ or open_transaction(), id_state=id_state, **{**defaults, **fields}))


def value(state: str, epoch: int = EPOCH, *, begun: int | None = NOON - HOUR) -> TransactionLogValue:
    return described(
        state,
        producer_id=PID,
        producer_epoch=epoch,
        timeout_ms=60_000,
        start_time_ms=begun,
        partitions=[("orders", 0), ("ledger", 3), ("orders", 1)],
    )


def described_state(state: str, epoch: int = EPOCH, **fields: Any) -> IdState:
    defaults = {"transactional_id": "pay", "source": SOURCE, "described": True, "value": value(state, epoch)}
    return IdState(**{**defaults, **fields})


def test_converts_a_description_to_a_record() -> None:
    found = value("Ongoing", begun=None)
    assert found.transaction_start_timestamp_ms == found.transaction_last_update_timestamp_ms == -1
    assert [(entry.topic, entry.partition_ids) for entry in found.transaction_partitions or ()] == [
        ("ledger", (3,)),
        ("orders", (0, 1)),
    ]


@pytest.mark.parametrize(
    ("log_start", "read_to", "last", "ghost"),
    [
        (20, 0, None, False),  # it began at the log start
        (25, 0, None, False),  # five records, which may be its own
        (30, 0, None, True),  # no record
        (25, 30, None, True),  # they were read, and are not
        (25, 29, None, False),
        (25, 0, 24, True),  # its last batch was seen, and is deleted since
        (25, 0, 25, False),
    ],
)
def test_a_ghost_is_one_whose_data_is_known_to_be_deleted(
    log_start: int, read_to: int, last: int | None, ghost: bool
) -> None:
    open_ = open_transaction() if last is None else open_transaction(last_offset=last, batches=1)
    found = finding(described_state("CompleteCommit"), open_=open_, log_start=log_start, read_to=read_to)
    assert (found.verdict, found.reason) == (("not_hanging", "ghost") if ghost else ("hanging", "transaction_ended"))


@pytest.mark.parametrize(
    ("state", "epoch", "verdict", "reason"),
    [
        ("Ongoing", EPOCH, "not_hanging", "late"),
        ("Ongoing", EPOCH + 1, "hanging", "epoch_bumped"),
        # No description has the transaction's version. Below 2 an ended one keeps its epoch, from 2 on it rises.
        ("CompleteCommit", EPOCH, "hanging", "transaction_ended"),
        ("CompleteCommit", EPOCH + 1, "hanging", "transaction_ended"),
        ("CompleteCommit", EPOCH + 2, "hanging", "epoch_bumped"),
        ("Empty", EPOCH, "hanging", "partition_not_in_transaction"),
        ("CompleteCommit", EPOCH - 1, "unknown", "coverage_incomplete"),
        ("PrepareCommit", EPOCH, "not_hanging", "live"),  # stuck needs two readings
    ],
)
def test_verdict_follows_from_the_described_state(state: str, epoch: int, verdict: str, reason: str) -> None:
    found = finding(described_state(state, epoch))
    assert (found.verdict, found.reason) == (verdict, reason), found.evidence
    assert found.transactional_id == "pay"
    assert found.last_offset is None
    assert {premise.source for premise in found.premises} <= {SOURCE, "broker 1"}
    assert found.evidence[1].startswith(
        f"Transactional id 'pay' is {state}, producer id {PID}, epoch {epoch} ({SOURCE})"
    )


def test_uses_the_transaction_version_of_a_record() -> None:
    """In version 2, an ended transaction that is at the data's epoch ended before the data."""
    state = IdState(
        transactional_id="pay",
        source="__transaction_state-3",
        value=TransactionLogValue(
            producer_id=PID,
            producer_epoch=EPOCH,
            transaction_status=4,
            transaction_partitions=None,
            client_transaction_version=2,
        ),
    )
    assert finding(state).reason == "partition_not_in_transaction"


def test_absence_needs_a_proof() -> None:
    proven = finding(absence=Absence(proof="no authorizer"))
    assert (proven.verdict, proven.reason) == ("hanging", "no_transactional_id")
    assert proven.evidence[1] == "No coordinator names a transactional id with that producer id (no authorizer)."
    doubted = finding(absence=Absence(doubts=(HIDDEN,)))
    assert (doubted.verdict, doubted.evidence[1:3]) == (
        "unknown",
        ("No coordinator names a transactional id with that producer id.", HIDDEN),
    )
    assert doubted.action == ("none before it is certain: have what is missing granted or repaired, and look again")


def test_an_id_that_expired_has_nothing_open() -> None:
    found = finding(IdState(transactional_id="pay", source="__transaction_state-3", value=None))
    assert (found.verdict, found.reason) == ("hanging", "no_transactional_id")
    assert found.evidence[1].startswith("Transactional id 'pay' has expired (__transaction_state-3): ")


def test_a_state_that_could_not_be_read_is_a_doubt() -> None:
    found = finding(IdState(transactional_id="pay", source="", value=None, problem="its coordinator does not answer"))
    assert found.verdict == "unknown"
    assert "Its coordinator could not describe it: its coordinator does not answer." in found.evidence


def test_explains_coordinator_epoch_0_of_an_abort() -> None:
    """The partition's is -1 where it has seen no marker of the producer id."""
    unmarked = (
        "The partition has seen no marker of this producer id (coordinator epoch -1): an abort sends 0, the lowest "
        "epoch of a coordinator."
    )
    assert unmarked in finding(described_state("CompleteCommit")).evidence
    assert unmarked in finding(described_state("CompleteCommit"), moved=("It moved.",)).evidence
    assert unmarked in finding(described_state("CompleteCommit"), max_timeout_ms=24 * HOUR).evidence
    assert unmarked not in finding(described_state("Ongoing")).evidence
    for epoch in (0, 5):
        marked = finding(described_state("CompleteCommit"), open_=open_transaction(coordinator_epoch=epoch))
        assert not [sentence for sentence in marked.evidence if "no marker" in sentence]


def test_evidence_shows_the_limit_as_a_sum() -> None:
    old = "Its last batch is 3 h old, and the limit is 35 min (transaction.max.timeout.ms 30 min + 5 min grace)."
    assert old in finding(described_state("CompleteCommit"), max_timeout_ms=1_800_000).evidence
    young = finding(described_state("CompleteCommit"), max_timeout_ms=4 * HOUR)
    assert (
        "It would be hanging (transaction_ended), but its last batch is only 3 h old: below 4 h 5 min "
        "(transaction.max.timeout.ms 4 h + 5 min grace) its producer may still be at work."
    ) in young.evidence


def test_a_change_between_two_readings_is_a_doubt() -> None:
    found = finding(described_state("CompleteCommit"), moved=("The leader was another one.",))
    assert (found.verdict, found.evidence[2]) == ("unknown", "The leader was another one.")


def test_data_above_the_high_watermark_is_a_doubt() -> None:
    for high in (20, 19):
        found = finding(described_state("CompleteCommit"), high_watermark=high, last_stable_offset=high)
        assert found.verdict == "unknown"
        assert f"Its data is not below the high watermark {high}: it may still be truncated." in found.evidence
    assert finding(described_state("CompleteCommit"), high_watermark=21).verdict == "hanging"
    unasked = finding(described_state("CompleteCommit"), high_watermark=None, last_stable_offset=None)
    assert (unasked.verdict, unasked.blocked, unasked.log_start_offset) == ("unknown", True, 0)
    assert [one.name for one in unasked.premises if not one.holds] == ["soundness"]


def test_a_prepare_in_two_readings_is_stuck() -> None:
    """A description lacks the time of the decision: that it began long ago is enough, or that it lasts."""
    fresh = IdState(
        transactional_id="pay", source=SOURCE, value=value("PrepareAbort", begun=NOON - 1000), described=True
    )
    assert finding(fresh).reason == "live"
    lasting = finding(fresh, lasting_ms=2500)
    assert lasting.reason == "stuck_prepare"
    assert "So it was in two readings, 2.5 s apart: its ABORT marker does not arrive." in lasting.evidence
    fenced = finding(fresh, lasting_ms=2500, open_=open_transaction(coordinator_epoch=1_000_000))
    assert any("it refuses the coordinator's where that one's epoch is lower" in one for one in fenced.evidence)
    known = finding(
        IdState(transactional_id="pay", source=SOURCE, value=fresh.value, epoch=3),
        open_=open_transaction(coordinator_epoch=1_000_000),
    )
    assert any("refuses its ABORT marker (TRANSACTION_COORDINATOR_FENCED)" in one for one in known.evidence)
    above = finding(fresh, lasting_ms=2500, high_watermark=20, last_stable_offset=20)
    assert (above.verdict, above.reason) == ("unknown", "coverage_incomplete")


# Time -----------------------------------------------------------------------------------------------------------------

MINUTE = 60_000
PROVEN = {"absence": Absence(proof="proof"), "read_at": NOON}
#: Stamps that a client may choose, none of which shows an age.
STAMPS = (NOON + 2 * HOUR, NOON * 1000, (1 << 63) - 1, -1, 1000)


@pytest.mark.parametrize("stamp", STAMPS)
def test_stamp_that_cannot_be_used_leaves_the_age_unknown(stamp: int) -> None:
    """Such a transaction was "young", and would have been for ever."""
    found = finding(open_=open_transaction(last_timestamp=stamp), **PROVEN)
    assert (found.verdict, found.reason, found.age_ms) == ("unknown", "coverage_incomplete", None)
    (missing,) = (one for one in found.premises if not one.holds)
    assert missing.name == "time"
    assert missing.what.startswith("Its client's stamp does not count, ")
    assert missing.what in found.evidence
    assert "kafkawire txn watch counts from its first sight" in (missing.needs or "")


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize(("state", "epoch"), [("CompleteCommit", EPOCH), ("Ongoing", EPOCH + 1)])
def test_two_readings_prove_that_a_transaction_has_ended_without_an_age(stamp: int, state: str, epoch: int) -> None:
    open_ = open_transaction(last_timestamp=stamp)
    once = finding(described_state(state, epoch), open_=open_, **PROVEN)
    assert once.verdict == "unknown"
    twice = finding(described_state(state, epoch), open_=open_, agreed=True, **PROVEN)
    assert twice.verdict == "hanging"
    assert all(one.holds for one in twice.premises)
    assert any("No age is needed: two readings agree" in sentence for sentence in twice.evidence)


def test_two_readings_of_a_plausible_young_stamp_leave_it_young() -> None:
    young = finding(
        described_state("CompleteCommit"), open_=open_transaction(last_timestamp=NOON), agreed=True, **PROVEN
    )
    assert (young.verdict, young.reason) == ("not_hanging", "young")
    assert (young.blocked_until, young.waits_for) == (
        NOON + 20 * MINUTE,
        "its producer; it is judged again at 2025-06-16 12:20:00 UTC",
    )


@pytest.mark.parametrize(("seen", "verdict"), [(20, "unknown"), (21, "hanging")])
def test_first_sight_proves_an_age_where_the_stamp_does_not(seen: int, verdict: str) -> None:
    open_ = open_transaction(last_timestamp=NOON * 1000)
    found = finding(open_=open_, first_seen=NOON - seen * MINUTE, **PROVEN)
    assert found.verdict == verdict


def test_stamp_that_cannot_be_used_is_reported_for_what_its_coordinator_holds_too() -> None:
    found = finding(described_state("Ongoing"), open_=open_transaction(last_timestamp=NOON * 1000), **PROVEN)
    assert found.reason == "late"
    assert any("which does not count: its client stamps in microseconds." in sentence for sentence in found.evidence)


def test_brokers_stamp_behind_the_batch_proves_an_age() -> None:
    """As `audit --bootstrap-server` reads it from the log."""
    open_ = open_transaction(last_timestamp=-1, written_by=NOON - 21 * MINUTE)
    assert finding(open_=open_, **PROVEN).verdict == "hanging"


@pytest.mark.parametrize(
    ("begun", "first_seen", "since", "attention"),
    [
        (4, 0, 4, None),
        (5, 0, 5, None),
        (6, 0, 6, "blocked"),
        (-HOUR // MINUTE, 0, 0, None),
        (-HOUR // MINUTE, 6, 6, "blocked"),
        (2, 6, 6, "blocked"),
    ],
)
def test_blocked_counts_from_the_coordinators_start_or_first_sight(
    begun: int, first_seen: int, since: int, attention: str | None
) -> None:
    """A client's stamp of three hours ago is not counted; nor a coordinator's time after this machine's clock."""
    state = described_state("Ongoing", value=value("Ongoing", begun=NOON - begun * MINUTE))
    found = finding(state, first_seen=NOON - first_seen * MINUTE, **PROVEN)
    assert (found.blocked_since, found.attention) == (NOON - since * MINUTE, attention)


def test_coordinators_clock_that_is_ahead_is_reported_and_makes_nothing_late() -> None:
    found = finding(described_state("Ongoing", value=value("Ongoing", begun=NOON + HOUR), coordinator=2), **PROVEN)
    assert (found.reason, found.blocked_since) == ("live", None)
    assert found.evidence[-2] == (
        "The clock of broker 2, the coordinator, is ahead of the clock here by 1 h or more: the transaction began "
        "2025-06-16 13:00:00 UTC by it."
    )


def test_given_clock_does_not_count_for_how_long_readers_are_blocked() -> None:
    found = finding(
        described_state("Ongoing"), first_seen=NOON, absence=Absence(proof="p"), read_at=NOON, as_of=NOON - HOUR
    )
    assert found.attention == "blocked"  # its coordinator began it an hour before this machine's clock


# Place ----------------------------------------------------------------------------------------------------------------


def test_leader_that_all_brokers_name_is_a_premise_of_what_hangs() -> None:
    found = finding(leader_epoch=4, **PROVEN)
    assert found.verdict == "hanging"
    (place,) = (one for one in found.premises if one.name == "place")
    assert (place.holds, place.source) == (True, "broker 1")
    assert place.what == "The leader of the partition answered; all brokers name it, in leader epoch 4."


def test_leader_that_brokers_dispute_leaves_the_place_unproven() -> None:
    found = finding(disputed="Its leader changed.", **PROVEN)
    assert (found.verdict, [one.name for one in found.premises if not one.holds]) == ("unknown", ["place"])
    assert "Its leader changed." in found.evidence


# Clocks ---------------------------------------------------------------------------------------------------------------


def test_a_time_between_two_of_ours_measures_no_clock() -> None:
    assert skew_of("broker 2", NOON, NOON - 1000, NOON + 1000) is None
    assert skew_of("broker 2", NOON - TOLERANCE_MS, NOON, NOON + 1000) is None


def test_a_clock_is_as_far_off_as_an_event_shows() -> None:
    behind = skew_of("broker 2", NOON - HOUR, NOON, NOON + 60_000)
    assert behind is not None
    assert (behind.low_ms, behind.high_ms) == (-HOUR - 60_000, -HOUR)
    assert behind.text == "the clock of broker 2 is behind the clock here by 1 h to 1 h 1 min"
    ahead = skew_of("broker 2", NOON + HOUR, NOON - 60_000, NOON)
    assert ahead is not None
    assert ahead.text == "the clock of broker 2 is ahead of the clock here by 1 h to 1 h 1 min"


def test_a_clock_that_is_behind_makes_nothing_late_nor_blocked() -> None:
    """It began a second ago by the coordinator's clock, which is an hour behind."""
    held = described_state("Ongoing", value=value("Ongoing", begun=NOON - HOUR - 1000))
    assert (finding(held).reason, finding(held).attention) == ("late", "blocked")
    skew = skew_of("broker 2", NOON - HOUR, NOON, NOON)
    found = finding(held, skew=skew, read_at=NOON, first_seen=NOON)
    assert (found.reason, found.attention, found.blocked_since) == ("live", None, NOON - 1000)
    assert "The clock of broker 2 is behind the clock here by 1 h: that is allowed for." in found.evidence


def test_a_clock_that_is_ahead_hides_no_late_transaction() -> None:
    held = described_state("Ongoing", value=value("Ongoing", begun=NOON + HOUR - 600_000))
    assert finding(held).reason == "live"
    found = finding(held, skew=skew_of("broker 2", NOON + HOUR, NOON, NOON), read_at=NOON, first_seen=NOON)
    assert (found.reason, found.attention, found.blocked_since) == ("late", "blocked", NOON - 600_000)


def test_a_start_after_the_clock_is_not_known_to_be_short() -> None:
    """By a clock that is ahead, and was not measured: how long it has been open is not known."""
    held = described_state("Ongoing", value=value("Ongoing", begun=NOON + HOUR))
    found = finding(held, read_at=NOON, first_seen=NOON)
    (doubt,) = (one for one in found.premises if not one.holds)
    assert (found.reason, doubt.name) == ("live", "deadline")
    assert "began 2025-06-16 13:00:00 UTC by the clock of" in doubt.what
    seen = finding(held, read_at=NOON, first_seen=NOON - HOUR)
    assert (seen.attention, [one for one in seen.premises if not one.holds]) == ("blocked", [])


def test_one_reading_shows_no_stuck_decision() -> None:
    """Its coordinator's clock may be days behind."""
    decided = described_state("PrepareCommit", value=value("PrepareCommit", begun=NOON - 24 * HOUR))
    assert finding(decided).reason == "live"
    assert finding(decided, lasting_ms=1000).reason == "stuck_prepare"

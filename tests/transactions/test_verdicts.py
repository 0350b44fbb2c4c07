"""Every verdict and every reason, on log directories that were written for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkawire import logdir, transactions
from kafkawire.rows import Audit, Finding, Impact, OffsetRange, TransactionData
from kafkawire.transactions import Case, Settings
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory, open_entry

OLD = NOON - 3 * HOUR
P = ("orders", 0)
PID = 1000


def audit(directory: LogDirectory, **settings: int) -> Audit:
    path = directory.write()
    chosen = Settings(**{"transaction_state_partitions": directory.ids, "as_of": NOON, **settings})
    return transactions.audit(logdir.open(path), chosen, paths=(path,))


def old_data(d: LogDirectory, epoch: int = 0, at: int = OLD) -> None:
    d.partition(*P).data(PID, epoch, at=at)
    d.high_watermark(*P, d.partition(*P).end)
    # Other traffic: the coordinator's log has records after the data.
    d.id("other", "CompleteCommit", 1, 5, at=NOON)


def nothing_known(d: LogDirectory) -> None:
    old_data(d)


def no_record_of_this_id(d: LogDirectory) -> None:
    old_data(d)
    d.id("another", "Ongoing", PID + 1, 0, P)


def expired(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "CompleteCommit", PID, 1, at=OLD - HOUR)
    d.id("pay", None)


def ended_below_version_2(d: LogDirectory) -> None:
    old_data(d, 4)
    d.id("pay", "CompleteCommit", PID, 4, version=0)


def ended_version_2(d: LogDirectory) -> None:
    old_data(d, 4)
    d.id("pay", "CompleteAbort", PID, 5)


def timed_out_below_version_2(d: LogDirectory) -> None:
    old_data(d, 4)
    d.id("pay", "CompleteAbort", PID, 5, version=1)


def id_has_another_producer_id(d: LogDirectory) -> None:
    old_data(d, 32766)
    d.id("pay", "CompleteCommit", PID + 7, 0, previous=PID)


def id_had_it_long_ago(d: LogDirectory) -> None:
    old_data(d, 3)
    d.id("pay", "Ongoing", PID, 3, at=OLD)
    d.id("pay", None)
    d.id("pay", "Ongoing", PID + 7, 0, P)


def ongoing_in_a_later_epoch(d: LogDirectory) -> None:
    old_data(d, 4)
    d.id("pay", "Ongoing", PID, 5, P)


def prepared_two_epochs_later(d: LogDirectory) -> None:
    old_data(d, 4)
    d.id("pay", "PrepareCommit", PID, 6, P)


def begun_anew(d: LogDirectory) -> None:
    old_data(d, 4)
    d.id("pay", "Empty", PID, 5)


def completed_by_a_later_epoch(d: LogDirectory) -> None:
    old_data(d, 4)
    d.id("pay", "CompleteCommit", PID, 5, version=1)


def completed_much_later(d: LogDirectory) -> None:
    old_data(d, 4)
    d.id("pay", "CompleteCommit", PID, 9)


def never_begun(d: LogDirectory) -> None:
    """InitProducerId, then Produce without AddPartitionsToTxn."""
    old_data(d)
    d.id("pay", "Empty", PID, 0)


def not_begun_after_a_commit(d: LogDirectory) -> None:
    """The same, by a client of version 2 in the epoch that the commit gave it."""
    old_data(d, 5)
    d.id("pay", "CompleteCommit", PID, 5)


def ongoing_elsewhere(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "Ongoing", PID, 0, ("orders", 1), ("payments", 0))


def prepared_elsewhere(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "PrepareCommit", PID, 1, ("orders", 1))


def live(d: LogDirectory) -> None:
    """Its CreateTimes are hours old; at its coordinator it has just begun."""
    old_data(d)
    d.id("pay", "Ongoing", PID, 0, P, begun=NOON - MINUTE)


def live_preparing(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "PrepareCommit", PID, 1, P, at=NOON - 1000)


def late(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "Ongoing", PID, 0, P, begun=OLD, timeout=60_000)


def two_phase(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "Ongoing", PID, 0, P, begun=OLD, timeout=2**31 - 1)


def fenced(d: LogDirectory) -> None:
    """An overshooting abort by hand: no marker of the coordinator's is accepted any more."""
    d.partition(*P).marker("ABORT", PID, 0, at=OLD, coordinator_epoch=1_000_000)
    old_data(d)
    d.id("pay", "PrepareCommit", PID, 1, P, at=NOON - MINUTE)


def prepared_long_ago(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "PrepareAbort", PID, 0, P, at=OLD, version=0)


def prepared_by_a_timeout(d: LogDirectory) -> None:
    """Below version 2 the epoch is raised when the coordinator itself aborts."""
    old_data(d, 3)
    d.id("pay", "PrepareAbort", PID, 4, P, at=OLD, version=0)


def last_epoch(d: LogDirectory) -> None:
    old_data(d, 32766)
    d.id("pay", "PrepareCommit", PID, 32767, P, at=OLD, next=PID + 7)


def ghost(d: LogDirectory) -> None:
    partition = d.partition(*P, start=50)
    partition.plain(records=5)
    partition.snapshot(open_entry(start=10, last=12))
    d.id("other", "CompleteCommit", 1, 5)


def young(d: LogDirectory) -> None:
    old_data(d, at=NOON - 19 * MINUTE)


def from_the_future(d: LogDirectory) -> None:
    old_data(d, at=NOON - 1)
    d.partition(*P).data(PID, at=NOON + HOUR)
    d.id("other", "CompleteCommit", 1, 5, at=NOON + 2 * HOUR)


def id_partition_missing(d: LogDirectory) -> None:
    old_data(d)
    del d.partitions["__transaction_state", 1]


def id_log_older_than_the_data(d: LogDirectory) -> None:
    d.stopped = False
    d.partition(*P).data(PID, at=OLD)
    d.id("pay", "CompleteCommit", PID, 1, at=OLD - HOUR)


def id_log_older_than_a_marker_before_the_data(d: LogDirectory) -> None:
    """The client's clock is hours behind; the marker before its batch shows that."""
    d.stopped = False
    d.partition(*P).marker("COMMIT", 77, at=NOON - MINUTE)
    d.partition(*P).data(PID, at=OLD)
    d.id("pay", "CompleteCommit", PID, 0, at=NOON - 2 * MINUTE, version=0)


def record_older_than_the_data(d: LogDirectory) -> None:
    old_data(d, 6)
    d.id("pay", "CompleteCommit", PID, 5)


def next_producer_id(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "PrepareCommit", PID - 1, 32767, P, next=PID)


def never_written_state(d: LogDirectory) -> None:
    old_data(d)
    d.id("pay", "Dead", PID, 0)


def a_hole_after_it(d: LogDirectory) -> None:
    old_data(d)
    d.partition(*P).skip(2)
    d.partition(*P).plain()


def above_the_high_watermark(d: LogDirectory) -> None:
    old_data(d)
    d.high_watermark(*P, 0)


def unreadable_id(d: LogDirectory) -> None:
    ended_version_2(d)
    from kafkawire.records import Record

    d.id_log("pay").records([Record(key=b"\0\0\0\x03pay", value=b"\0\x09", timestamp=NOON)])


CASES: list[tuple[Callable[[LogDirectory], None], str, str]] = [
    (nothing_known, "hanging", "no_transactional_id"),
    (no_record_of_this_id, "hanging", "no_transactional_id"),
    (expired, "hanging", "no_transactional_id"),
    (ended_below_version_2, "hanging", "transaction_ended"),
    (ended_version_2, "hanging", "transaction_ended"),
    (timed_out_below_version_2, "hanging", "transaction_ended"),
    (id_has_another_producer_id, "hanging", "transaction_ended"),
    (id_had_it_long_ago, "hanging", "transaction_ended"),
    (ongoing_in_a_later_epoch, "hanging", "epoch_bumped"),
    (prepared_two_epochs_later, "hanging", "epoch_bumped"),
    (begun_anew, "hanging", "epoch_bumped"),
    (completed_by_a_later_epoch, "hanging", "epoch_bumped"),
    (completed_much_later, "hanging", "epoch_bumped"),
    (from_the_future, "hanging", "no_transactional_id"),
    (never_begun, "hanging", "partition_not_in_transaction"),
    (not_begun_after_a_commit, "hanging", "partition_not_in_transaction"),
    (ongoing_elsewhere, "hanging", "partition_not_in_transaction"),
    (prepared_elsewhere, "hanging", "partition_not_in_transaction"),
    (live, "not_hanging", "live"),
    (live_preparing, "not_hanging", "live"),
    (late, "not_hanging", "late"),
    (two_phase, "not_hanging", "two_phase_commit"),
    (fenced, "not_hanging", "stuck_prepare"),
    (prepared_long_ago, "not_hanging", "stuck_prepare"),
    (prepared_by_a_timeout, "not_hanging", "stuck_prepare"),
    (last_epoch, "not_hanging", "stuck_prepare"),
    (ghost, "not_hanging", "ghost"),
    (young, "not_hanging", "young"),
    (id_partition_missing, "unknown", "coverage_incomplete"),
    (id_log_older_than_the_data, "unknown", "coverage_incomplete"),
    (id_log_older_than_a_marker_before_the_data, "unknown", "coverage_incomplete"),
    (record_older_than_the_data, "unknown", "coverage_incomplete"),
    (next_producer_id, "unknown", "coverage_incomplete"),
    (never_written_state, "unknown", "coverage_incomplete"),
    (a_hole_after_it, "unknown", "coverage_incomplete"),
    (above_the_high_watermark, "unknown", "coverage_incomplete"),
    (unreadable_id, "unknown", "coverage_incomplete"),
]


@pytest.mark.parametrize(
    ("state", "epoch", "action"),
    [
        ("Ongoing", 0, "none on the partition: its coordinator must end it, by itself or on kafkawire txn force-"),
        ("CompleteCommit", 0, "none before it is certain that no coordinator will end it: read what was missing"),
        ("CompleteCommit", 1, "readers wait until a marker is written: kafka-transactions.sh "),
    ],
)
def test_action_for_a_ghost_that_blocks_readers(tmp_path: Path, state: str, epoch: int, action: str) -> None:
    """Records were deleted below an open transaction: its coordinator, if it holds it still; or an operator."""
    directory = LogDirectory(tmp_path / "logs")
    partition = directory.partition(*P, start=50)
    partition.plain(records=5)
    partition.snapshot(open_entry(start=10, last=12))
    directory.id("pay", state, PID, epoch - (action.startswith("none before")), P)
    (finding,) = audit(directory).findings
    assert (finding.reason, finding.blocked) == ("ghost", True)
    assert (finding.action or "").startswith(action), finding


@pytest.mark.parametrize(("high", "verdict"), [(1, "unknown"), (2, "not_hanging"), (None, "not_hanging")])
def test_a_decision_that_replicas_lack_is_not_stuck(tmp_path: Path, high: int | None, verdict: str) -> None:
    """4.4.0 below min.insync.replicas: the coordinator answers Ongoing, and its Prepare record is above the high
    watermark. Its marker is not late, and the record may still be lost."""
    directory = LogDirectory(tmp_path / "logs", ids=1)
    directory.partition(*P).data(PID, 0, at=OLD)
    directory.high_watermark(*P, 1)
    directory.id("pay", "PrepareCommit", PID, 0, P, at=OLD, version=0)
    directory.id("other", "CompleteCommit", 1, 5, at=NOON)
    if high is not None:
        directory.high_watermark("__transaction_state", 0, high)
    found = audit(directory)
    (finding,) = found.findings
    (answer,) = (one for one in found.answers if one.check == "prepare_completed")
    assert (finding.verdict, answer.violated) == (verdict, int(verdict != "unknown"))
    if verdict == "unknown":
        (missing,) = (one for one in finding.premises if not one.holds)
        assert missing.what.startswith(
            "Its record at offset 1 of __transaction_state-0 is not below the high watermark 1"
        )


def test_the_marker_of_a_ghost_is_one_that_the_partition_does_not_fence(tmp_path: Path) -> None:
    """Its producer state remembers the newest coordinator epoch, which no record of the log shows any more."""
    directory = LogDirectory(tmp_path / "logs")
    partition = directory.partition(*P, start=50)
    partition.plain(records=5)
    partition.snapshot(replace(open_entry(start=10, last=12), coordinator_epoch=6))
    directory.id("other", "CompleteCommit", 1, 5)
    (finding,) = audit(directory).findings
    assert (finding.reason, finding.coordinator_epoch) == ("ghost", 6)
    assert (finding.action or "").endswith(f"--producer-id {PID} --producer-epoch 0 --coordinator-epoch 6")


def finding_of(case: Callable[[LogDirectory], None], path: Path, **settings: int) -> Finding:
    directory = LogDirectory(path / "logs")
    case(directory)
    (finding,) = audit(directory, **settings).findings
    return finding


@pytest.mark.slow
@pytest.mark.parametrize(("case", "verdict", "reason"), CASES, ids=[case[0].__name__ for case in CASES])
def test_judges_each_scenario(case: Callable[[LogDirectory], None], verdict: str, reason: str, tmp_path: Path) -> None:
    finding = finding_of(case, tmp_path)
    assert (finding.verdict, finding.reason) == (verdict, reason), finding.evidence
    assert all(sentence.endswith(".") for sentence in finding.evidence)
    assert finding.action is not None
    assert finding.action.startswith("kafkawire txn abort --bootstrap-server HOST:PORT ") == (verdict == "hanging")


def test_a_finding_has_all_fields(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs")
    orders = directory.partition("orders", 2)
    orders.marker("COMMIT", PID, 3, at=OLD - HOUR, coordinator_epoch=6)
    orders.data(PID, 4, at=OLD - MINUTE, records=3)
    orders.data(PID, 4, at=OLD, records=2)
    orders.plain(records=4)
    directory.high_watermark("orders", 2, 9)
    directory.id("pay", "CompleteCommit", PID, 5, at=NOON - HOUR)
    (found,) = audit(directory).findings
    assert found.cause is not None
    assert (replace(found, cause=None, premises=()), found.cause.name) == (
        Finding(
            verdict="hanging",
            reason="transaction_ended",
            blocked=True,
            topic="orders",
            partition=2,
            producer_id=PID,
            producer_epoch=4,
            start_offset=1,
            last_offset=5,
            last_timestamp=OLD,
            age_ms=3 * HOUR,
            coordinator_epoch=6,
            transactional_id="pay",
            coordinator_state="CompleteCommit",
            last_stable_offset=1,
            high_watermark=9,
            evidence=(
                "orders-2: transactional data of producer id 1000, epoch 4, in offsets 1 to 5, and no marker of it up "
                "to the end of the log (10).",
                "Transactional id 'pay' is CompleteCommit, producer id 1000, epoch 5 (__transaction_state-0, offset 1, "
                "2025-06-16 11:00:00 UTC): the transaction has ended.",
                "Its last batch is 3 h old, and the limit is 20 min (transaction.max.timeout.ms 15 min + 5 min grace).",
                "It holds the last stable offset at 1, 8 offsets below the high watermark 9.",
            ),
            action=("kafkawire txn abort --bootstrap-server HOST:PORT --topic orders --partition 2 --start-offset 1"),
            cluster_id="test",
            log_start_offset=0,
            marker_timestamp=OLD - HOUR,
            transaction_last_update_timestamp=NOON - HOUR,
            transaction_start_timestamp=NOON - HOUR,
            transaction_timeout_ms=900_000,
            attention="hanging",
            waits_for="an abort by hand",
            impact=Impact(
                held=OffsetRange(start_offset=1, end_offset=9, records=9, bytes=273),
                released=OffsetRange(start_offset=1, end_offset=9, records=9, bytes=273),
                data=TransactionData(first_offset=1, last_offset=5, records=5, bytes=172),
                unknown=("the topic's settings: no __cluster_metadata was read",),
            ),
        ),
        "partition_never_added",
    )


def test_times_of_what_its_coordinator_holds(tmp_path: Path) -> None:
    began = "It began 2025-06-16 09:00:00 UTC and may take 1 min"
    for case, sentence in (
        (late, f"{began}: the coordinator should have aborted it 2 h 59 min before the clock."),
        (live, "It began 2025-06-16 11:59:00 UTC and may take 15 min."),
        (prepared_long_ago, "It decided ABORT 3 h before the clock, and its marker has not arrived."),
        (live_preparing, "It decided COMMIT 2025-06-16 11:59:59 UTC: the marker is on its way."),
    ):
        assert sentence in finding_of(case, tmp_path / case.__name__).evidence


def test_every_kind_of_case_defines_all_abstract_properties() -> None:
    assert Case.__abstractmethods__ == {
        "log_start", "high_watermark", "last_stable_offset", "last_offset", "id_state", "coordinator_place",
        "leader_place", "data", "coordinator_view", "of_coordinators", "of_held", "of_unheld", "of_partition",
        "too_old", "certainty",
    }  # fmt: skip


def test_only_the_earliest_open_transaction_blocks(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs")
    nothing_known(directory)
    directory.partition(*P).data(PID + 1, at=OLD)
    first, second = audit(directory).findings
    assert (first.blocked, second.blocked) == (True, False)
    assert first.last_stable_offset == second.last_stable_offset == 0
    assert "An earlier transaction holds the last stable offset, at 0." in second.evidence


@pytest.mark.parametrize(("high_watermark", "stable"), [(None, None), (1, 0), (0, 0)])
def test_blocked_depends_on_the_high_watermark(high_watermark: int | None, stable: int | None, tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs")
    nothing_known(directory)
    directory.checkpoints.clear()
    if high_watermark is not None:
        directory.high_watermark(*P, high_watermark)
    (finding,) = audit(directory).findings
    assert finding.last_stable_offset == stable
    assert finding.blocked is (high_watermark != 0)


def test_the_clock_decides_between_young_and_hanging(tmp_path: Path) -> None:
    limit = 20 * MINUTE
    assert finding_of(nothing_known, tmp_path, as_of=OLD + limit).reason == "young"
    assert finding_of(nothing_known, tmp_path, as_of=OLD + limit + 1).verdict == "hanging"


def test_the_limit_follows_the_brokers_maximum_timeout(tmp_path: Path) -> None:
    assert finding_of(nothing_known, tmp_path, max_timeout_ms=4 * HOUR).reason == "young"


def test_reports_a_clients_clock_that_is_behind(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs")
    directory.partition(*P).marker("COMMIT", 77, at=NOON - MINUTE)
    nothing_known(directory)
    (finding,) = audit(directory).findings
    assert finding.verdict == "hanging"
    assert any(sentence.startswith("The client's clock is behind") for sentence in finding.evidence)


def test_reports_a_clients_clock_that_is_ahead(tmp_path: Path) -> None:
    finding = finding_of(from_the_future, tmp_path)
    assert finding.age_ms is None
    why = (
        "Its last batch has the time 2025-06-16 13:00:00 UTC, which does not count: its client's clock is ahead by 1 h."
    )
    assert why in finding.evidence


def test_a_stamp_does_not_count_that_is_after_a_brokers_time_behind_it(tmp_path: Path) -> None:
    """A client's clock was ahead when it wrote; by now its stamp is in the past, and younger than the limit."""
    directory = LogDirectory(tmp_path / "logs")
    old_data(directory, at=NOON - MINUTE)
    directory.partition(*P).marker("COMMIT", 77, at=OLD)
    (finding,) = audit(directory).findings
    assert (finding.verdict, finding.reason, finding.age_ms) == ("hanging", "no_transactional_id", None)
    assert any("its client's clock is ahead by 2 h 59 min" in sentence for sentence in finding.evidence)


def test_hostile_names_are_quoted_in_commands(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs")
    directory.partition("a;reboot $(x)").data(PID, at=OLD)
    directory.id("it's me; rm -rf", "Ongoing", PID, 0, ("a;reboot $(x)", 0), begun=OLD)
    (finding,) = audit(directory).findings
    assert finding.action is not None
    assert finding.action.endswith("""--transactional-id 'it'"'"'s me; rm -rf'""")
    directory.id("it's me; rm -rf", "CompleteCommit", PID, 1)
    (finding,) = audit(directory).findings
    assert finding.action is not None
    assert "--topic 'a;reboot $(x)' --partition 0" in finding.action

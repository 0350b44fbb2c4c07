"""What verdicts on copies rest on: how far each file was read, which replica it is, and whose clock counts."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import PartitionChangeRecord, PartitionRecord, TopicRecord
from kafkawire.records import Record
from kafkawire.rows import Audit, Finding, Premise
from kafkawire.transactions import Settings
from kafkawire.transactions.coordinator.coordinator_copies import SKEW_MS
from kafkawire.transactions.verdict.completeness import outcome
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory

PID = 1000
P = ("orders", 0)
DAY = 24 * HOUR
YEAR = 365 * DAY


def audit(*directories: LogDirectory, **settings: int) -> Audit:
    paths = [directory.write() for directory in directories]
    return transactions.audit(logdir.open(*paths), Settings(**{"transaction_state_partitions": 3, **settings}))


def only(found: Audit) -> Finding:
    (finding,) = found.findings
    return finding


def missing(finding: Finding) -> list[Premise]:
    return [premise for premise in finding.premises if not premise.holds]


@pytest.fixture
def running(tmp_path: Path) -> LogDirectory:
    """A copy that was made, file by file, while the broker ran."""
    return LogDirectory(tmp_path / "logs", stopped=False)


def everywhere(directory: LogDirectory, at: int) -> None:
    """A record in each partition of `__transaction_state`."""
    for name in ("clock-0", "clock-1", "clock-2"):
        directory.id(name, "Empty", 1, 0, at=at)
    assert all(directory.partitions["__transaction_state", number].end for number in range(3))


# Reach ---------------------------------------------------------------------------------------------------------------


def a_late_batch(directory: LogDirectory) -> None:
    """A transaction of version 0 has ended; its producer writes event time."""
    orders = directory.partition(*P)
    orders.data(PID, at=NOON - 3 * DAY)
    orders.marker("COMMIT", PID, at=NOON)
    orders.data(PID, at=NOON - 3 * DAY)
    directory.id("pay", "CompleteCommit", PID, 0, begun=NOON - HOUR, at=NOON + 1, version=0)


def test_a_coordinators_log_that_was_copied_before_the_data_proves_nothing(running: LogDirectory) -> None:
    """The id may have begun its next transaction since: it has the same epoch."""
    a_late_batch(running)
    running.partition("payments").marker("COMMIT", 77, at=NOON + 10 * MINUTE)
    found = audit(running)
    assert (only(found).verdict, outcome(found).found, outcome(found).complete) == ("unknown", False, False)
    (premise,) = missing(only(found))
    assert premise.name == "reach"
    assert str(premise.source).endswith("/__transaction_state-0: offset 1")
    assert premise.needs is not None
    assert premise.needs.startswith("copy __transaction_state-0 again, after the data")
    assert premise.what in only(found).evidence


@pytest.mark.parametrize(("after", "verdict"), [(0, "unknown"), (SKEW_MS, "unknown"), (SKEW_MS + 1, "hanging")])
def test_a_later_stamp_in_the_partition_and_a_later_record_prove_it(
    running: LogDirectory, after: int, verdict: str
) -> None:
    """By the stamp behind it the data was in the log, and the coordinator's partition has a record of later."""
    a_late_batch(running)
    running.partition(*P).marker("COMMIT", 77, at=NOON + MINUTE)
    running.id("pay", "CompleteCommit", PID, 0, begun=NOON - HOUR, at=NOON + 1, version=0)
    running.partition("__transaction_state", 0).plain(at=NOON + MINUTE + after)
    assert only(audit(running)).verdict == verdict


def test_a_record_in_another_partition_of_the_coordinators_log_proves_nothing(running: LogDirectory) -> None:
    a_late_batch(running)
    running.partition(*P).marker("COMMIT", 77, at=NOON + MINUTE)
    for number in (1, 2):
        running.partition("__transaction_state", number).plain(at=NOON + HOUR)
    assert only(audit(running)).verdict == "unknown"
    running.partition("__transaction_state", 0).plain(at=NOON + HOUR)
    assert only(audit(running)).verdict == "hanging"


def test_append_time_of_the_batch_itself_is_a_stamp(running: LogDirectory) -> None:
    orders = running.partition(*P)
    orders.data(PID, at=NOON - 3 * DAY, append_time=NOON)
    everywhere(running, NOON + HOUR)
    found = only(audit(running))
    assert (found.verdict, found.reason, found.blocked_since) == ("hanging", "no_transactional_id", NOON)


def test_a_clients_stamp_does_not_show_when_the_data_was_written(running: LogDirectory) -> None:
    """Event time of three days ago, and a coordinator's log of an hour ago: the batch may have been written since."""
    running.partition(*P).data(PID, at=NOON - 3 * DAY)
    everywhere(running, NOON)
    found = only(audit(running))
    assert (found.verdict, {premise.name for premise in missing(found)}) == ("unknown", {"reach"})
    assert "Nothing that a broker wrote follows its data" in missing(found)[0].what


def test_that_no_id_is_known_needs_every_partition_to_be_read_past_the_data(running: LogDirectory) -> None:
    orders = running.partition(*P)
    orders.data(PID, at=NOON - HOUR)
    orders.marker("COMMIT", 77, at=NOON)
    everywhere(running, NOON + HOUR)
    assert only(audit(running)).verdict == "hanging"
    running.partitions["__transaction_state", 1].segments = [(0, bytearray())]
    found = only(audit(running))
    assert (found.verdict, [premise.name for premise in missing(found)]) == ("unknown", ["reach"])


def test_a_coordinators_log_of_which_nothing_was_read_was_not_read_past_the_data(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    logs.partition(*P).data(PID, at=NOON - HOUR)
    logs.partition(*P).marker("COMMIT", 77, at=NOON)
    found = only(audit(logs))
    assert found.verdict == "unknown"
    held = [premise.what for premise in found.premises if premise.holds]
    assert not [what for what in held if "__transaction_state" in what]
    assert [one.needs for one in missing(found) if one.what.startswith("No partition of __transaction_state was read")]


def test_a_damaged_partition_of_the_coordinators_log_may_hold_the_id(tmp_path: Path) -> None:
    """No id is known, and the directory is of one moment: only that every record of ids was read shows that there is
    none."""
    directory = LogDirectory(tmp_path / "logs")
    directory.partition(*P).data(PID, at=NOON - HOUR)
    for _ in range(2):
        everywhere(directory, NOON)
    assert only(audit(directory)).verdict == "hanging"
    ((_, data),) = directory.partition("__transaction_state", 1).segments
    data[len(data) // 2 - 1] ^= 1  # the end of the first of two batches
    found = only(audit(directory))
    assert (found.verdict, [premise.name for premise in missing(found)]) == ("unknown", ["soundness"])
    assert missing(found)[0].what == "__transaction_state is damaged in partitions 1: its id may be lost."


@pytest.mark.parametrize(("more", "verdict"), [(-1, "hanging"), (0, "unknown")])
def test_an_id_may_have_expired_between_two_copies(running: LogDirectory, more: int, verdict: str) -> None:
    """The coordinator's log was copied so much later that its id may have ended the transaction and be forgotten."""
    orders = running.partition(*P)
    orders.data(PID, at=NOON - HOUR)
    orders.marker("COMMIT", 77, at=NOON)
    everywhere(running, NOON + HOUR + more)
    found = only(audit(running, transactional_id_expiration_ms=HOUR))
    assert found.verdict == verdict
    assert ["its id may have ended the transaction and expired since" in one.what for one in missing(found)] == (
        [True] if verdict == "unknown" else []
    )


@pytest.mark.parametrize(("hours", "verdict"), [(24, "hanging"), (25, "unknown")])
def test_a_clock_that_may_be_behind_does_not_show_what_was_copied_later(
    running: LogDirectory, hours: int, verdict: str
) -> None:
    """All others wrote more than a day after the newest time of this partition: by its clock that may be before it."""
    orders = running.partition(*P)
    orders.data(PID, at=NOON - 30 * HOUR)
    orders.marker("COMMIT", 77, at=NOON - hours * HOUR)
    everywhere(running, NOON)
    found = only(audit(running))
    assert found.verdict == verdict
    if verdict == "unknown":
        assert any("are not compared with that" in premise.what for premise in missing(found))


def test_a_higher_epoch_of_the_id_needs_no_clock(running: LogDirectory) -> None:
    """The partition was read past the end that the coordinator recorded; the batch came after it."""
    orders = running.partition(*P)
    orders.data(PID, 0, at=NOON - DAY)
    running.id("pay", "CompleteCommit", PID, 1, at=NOON)
    assert only(audit(running)).verdict == "unknown"
    orders.marker("COMMIT", 77, at=NOON + HOUR)
    assert only(audit(running)).verdict == "hanging"


def test_a_log_that_ends_below_its_high_watermark_may_lack_the_marker(running: LogDirectory) -> None:
    """The checkpoint was copied later than the log."""
    orders = running.partition(*P)
    orders.data(PID, 0, at=NOON - DAY)
    running.id("pay", "CompleteCommit", PID, 1, at=NOON)
    orders.marker("COMMIT", 77, at=NOON + HOUR)
    running.high_watermark(*P, orders.end + 1)
    found = only(audit(running))
    assert (found.verdict, [premise.name for premise in missing(found)]) == ("unknown", ["reach"])


def test_a_cleanly_stopped_directory_is_one_moment(running: LogDirectory) -> None:
    a_late_batch(running)
    assert only(audit(running)).verdict == "unknown"
    running.stopped = True
    assert only(audit(running)).verdict == "hanging"


@pytest.mark.parametrize(("lost", "verdict"), [(0, "hanging"), (1, "unknown")])
def test_a_coordinators_log_below_its_high_watermark_is_not_as_its_broker_left_it(
    running: LogDirectory, lost: int, verdict: str
) -> None:
    """The record that it lacks may hold the transaction, though the directory was stopped cleanly."""
    a_late_batch(running)
    running.stopped = True
    coordinators = ((key, log) for key, log in running.partitions.items() if key[0] == "__transaction_state")
    for (topic, number), log in [*coordinators]:
        running.high_watermark(topic, number, log.end + lost)
    found = audit(running)
    assert (only(found).verdict, bool(found.read.gaps)) == (verdict, bool(lost))
    assert [premise.name for premise in missing(only(found))] == ["reach"] * lost


@pytest.mark.parametrize("checkpoint", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
def test_a_coordinators_log_that_was_copied_again_is_not_of_the_moment_of_the_rest(
    tmp_path: Path, checkpoint: str
) -> None:
    """The broker was started again, and its transaction ended: the directory's copy is older than that."""
    directory = LogDirectory(tmp_path / "logs")
    directory.partition(*P).data(PID, at=NOON)
    everywhere(directory, NOON + MINUTE)
    directory.id("pay", "Ongoing", PID, 0, P, at=NOON, version=0)
    for (topic, number), log in [*directory.partitions.items()]:
        directory.checkpoint(checkpoint, topic, number, log.end)
    assert only(audit(directory)).reason == "live"
    directory.id("pay", "CompleteCommit", PID, 0, begun=NOON, at=NOON + 2 * MINUTE, version=0)
    everywhere(directory, NOON + DAY)
    found = only(audit(directory))
    assert (found.verdict, {premise.name for premise in missing(found)}) == ("unknown", {"reach"})
    cleanly = "or copy the directory of a broker that was stopped cleanly"
    assert f"copy orders-0 again, after the coordinator's log; {cleanly}" in [one.needs for one in missing(found)]


def test_a_partition_that_was_copied_again_is_not_of_the_moment_of_the_coordinators_log(tmp_path: Path) -> None:
    """With the high watermark of then: its transaction was registered after the copy of the rest."""
    directory = LogDirectory(tmp_path / "logs")
    directory.partition(*P).plain(at=NOON)
    everywhere(directory, NOON)
    for (topic, number), log in [*directory.partitions.items()]:
        directory.checkpoint("recovery-point-offset-checkpoint", topic, number, log.end)
    directory.partition(*P).data(PID, at=NOON - DAY)
    directory.high_watermark(*P, directory.partition(*P).end)
    found = only(audit(directory))
    assert (found.verdict, {premise.name for premise in missing(found)}) == ("unknown", {"reach"})
    directory.checkpoint("recovery-point-offset-checkpoint", *P, directory.partition(*P).end)
    assert only(audit(directory)).verdict == "hanging"


def test_directories_that_were_stopped_at_different_times_are_not_one_moment(tmp_path: Path) -> None:
    one = LogDirectory(tmp_path / "one", ids=0)
    one.partition(*P).data(PID, at=NOON - HOUR)
    other = LogDirectory(tmp_path / "other")
    everywhere(other, NOON)
    one.write()
    other.write()
    (other.root / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=test\n")
    found = transactions.audit(logdir.open(tmp_path), Settings(transaction_state_partitions=3))
    assert only(found).verdict == "unknown"


@pytest.mark.parametrize(("minutes", "verdict"), [(10, "unknown"), (11, "hanging")])
def test_a_broker_that_was_stopped_after_that_of_the_data_has_what_came_after_it(
    tmp_path: Path, minutes: int, verdict: str
) -> None:
    """The metadata log of a broker goes on until it is stopped."""
    one = LogDirectory(tmp_path / "one", ids=0)
    one.partition(*P).data(PID, at=NOON - HOUR)
    control(one, (2, TopicRecord(name="orders", topic_id=TOPIC).encode(version=0)))
    other = LogDirectory(tmp_path / "other")
    everywhere(other, NOON - DAY)
    control(other, (2, TopicRecord(name="orders", topic_id=TOPIC).encode(version=0)), at=NOON + MINUTE * minutes)
    one.write()
    other.write()
    (other.root / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=test\n")
    found = transactions.audit(logdir.open(tmp_path), Settings(transaction_state_partitions=3))
    assert only(found).verdict == verdict, missing(only(found))


def test_a_record_of_an_earlier_transaction_of_the_epoch_does_not_make_it_live(running: LogDirectory) -> None:
    """Below version 2 the copy of the record may be older than the marker, which is here."""
    orders = running.partition(*P)
    orders.data(PID, at=NOON)
    orders.marker("COMMIT", PID, at=NOON + MINUTE)
    orders.data(PID, at=NOON + 2 * MINUTE)
    running.id("pay", "Ongoing", PID, 0, P, at=NOON, version=0)
    assert only(audit(running)).verdict == "unknown"
    running.id("pay", "Ongoing", PID, 0, P, at=NOON + 2 * MINUTE, version=0)
    assert only(audit(running)).reason == "live"


def test_a_prepare_is_stuck_only_where_both_copies_show_that_it_lasted(running: LogDirectory) -> None:
    running.partition(*P).data(PID, at=NOON)
    running.id("pay", "PrepareCommit", PID, 1, P, at=NOON)
    running.partition("payments").marker("COMMIT", 77, at=NOON + DAY)
    assert only(audit(running)).reason == "live"
    running.stopped = True
    assert only(audit(running)).reason == "stuck_prepare"


@pytest.mark.parametrize(("epoch", "verdict", "attention"), [(0, "not_hanging", "blocked"), (1, "unknown", None)])
def test_a_prepare_is_of_the_transaction_whose_epoch_it_raised(
    running: LogDirectory, epoch: int, verdict: str, attention: str | None
) -> None:
    """Data of its own epoch is of the next transaction, which began later."""
    running.partition(*P).data(PID, epoch, at=NOON)
    running.id("pay", "PrepareAbort", PID, 1, P, begun=NOON - HOUR, at=NOON)
    found = only(audit(running))
    assert (found.verdict, found.attention) == (verdict, attention)


def test_a_marker_above_an_old_high_watermark_hides_nothing_that_blocks(running: LogDirectory) -> None:
    """The checkpoint of a running broker is older than its logs: the earlier transaction has ended."""
    orders = running.partition(*P)
    orders.data(7, at=NOON)
    orders.marker("COMMIT", 7, at=NOON)
    orders.data(PID, at=NOON)
    running.high_watermark(*P, 0)
    running.id("pay", "Ongoing", PID, 0, P, at=NOON)
    running.id("pay", "Ongoing", PID, 0, P, ("orders", 1), begun=NOON, at=NOON + 6 * MINUTE)
    assert only(audit(running)).attention == "blocked"


# Time ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stamp", "why"),
    [
        (NOON + 2 * HOUR, "its client's clock is ahead by 2 h"),
        (NOON * 1000, "its client stamps in microseconds"),
        (NOON * 1_000_000, "its client stamps in nanoseconds"),
        (NOON // 1000, "its client stamps in seconds"),
        (NOON - 30 * YEAR, "its client's clock is behind by"),
        (2**63 - 1, "its client's clock is ahead by"),
        (-1, "its batches carry no time"),
    ],
)
@pytest.mark.parametrize("stopped", [True, False])
def test_an_implausible_stamp_is_reported_and_never_used(tmp_path: Path, stamp: int, why: str, stopped: bool) -> None:
    directory = LogDirectory(tmp_path / "logs", stopped=stopped)
    directory.partition(*P).data(PID, at=stamp)
    everywhere(directory, NOON)
    found = audit(directory)
    assert (found.as_of, only(found).age_ms) == (NOON, None)
    assert only(found).verdict == ("hanging" if stopped else "unknown")
    (premise,) = [premise for premise in only(found).premises if premise.name == "time"]
    assert why in premise.what


def test_a_marker_just_before_an_implausible_stamp_makes_it_young(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs")
    directory.partition(*P).marker("COMMIT", 77, at=NOON - MINUTE)
    directory.partition(*P).data(PID, at=2**62)
    everywhere(directory, NOON)
    found = only(audit(directory))
    assert (found.reason, found.blocked_until) == ("young", NOON + 19 * MINUTE)


@pytest.mark.parametrize("topic", ["orders", "__transaction_state"])
def test_one_time_far_from_all_others_is_no_clock(tmp_path: Path, topic: str) -> None:
    """It makes nothing late, and nothing stuck."""
    directory = LogDirectory(tmp_path / "logs")
    directory.partition("payments").data(PID, at=NOON)
    directory.id("pay", "Ongoing", PID, 0, ("payments", 0), at=NOON)
    everywhere(directory, NOON)
    if topic == "orders":
        directory.partition("orders").marker("COMMIT", 77, at=NOON + YEAR)
    else:
        directory.id("clock-1", "Empty", 1, 0, at=NOON + YEAR)
    found = audit(directory)
    assert (found.as_of, only(found).reason) == (NOON, "live")
    assert found.read.clock is not None
    assert "2026-06-16 12:00:00 UTC in " in found.read.clock
    assert found.read.clock.endswith("is far from all others, and does not count")


def test_times_of_a_broker_that_may_be_behind_make_nothing_late_or_stuck(tmp_path: Path) -> None:
    """Its coordinator's newest time is 26 hours before that of others, which the metadata log names as its leader."""
    directory = LogDirectory(tmp_path / "logs")
    directory.partition("orders").data(PID, at=NOON)
    directory.partition("payments").data(8, at=NOON)
    directory.id("pay", "Ongoing", PID, 0, ("orders", 0), at=NOON - 26 * HOUR)
    directory.id("pay", "PrepareCommit", PID, 1, ("orders", 0), at=NOON - 26 * HOUR)
    directory.id("buy", "Ongoing", 8, 0, ("payments", 0), at=NOON - 26 * HOUR)
    directory.partition("others").marker("COMMIT", 77, at=NOON)
    directory.partition("others", 1).marker("COMMIT", 77, at=NOON)
    found = audit(directory)
    assert {finding.topic: (finding.reason, finding.attention) for finding in found.findings} == {
        "orders": ("live", None),
        "payments": ("live", None),
    }
    assert [violation.check for violation in found.violations] == []
    assert not outcome(found).complete


# Place ---------------------------------------------------------------------------------------------------------------

TOPIC = UUID(int=9)


def control(directory: LogDirectory, *bodies: tuple[int, bytes], at: int = NOON) -> None:
    log = directory.partition("__cluster_metadata")
    for api_key, body in bodies:
        log.records([Record(value=bytes((1, api_key, 0)) + body, timestamp=at)])


def led_by(directory: LogDirectory, *leaders: int) -> None:
    """The metadata log names the leaders of orders-0, one after the other."""
    first = PartitionRecord(
        topic_id=TOPIC,
        partition_id=0,
        replicas=(1, 2),
        isr=(1, 2),
        leader=leaders[0],
        leader_epoch=0,
        partition_epoch=0,
    )
    control(
        directory,
        (2, TopicRecord(name="orders", topic_id=TOPIC).encode(version=0)),
        (3, first.encode(version=0)),
        *(
            (5, PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=one).encode(version=0))
            for one in leaders[1:]
        ),
    )


@pytest.mark.parametrize(
    ("leaders", "verdict"), [((1,), "hanging"), ((2, 1), "hanging"), ((1, -1), "hanging"), ((1, 2), "unknown")]
)
def test_a_follower_whose_leader_was_not_read_proves_nothing(
    tmp_path: Path, leaders: tuple[int, ...], verdict: str
) -> None:
    """The directory's own metadata log names broker 2 as leader: its replica may have the marker."""
    directory = LogDirectory(tmp_path / "logs")
    directory.partition(*P).data(PID, at=NOON - HOUR)
    everywhere(directory, NOON)
    led_by(directory, *leaders)
    found = only(audit(directory))
    assert found.verdict == verdict
    if verdict == "unknown":
        (premise,) = missing(found)
        assert (premise.name, premise.needs) == ("place", "give the log directory of broker 2")
        assert "Broker 2 leads orders-0 (leader epoch 1)" in premise.what


def test_the_leaders_replica_removes_the_doubt(tmp_path: Path) -> None:
    follower = LogDirectory(tmp_path / "one")
    follower.partition(*P).data(PID, at=NOON - HOUR)
    everywhere(follower, NOON)
    led_by(follower, 1, 2)
    follower.write()
    leader = LogDirectory(tmp_path / "two")
    leader.partition(*P).data(PID, at=NOON - HOUR)
    everywhere(leader, NOON)
    leader.write()
    (leader.root / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=test\n")
    for root in (tmp_path / "one", tmp_path):
        found = transactions.audit(logdir.open(root), Settings(transaction_state_partitions=3))
        assert only(found).verdict == ("hanging" if root == tmp_path else "unknown")

"""The cause of each finding, on log directories with its evidence; with other releases or settings it is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from kafkawire.records import Record
from kafkawire.rows import Cause, Finding
from kafkawire.transactions import Settings
from kafkawire.transactions.cluster.cluster_traits import VERIFICATION
from kafkawire.transactions.verdict.known_defects import CONSISTENT, FINGERPRINTS, PROVEN, UNKNOWN, described
from kafkawire.transactions.verdict.verdicts import REASONS
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory

OLD = NOON - 3 * HOUR
P = ("orders", 0)
PID = 1000
DOCS = Path(__file__).parents[2] / "docs" / "transactions.md"


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    made = LogDirectory(tmp_path / "logs")
    made.id("other", "CompleteCommit", 1, 5, at=NOON)  # the coordinator's log has records after the data
    return made


def judged(*directories: LogDirectory) -> Finding:
    for one in directories:
        one.high_watermark(*P, one.partition(*P).end)
    paths = [one.write() for one in directories]
    settings = Settings(transaction_state_partitions=directories[0].ids, as_of=NOON)
    (found,) = transactions.audit(logdir.open(*paths), settings).findings
    return found


def cause(*directories: LogDirectory) -> tuple[str, str]:
    found = judged(*directories).cause
    assert found is not None
    return found.name, found.certainty


def metadata(logs: LogDirectory, *records: ConfigRecord | FeatureLevelRecord | ProducerIdsRecord) -> None:
    log = logs.partition("__cluster_metadata")
    for record in records:
        body = bytes((1, record.spec.api_key or 0, 0)) + record.encode(version=0)
        log.records([Record(value=body, timestamp=NOON)])


def verification(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=VERIFICATION, value=value)


def level(name: str, number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=number)


def handed_out(number: int) -> ProducerIdsRecord:
    return ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=number)


# A batch in no transaction --------------------------------------------------------------------------------------------


def late_data(logs: LogDirectory, version: int = 0) -> None:
    """A batch of a transaction that has ended, behind its marker."""
    orders = logs.partition(*P)
    orders.data(PID, at=OLD)
    orders.marker("COMMIT", PID, version // 2, at=OLD)
    orders.data(PID, at=OLD)
    logs.id("pay", "CompleteCommit", PID, version // 2, at=OLD, version=version)


@pytest.mark.parametrize(
    ("records", "certainty"),
    [
        ((), CONSISTENT),
        ((level("metadata.version", 25),), CONSISTENT),  # a release that can verify, and no word on the setting
        ((verification("false"),), PROVEN),
    ],
)
def test_late_data_behind_a_marker(
    logs: LogDirectory, records: tuple[ConfigRecord | FeatureLevelRecord, ...], certainty: str
) -> None:
    late_data(logs)
    metadata(logs, *records)
    assert cause(logs) == ("late_data_after_marker", certainty)


def test_a_leader_that_verifies_takes_no_late_data(logs: LogDirectory) -> None:
    late_data(logs)
    metadata(logs, verification("true"))
    found = judged(logs).cause
    assert found is not None
    assert (found.name, found.certainty, found.issues) == ("unknown", UNKNOWN, ())
    assert "verification was switched on later" in found.evidence[0]


def test_a_partition_that_was_never_added(logs: LogDirectory) -> None:
    logs.partition(*P).data(PID, at=OLD)
    logs.id("pay", "Ongoing", PID, 0, ("payments", 1), at=OLD, version=0)
    assert judged(logs).reason == "partition_not_in_transaction"
    assert cause(logs) == ("partition_never_added", CONSISTENT)
    metadata(logs, verification("false"))
    assert cause(logs) == ("partition_never_added", PROVEN)


def test_an_ended_transaction_may_have_had_the_partition(logs: LogDirectory) -> None:
    """Its record does not name its partitions any more: an unclean election may have lost the marker."""
    logs.partition(*P).data(PID, at=OLD)
    logs.id("pay", "CompleteCommit", PID, 0, at=OLD, version=0)
    metadata(logs, verification("false"))
    assert cause(logs) == ("partition_never_added", CONSISTENT)


def test_a_marker_that_only_another_replica_has(logs: LogDirectory, tmp_path: Path) -> None:
    """An unclean election: the replica that lacks the marker leads, and the other is not truncated yet."""
    orders = logs.partition(*P)
    orders.leader_epoch = 1
    orders.data(PID, at=OLD)
    orders.leader_epoch = 2
    orders.plain(at=OLD)
    logs.id("pay", "CompleteCommit", PID, 0, at=OLD, version=0)
    metadata(logs, verification("true"))
    assert cause(logs) == ("unknown", UNKNOWN)
    other = LogDirectory(tmp_path / "other", ids=0)
    behind = other.partition(*P)
    behind.leader_epoch = 1
    behind.data(PID, at=OLD)
    assert cause(logs, other) == ("unknown", UNKNOWN)  # a follower that is behind
    behind.marker("COMMIT", PID, at=OLD)
    found = judged(logs, other).cause
    assert found is not None
    assert (found.name, found.certainty, found.issues) == ("marker_lost", PROVEN, ("KAFKA-20716",))
    assert "leader epoch 1" in found.evidence[0]
    action = judged(logs, other).action or ""  # an abort would hide what was committed
    assert action.startswith("none before its marker in the other replica was looked at: where that is no COMMIT, ")


@pytest.mark.parametrize(
    ("epochs", "found"), [("0\n2\n1 0\n2 1\n", True), ("0\n1\n1 0\n", False), ("0\n1\n2 9\n", False)]
)
def test_a_leader_without_the_marker_counts_before_it_wrote_anything(
    logs: LogDirectory, tmp_path: Path, epochs: str, found: bool
) -> None:
    """An unclean election, after which nothing was written: only `leader-epoch-checkpoint` shows the new leader. An
    epoch that begins after the copy's end is of a later moment than the copy (4.4.0: the old leader, killed, was longer
    and counted, so that the transaction was not found)."""
    logs.partition(*P).leader_epoch = 1
    logs.partition(*P).data(PID, at=OLD)
    logs.id("pay", "CompleteCommit", PID, 0, at=OLD, version=0)
    old_leader = LogDirectory(tmp_path / "old-leader", ids=0)
    old_leader.partition(*P).leader_epoch = 1
    old_leader.partition(*P).data(PID, at=OLD)
    old_leader.partition(*P).marker("COMMIT", PID, at=OLD)
    paths = []
    for one in (logs, old_leader):
        one.high_watermark(*P, one.partition(*P).end)
        paths.append(one.write())
    (logs.partition(*P).directory / "leader-epoch-checkpoint").write_text(epochs)
    settings = Settings(transaction_state_partitions=logs.ids, as_of=NOON)
    audit = transactions.audit(logdir.open(*paths), settings)
    opened = [(one.start_offset, one.cause and one.cause.name) for one in audit.findings]
    assert opened == ([(0, "marker_lost")] if found else [])
    assert not any("ends at offset" in gap for gap in audit.read.gaps)


# No id ----------------------------------------------------------------------------------------------------------------


def test_an_id_that_has_expired(logs: LogDirectory) -> None:
    logs.partition(*P).data(PID, at=OLD)
    logs.id("pay", "CompleteCommit", PID, 1, at=OLD - HOUR)
    logs.id("pay", None)
    assert cause(logs) == ("transactional_id_expired", PROVEN)


def test_a_producer_id_that_was_never_handed_out(logs: LogDirectory) -> None:
    logs.partition(*P).data(PID, at=OLD)
    metadata(logs, handed_out(PID))
    assert cause(logs) == ("producer_id_never_assigned", PROVEN)


@pytest.mark.parametrize(
    ("days", "expected"),
    [(1, ("coordinator_log_lost", CONSISTENT)), (8, ("transactional_id_expired", CONSISTENT))],
)
def test_no_record_of_an_id_that_cannot_have_expired(logs: LogDirectory, days: int, expected: tuple[str, str]) -> None:
    logs.partition(*P).data(PID, at=NOON - days * 24 * HOUR)
    metadata(logs, handed_out(PID + 1000))
    assert cause(logs) == expected


def test_without_the_metadata_log_a_lost_record_is_a_guess(logs: LogDirectory) -> None:
    logs.partition(*P).data(PID, at=OLD)
    assert cause(logs) == ("coordinator_log_lost", UNKNOWN)


# Prepare that does not complete ---------------------------------------------------------------------------------------


def prepared(logs: LogDirectory, epoch: int = 0, version: int = 0, marker_epoch: int = 0) -> None:
    orders = logs.partition(*P)
    orders.marker("ABORT", PID, epoch, at=OLD, coordinator_epoch=marker_epoch)
    orders.data(PID, epoch, at=OLD)
    logs.id("pay", "PrepareCommit", PID, epoch + version // 2, P, at=OLD, version=version)


def elect(logs: LogDirectory, epoch: int) -> None:
    """A new leader of the id's partition of `__transaction_state`, and a record of it."""
    logs.id_log("pay").leader_epoch = epoch
    name = next(f"id-{n}" for n in range(100) if logs.id_log(f"id-{n}") is logs.id_log("pay"))
    logs.id(name, "CompleteCommit", 2, 0, at=NOON)


def test_a_coordinator_epoch_from_the_future(logs: LogDirectory) -> None:
    prepared(logs, marker_epoch=1_000_000)
    assert judged(logs).reason == "stuck_prepare"
    assert cause(logs) == ("coordinator_epoch_from_the_future", PROVEN)


def test_a_coordinator_that_moved_with_markers_outstanding(logs: LogDirectory) -> None:
    prepared(logs)
    elect(logs, 3)
    found = judged(logs).cause
    assert found is not None
    assert (found.name, found.certainty, found.issues) == ("coordinator_moved", CONSISTENT, ("KAFKA-16352",))
    assert "epoch 0, and the epoch is 3 now" in found.evidence[0]


def test_a_decision_whose_epoch_is_not_known_may_be_of_a_coordinator_that_moved(logs: LogDirectory) -> None:
    logs.id_log("pay").leader_epoch = -1
    prepared(logs)
    elect(logs, 3)
    assert cause(logs) == ("coordinator_moved", UNKNOWN)


def test_a_coordinator_that_did_not_move_is_another_cause(logs: LogDirectory) -> None:
    prepared(logs)
    assert cause(logs) == ("unknown", UNKNOWN)


@pytest.mark.parametrize(("metadata_version", "name"), [(19, "coordinator_moved"), (20, "unknown")])
def test_a_release_with_the_fix_does_not_match(logs: LogDirectory, metadata_version: int, name: str) -> None:
    """KAFKA-16352 is fixed in 3.8.0, whose metadata.version is 20."""
    prepared(logs)
    elect(logs, 3)
    metadata(logs, level("metadata.version", metadata_version))
    assert cause(logs)[0] == name


def test_an_exhausted_producer_epoch_below_version_2(logs: LogDirectory) -> None:
    prepared(logs, 32_766)
    assert cause(logs) == ("unknown", UNKNOWN)


@pytest.mark.parametrize(
    ("levels", "name"),
    [
        ({}, "producer_epoch_exhausted"),
        ({"transaction.version": 0}, "unknown"),  # no transaction raises the epoch, whatever the record
        ({"transaction.version": 2, "metadata.version": 29}, "producer_epoch_exhausted"),  # 4.2
        ({"transaction.version": 2, "metadata.version": 30}, "unknown"),  # 4.3 has the fix
    ],
)
def test_an_exhausted_producer_epoch(logs: LogDirectory, levels: dict[str, int], name: str) -> None:
    prepared(logs, 32_766, version=2)
    metadata(logs, *(level(feature, number) for feature, number in levels.items()))
    assert cause(logs)[0] == name


def test_a_late_transaction_with_an_exhausted_epoch(logs: LogDirectory) -> None:
    logs.partition(*P).data(PID, 32_766, at=OLD)
    logs.id("pay", "Ongoing", PID, 32_766, P, at=OLD, timeout=MINUTE)
    assert judged(logs).reason == "late"
    assert cause(logs) == ("producer_epoch_exhausted", CONSISTENT)


def test_data_of_another_epoch_is_not_held_by_an_exhausted_one(logs: LogDirectory) -> None:
    logs.partition(*P).data(PID, 5, at=OLD)
    logs.id("pay", "Ongoing", PID, 32_767, P, at=OLD, timeout=MINUTE)
    metadata(logs, level("transaction.version", 2))
    assert judged(logs).reason == "epoch_bumped"
    assert cause(logs)[0] != "producer_epoch_exhausted"


def test_a_fenced_epoch_that_is_the_last(logs: LogDirectory) -> None:
    """KAFKA-19367: the coordinator has raised the epoch in memory, and fails to write the abort."""
    logs.partition(*P).data(PID, 32_766, at=OLD)
    logs.id("pay", "Ongoing", PID, 32_767, P, at=OLD, timeout=MINUTE)
    metadata(logs, level("transaction.version", 2))
    assert judged(logs).reason == "epoch_bumped"
    assert cause(logs) == ("producer_epoch_exhausted", CONSISTENT)


def test_a_live_transaction_has_no_cause(logs: LogDirectory) -> None:
    logs.partition(*P).data(PID, at=NOON)
    logs.id("pay", "Ongoing", PID, 0, P, at=NOON)
    found = judged(logs)
    assert (found.reason, found.cause) == ("live", None)


# The table ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fingerprint", FINGERPRINTS, ids=lambda one: one.name)
def test_each_fingerprint_is_for_reasons_that_exist_and_is_documented(fingerprint: object) -> None:
    assert fingerprint in FINGERPRINTS
    one = next(each for each in FINGERPRINTS if each is fingerprint)
    assert set(one.reasons) <= {reason for _, reason in REASONS}
    row = next(line for line in DOCS.read_text("utf-8").splitlines() if line.startswith(f"| `{one.name}`"))
    assert all(issue in row for issue in one.issues)


def test_sentences_name_issue_releases_and_remedy() -> None:
    assert described(None) == []
    assert described(Cause(name="unknown", certainty=UNKNOWN, evidence=("why",))) == ["Cause: unknown.", "why"]
    made = Cause(
        name="marker_lost", certainty=PROVEN, issues=("KAFKA-1",), affected="all", fixed="9.9", evidence=("seen",),
        remedy="do this",
    )  # fmt: skip
    assert described(made) == [
        "Cause: marker_lost (proven; KAFKA-1).", "seen", "Affected: all.", "Fixed in: 9.9.", "To prevent it: do this."
    ]  # fmt: skip

"""Logs that become shorter while the audit reads them: what was lost proves nothing, whichever engine reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from kafkawire.transactions.auditing import local_audit, replica_workers
from kafkawire.transactions.auditing.audit_result import conclude
from kafkawire.transactions.auditing.local_audit import cluster_ids, facts_of, to_read
from kafkawire.transactions.auditing.replica_facts import ReplicaMerge, parts_of
from kafkawire.transactions.cluster.cluster_metadata import read_metadata
from kafkawire.transactions.parts.part_columns import decode, encode
from kafkawire.transactions.parts.replica_files import replicas
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory, PartitionLog, open_entry
from tests.shortened import cut_when_read

OLD = NOON - 3 * HOUR


def local(path: str, settings: Settings) -> Audit:
    return transactions.audit(logdir.open(path), settings, paths=(path,))


def as_tasks(path: str, settings: Settings) -> Audit:
    """What the tasks of the Spark engine do, in this process: parts go from one to the other as bytes."""
    directory = logdir.open(path)
    audited = replicas(directory)
    metadata = read_metadata(audited)
    found = []
    for replica in to_read(audited, settings, metadata, cluster_ids(directory)):
        merge = ReplicaMerge(replica)
        for segment, task in parts_of(replica):
            merge.take(segment, decode(encode(task.read())))
        found.append(merge.facts())
    return conclude(facts_of(directory, found, metadata, paths=(path,)), settings)


Engine = Callable[[str, Settings], Audit]


def in_threads(path: str, settings: Settings) -> Audit:
    return transactions.audit(logdir.open(path), settings, paths=(path,), jobs=2)


@pytest.fixture(params=[local, in_threads, as_tasks])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(local_audit, "BYTES_A_JOB", 1)
    monkeypatch.setattr(replica_workers, "PART_BYTES", 80)
    found: Engine = request.param
    return found


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "logs")


def size(log: PartitionLog) -> int:
    return len(log.segments[-1][1])


def log_of(log: PartitionLog) -> Path:
    return log.directory / f"{log.segments[-1][0]:020}.log"


def cut_audit(engine: Engine, logs: LogDirectory, log: PartitionLog, at: int, patch: pytest.MonkeyPatch) -> Audit:
    """The audit, in which the log ends at that byte when it is read."""
    path = logs.write()
    cut_when_read(patch, log_of(log), at)
    audit = engine(path, Settings(transaction_state_partitions=logs.ids))
    (damage,) = audit.damage
    assert (damage.file, damage.reason, damage.harmless) == (str(log_of(log)), "truncated", False)
    assert damage.detail is not None
    assert damage.detail.endswith(f"ended at {at}, was {size(log)} when opened")
    return audit


def verdicts(audit: Audit) -> list[tuple[str, str]]:
    return [(finding.verdict, finding.reason) for finding in audit.findings]


UNKNOWN = [("unknown", "coverage_incomplete")]


@pytest.mark.parametrize("torn", [0, 20])
def test_a_transaction_whose_marker_is_lost_is_unknown(
    engine: Engine, logs: LogDirectory, monkeypatch: pytest.MonkeyPatch, torn: int
) -> None:
    orders = logs.partition("orders")
    orders.data(1, at=OLD)
    end = size(orders)
    orders.marker("COMMIT", 1, at=OLD)
    logs.id("pay", "CompleteCommit", 1, 1, at=NOON)
    assert verdicts(engine(logs.write(), Settings(transaction_state_partitions=logs.ids))) == []
    assert verdicts(cut_audit(engine, logs, orders, end + torn, monkeypatch)) == UNKNOWN


@pytest.mark.parametrize("torn", [0, 20])
@pytest.mark.parametrize("known", [False, True])
def test_a_transaction_whose_coordinators_record_is_lost_is_unknown(
    engine: Engine, logs: LogDirectory, monkeypatch: pytest.MonkeyPatch, torn: int, known: bool
) -> None:
    """Whether an older record of the id shows that it ended, or none is left of the id: other partitions of
    `__transaction_state` are newer, so that their times prove nothing."""
    logs.partition("orders").data(1, 1, at=OLD)
    ids = logs.id_log("pay")
    if known:
        logs.id("pay", "CompleteCommit", 1, 1, at=OLD - MINUTE)
    end = size(ids)
    logs.id("pay", "Ongoing", 1, 1, ("orders", 0), at=OLD, begun=OLD, timeout=24 * 60 * MINUTE)
    other = next(name for name in map(str, range(99)) if logs.id_log(name) is not ids)
    logs.id(other, "CompleteCommit", 9, 1, at=NOON)
    assert verdicts(engine(logs.write(), Settings(transaction_state_partitions=logs.ids))) == [("not_hanging", "live")]
    audit = cut_audit(engine, logs, ids, end + torn, monkeypatch)
    assert verdicts(audit) == UNKNOWN
    assert not audit.read.complete


def test_a_prepare_whose_completion_is_lost_breaks_no_rule(
    engine: Engine, logs: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = logs.id_log("pay")
    logs.id("pay", "PrepareCommit", 1, 1, ("orders", 0), at=OLD)
    end = size(ids)
    logs.id("pay", "CompleteCommit", 1, 1, at=OLD)
    logs.partition("orders").marker("COMMIT", 9, at=NOON)
    audit = cut_audit(engine, logs, ids, end, monkeypatch)
    assert audit.violations == ()
    (answer,) = (answer for answer in audit.answers if answer.check == "prepare_completed")
    assert (answer.answer, answer.not_checkable) == ("not_checkable", 1)
    assert answer.lacked == ("the partition is damaged: the id's newer record may be lost",)


def test_a_lost_log_end_is_not_compared_with_the_high_watermark(
    engine: Engine, logs: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = logs.partition("orders")
    orders.plain()
    end = size(orders)
    orders.plain()
    logs.high_watermark("orders", 0, 2)
    (Path(logs.write()) / ".kafka_cleanshutdown").write_text("")
    audit = cut_audit(engine, logs, orders, end, monkeypatch)
    assert audit.violations == ()
    (answer,) = (answer for answer in audit.answers if answer.check == "lso")
    assert "the end of the log could not be read" in answer.lacked


def test_a_ghost_whose_marker_may_be_lost_is_not_to_be_aborted(
    engine: Engine, logs: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = logs.partition("orders", start=10)
    orders.plain(at=OLD)
    end = size(orders)
    orders.marker("COMMIT", 1000)
    orders.snapshot(open_entry(3, 4), offset=10)
    logs.id("pay", "CompleteCommit", 1000, 1, at=NOON)
    audit = cut_audit(engine, logs, orders, end, monkeypatch)
    (finding,) = audit.findings
    assert finding.reason == "ghost"
    assert "abort" not in (finding.action or "")
    assert any("could not be read: a marker may be among them" in sentence for sentence in finding.evidence)


def test_a_snapshot_that_becomes_shorter_is_damage(
    engine: Engine, logs: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = logs.partition("orders", start=10)
    orders.plain()
    orders.snapshot(open_entry(3, 4), offset=10)
    path = logs.write()
    cut_when_read(monkeypatch, orders.directory / f"{10:020}.snapshot", 20)
    audit = engine(path, Settings(transaction_state_partitions=logs.ids))
    assert [(damage.reason, damage.harmless) for damage in audit.damage] == [("truncated", False)]
    assert audit.violations == ()

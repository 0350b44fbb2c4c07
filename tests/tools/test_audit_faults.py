"""Faults of one field each in sound log directories: each is named by one rule, or is harmless for a listed reason."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.logdir.tiers import Joined
from kafkawire.transactions import last_stable_offset
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, replica_facts
from kafkawire.transactions.checks.tier_copies import tier_answers
from tools.audit_faults.fault_outcomes import (
    DAMAGE,
    HARMLESS,
    NAMED,
    JudgedFault,
    audit_of,
    broken,
    failures,
    figures,
    markdown,
    outcomes,
    write,
)
from tools.audit_faults.faults import EPOCHS, faults, sample
from tools.audit_faults.kafka import oracle, refused
from tools.audit_faults.layouts import LAYOUTS
from tools.audit_faults.sound import sound
from tools.broker import BrokerUnavailableError
from tools.oracle import Oracle, OracleUnavailableError
from tools.recordings.archive import unpacked

SEEDS = 3


@pytest.mark.slow
def test_each_fault_is_named_by_one_rule_or_harmless(tmp_path: Path) -> None:
    made = {seed: sound(seed) for seed in range(SEEDS)}
    chosen = sample(SEEDS, 200, 22, made.__getitem__)
    judged = [JudgedFault(*one) for one in outcomes(tmp_path, made, chosen)]
    assert len(judged) == 200
    assert failures(judged) == []
    found = figures(judged, sound=SEEDS, alarms=0, by_spark=None, command="a test")
    # A fault that is named no more may be alike one that is harmless: their numbers show it.
    assert found.total == {NAMED: 110, DAMAGE: 37, HARMLESS: 53}
    assert "| **all** | **200** |" in markdown(found)


@pytest.mark.slow
def test_a_fault_of_the_leader_epochs_of_a_tiered_log_is_named_or_changes_no_segment(tmp_path: Path) -> None:
    root = shutil.copytree(unpacked("tiered-storage"), tmp_path / "copy")
    path = f"node-2/orders-0/{EPOCHS}"
    files = {path: (root / path).read_bytes()}

    def found() -> tuple[bool, Joined]:
        directory = logdir.open(root / "node-2", root / "tier")
        (replica,) = (one for one in directory.partitions if one.topic == "orders" and not one.state)
        return any(one.answer.violated for one in tier_answers([replica])), replica.joined

    violated, sound_log = found()
    assert (violated, sound_log.damage) == (False, ())
    ends: Counter[str] = Counter()
    for fault in faults(0, files):
        with broken(root, files, fault):
            violated, log = found()
        ends[NAMED if violated else DAMAGE if log.damage else HARMLESS] += 1
        assert violated or log.damage or log.segments == sound_log.segments, fault
    assert ends == {NAMED: 41, DAMAGE: 17, HARMLESS: 7}


def test_audit_reports_damaged_leader_epochs_along_which_a_tier_is_joined(tmp_path: Path) -> None:
    root = shutil.copytree(unpacked("tiered-storage"), tmp_path / "copy")
    own = root / "node-2" / "orders-0" / EPOCHS
    copied = next(root.glob(f"tier/*/orders-0-*/{40:020}-*.leader_epoch_checkpoint"))
    own.write_text("1\n")
    copied.write_text("0\n1\n0 x\n")
    audit = audit_of(root / "node-2", root / "tier")
    assert {(one.file, one.reason) for one in audit.damage} == {(str(own), "bad_version"), (str(copied), "bad_line")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_sound_directories_violate_no_rule(tmp_path: Path, seed: int) -> None:
    write(tmp_path, sound(seed))
    audit = audit_of(tmp_path)
    assert (audit.violations, audit.damage, audit.read.gaps) == ((), (), ())
    assert [finding.reason for finding in audit.findings] == ["two_phase_commit"]


@pytest.mark.slow
@pytest.mark.parametrize("structure", LAYOUTS)
def test_layouts_write_what_they_read(structure: str) -> None:
    """A fault changes nothing but what it names."""
    suffixes = {
        "batch": "orders-0/*.log", "marker": "orders-1/*.log", "TransactionLogValue": "__transaction_state-*/*.log",
        "ProducerIdsRecord": "__cluster_metadata-0/*.log", ".txnindex": "*.txnindex", ".snapshot": "*.snapshot",
        ".snapshot header": "*.snapshot", "checkpoint": "replication-offset-checkpoint",
        EPOCHS: f"orders-0/{EPOCHS}", f"{EPOCHS} header": f"orders-0/{EPOCHS}",
    }  # fmt: skip
    layout = LAYOUTS[structure]
    found = [data for path, data in sound(0).items() if Path(path).match(suffixes[structure])]
    assert found
    assert [layout.write(layout.read(data)) for data in found] == found


@pytest.fixture(scope="module")
def java() -> Iterator[Oracle]:
    try:
        with oracle() as found:
            yield found
    except (OracleUnavailableError, BrokerUnavailableError) as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.broker
def test_kafka_refuses_nothing_that_the_audit_does_not_name(java: Oracle, tmp_path: Path) -> None:
    made = {0: sound(0)}
    chosen = sample(1, 60, 22, made.__getitem__)
    why = {str(fault): found for fault, found in refused(java, made[0], chosen)}
    judged = [JudgedFault(fault, found, why[str(fault)]) for fault, found in outcomes(tmp_path, made, chosen)]
    assert sum(bool(one.refused) for one in judged) > 10
    assert [str(one.fault) for one in judged if one.refused and not (one.outcome.rules or one.outcome.damage)] == []


@pytest.mark.slow
@pytest.mark.broker
def test_last_stable_offsets_are_those_of_a_broker(java: Oracle, tmp_path: Path) -> None:
    """With a high watermark below the end: a transaction whose marker is not below it holds the offset, too."""
    write(tmp_path, sound(0))
    root = tmp_path / "broker-2"
    held = 0
    for number in range(3):
        log = b"".join(path.read_bytes() for path in sorted((root / f"orders-{number}").glob("*.log")))
        for high in range(0, 40, 3):
            (root / "replication-offset-checkpoint").write_text(f"0\n1\norders {number} {high}\n")
            partition = next(
                one for one in logdir.open(root).partitions if (one.topic, one.partition) == ("orders", number)
            )
            found = replica_facts(AuditedReplica(partition))
            if high > found.partition.log_end:
                break
            starts = [one.start_offset for one in found.opens]
            unreplicated = found.partition.unreplicated
            held += unreplicated is not None
            first = min([*starts, *([] if unreplicated is None else [unreplicated]), high])
            expected = java.one(op="judge.log", bytes=log.hex(), highWatermark=high)["lastStableOffset"]
            assert last_stable_offset(high, first, found.partition.log_start) == expected
    assert held > 5

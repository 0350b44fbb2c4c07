"""Recorded runs: what was planted is found with its offsets, and runs without a fault have no anomaly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture, logdir
from kafkawire.rows import (
    ComparedPartition,
    CopyDifference,
    DeliveryAnomaly,
    FateTotal,
    Premise,
    ReadAnomaly,
    ReadTotal,
    Row,
    WitnessSummary,
)
from kafkawire.witness import CopyComparison, Witness
from tools.recordings.archive import unpacked
from tools.recordings.deliveries import SOUND

pytestmark = pytest.mark.slow


def truth() -> Any:
    return json.loads((unpacked("deliveries") / "truth.json").read_text())


def rows_of(folder: Path, *nodes: str) -> list[Row]:
    witness = Witness(logdir.open(*(folder / node for node in nodes)))
    for exchange in capture.read(folder / "brokers.pcap", keep=True).matched():
        witness.add(exchange)
    return list(witness.rows())


@pytest.mark.parametrize("nodes", [("node-1", "node-2"), ("node-2",), ("node-1",)])
def test_what_an_unclean_election_lost_is_named(nodes: tuple[str, ...]) -> None:
    found = rows_of(unpacked("deliveries") / "lost", *nodes)
    lost = [row for row in found if isinstance(row, DeliveryAnomaly)]
    assert {(row.name, row.acks) for row in lost} == {("lost", 1)}
    assert [row.acknowledged_offset for row in lost] == truth()["lost"]["lost_offsets"]
    assert all(row.packet is not None and row.log is not None for row in lost)
    (summary,) = (row for row in found if isinstance(row, WitnessSummary))
    assert summary.acknowledged == summary.held + len(lost)
    assert summary.unknown == 0


@pytest.mark.parametrize("version", SOUND)
def test_a_run_without_a_fault_has_no_anomaly_and_nothing_unknown(version: str) -> None:
    found = rows_of(unpacked("deliveries") / f"sound-{version}", "node-1")
    (summary,) = (row for row in found if isinstance(row, WitnessSummary))
    assert summary.sendings >= summary.batches > 100
    assert (summary.anomalies, summary.unknown, summary.unseen, summary.undecoded) == (0, 0, 0, 0)
    assert all(row.holds for row in found if isinstance(row, Premise))
    reads = {(row.isolation, row.read) for row in found if isinstance(row, ReadTotal)}
    assert reads == {
        ("read_committed", "delivered"), ("read_committed", "left_out"), ("read_uncommitted", "delivered"),
    }  # fmt: skip
    assert (summary.read_anomalies, summary.read_unknown) == (0, 0)
    fates = {(row.response, row.fate) for row in found if isinstance(row, FateTotal)}
    assert fates == {("acknowledged", "held"), ("no_acks", "unacknowledged_held")}


def test_aborted_records_that_a_consumer_got_are_named() -> None:
    """The transaction index was emptied: what the client then delivered is known from the client itself."""
    found = rows_of(unpacked("deliveries") / "aborted-read", "node-1")
    told = truth()["aborted-read"]
    anomalies = [row for row in found if isinstance(row, ReadAnomaly)]
    offsets = [offset for row in anomalies for offset in range(row.first_offset, row.last_offset + 1)]
    assert offsets == [offset for offset in told["after"] if offset not in told["before"]]
    assert {(row.name, row.client_id) for row in anomalies} == {("aborted_read", "after")}


def test_replicas_behind_an_unclean_election_are_the_same() -> None:
    folder = unpacked("deliveries") / "lost"
    compared = CopyComparison(logdir.open(folder / "node-1"), logdir.open(folder / "node-2"), topic="ledger")
    (row,) = compared.rows()
    assert isinstance(row, ComparedPartition)
    assert (row.by, row.of_a, row.of_b) == ("offsets", {"same": 13}, {"same": 13})
    assert (compared.found, compared.incomplete) == (0, [])


def test_the_leader_that_failed_has_what_the_next_one_has_not() -> None:
    folder = unpacked("every-offset")
    compared = CopyComparison(
        logdir.open(folder / "old-leader"), logdir.open(folder / "rejoined"), topic="unclean", by="offsets"
    )
    row, *others = compared.rows()
    assert isinstance(row, ComparedPartition)
    assert row.of_a.keys() >= {"same"}
    assert row.in_a == sum(row.of_a.values())
    assert row.in_b == sum(row.of_b.values())
    assert compared.found == 2
    found = [(one.side, one.difference, one.first_offset) for one in others if isinstance(one, CopyDifference)]
    assert found == [("a", "lost", 5), ("a", "behind", 10), ("b", "extra", 5)]

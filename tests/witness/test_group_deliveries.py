"""Recorded runs of groups: late data is named, and runs without a fault have no anomaly and nothing unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture, logdir
from kafkawire.rows import (
    CommitTotal,
    DeliveryAnomaly,
    FateTotal,
    Premise,
    ReadTotal,
    Row,
    TransactionAnomaly,
    WitnessSummary,
)
from kafkawire.witness import Witness
from tools.recordings.archive import unpacked
from tools.recordings.deliveries import GROUP_SOUND as SOUND
from tools.recordings.deliveries import LATE

pytestmark = pytest.mark.slow


#: How the names of clients begin: librdkafka, kafka-python, Java, an exactly-once copy, Kafka Streams.
_CLIENTS = (
    "plain-none",
    "kafka-python",
    "python-reader",
    "perf-producer-client",
    "console-consumer",
    "copier",
    "counts-",
)


def truth(name: str) -> Any:
    return json.loads((unpacked("group-deliveries") / "truth.json").read_text())[name]


def rows_of(folder: Path) -> list[Row]:
    witness = Witness(logdir.open(folder / "node-1"))
    for exchange in capture.read(folder / "clients.pcapng", keep=True).matched():
        witness.add(exchange)
    return list(witness.rows())


@pytest.mark.parametrize("version", SOUND)
def test_a_run_without_a_fault(version: str) -> None:
    """librdkafka, kafka-python, Java, an exactly-once copy and Kafka Streams."""
    found = rows_of(unpacked("group-deliveries") / f"sound-{version}")
    (summary,) = (row for row in found if isinstance(row, WitnessSummary))
    assert summary.records > 200
    assert summary.acknowledged == summary.held == summary.batches
    assert summary.fetched > 90
    assert summary.commits >= 10
    broken = {name: getattr(summary, name) for name in summary.__struct_fields__ if name.endswith("anomalies")}
    unknown = {name: getattr(summary, name) for name in summary.__struct_fields__ if name.endswith("unknown")}
    assert (set(broken.values()), set(unknown.values())) == ({0}, {0})
    assert (summary.unseen, summary.undecoded, summary.old) == (0, 0, 0)
    assert all(row.holds for row in found if isinstance(row, Premise))
    assert {(row.commit, row.delivery) for row in found if isinstance(row, CommitTotal)} == {("held", "delivered")}
    assert {row.fate for row in found if isinstance(row, FateTotal)} == {"held"}
    assert {row.read for row in found if isinstance(row, ReadTotal)} == {"delivered", "left_out"}


@pytest.mark.parametrize("version", LATE)
def test_data_that_arrived_after_its_marker(version: str) -> None:
    planted = truth(f"late-data-{version}")
    (found,) = (
        row
        for row in rows_of(unpacked("group-deliveries") / f"late-data-{version}")
        if isinstance(row, TransactionAnomaly)
    )
    assert (found.name, found.topic, found.partition) == ("late_data", planted["topic"], planted["partition"])
    assert (found.offset, found.end_txn, found.transaction) == (planted["offset"], "ABORT", "committed")
    assert found.marker_offset is not None
    assert found.marker_offset < found.offset


@pytest.mark.parametrize("version", SOUND)
def test_responses_that_were_dropped_after_the_append(version: str) -> None:
    """Without idempotence the batch is held twice; with it, once. What a producer gave up on is held all the same."""
    planted = truth(f"lost-responses-{version}")
    found = rows_of(unpacked("group-deliveries") / f"lost-responses-{version}")
    (twice,) = (row for row in found if isinstance(row, DeliveryAnomaly))
    assert (twice.name, twice.topic, twice.sendings) == ("held_twice", planted["twice"]["topic"], 2)
    assert sorted((twice.held_offset, twice.second_offset)) == planted["twice"]["offsets"]  # type: ignore[type-var]
    assert "KIP-360" in twice.hint
    (summary,) = (row for row in found if isinstance(row, WitnessSummary))
    assert (summary.batches, summary.sendings, summary.held) == (29, 31, 27)
    assert (summary.unknown, summary.undecoded, summary.unseen) == (0, 0, 0)
    fates = {(row.response, row.fate): row.batches for row in found if isinstance(row, FateTotal)}
    assert fates[("unanswered", "unacknowledged_held")] == 1
    assert sum(fates.values()) == summary.batches


def test_the_sound_runs_have_all_clients() -> None:
    """librdkafka, kafka-python, Java, an exactly-once copy and Kafka Streams, on each release."""
    for version in SOUND:
        capture_file = unpacked("group-deliveries") / f"sound-{version}" / "clients.pcapng"
        clients = {exchange.client_id or "" for exchange in capture.read(capture_file)}
        for name in _CLIENTS:
            assert any(one.startswith(name) for one in clients), (version, name, clients)

"""Random histories of transactions, consumers and groups with a known truth: what is said of each fetched batch, each
committed offset and each transaction equals it or is unknown, and counts sum to what was captured."""

from __future__ import annotations

import random
from collections import Counter
from io import BytesIO
from pathlib import Path

import pytest

from kafkawire import capture, logdir
from kafkawire.rows import (
    CommitAnomaly,
    CommitTotal,
    FateTotal,
    ReadAnomaly,
    ReadTotal,
    Row,
    TransactionAnomaly,
    TransactionTotal,
    WitnessSummary,
)
from kafkawire.witness import Witness
from kafkawire.witness.fetched import READINGS, readings
from kafkawire.witness.packed_rows import PackedRows
from tests.witness.delivery_histories import PARTITIONS, TOPIC, Commit, DeliveryHistory, Given

pytestmark = pytest.mark.slow

#: (faults, share of packets that are dropped, whether the copy is older)
WORLDS = [
    (False, 0.0, False), (False, 0.0, True), (False, 0.2, False), (False, 0.2, True),
    (True, 0.0, False), (True, 0.0, True), (True, 0.2, False), (True, 0.2, True),
]  # fmt: skip


def witness_of(data: bytes, root: Path) -> Witness:
    witness = Witness(logdir.open(root))
    for exchange in capture.read(BytesIO(data), keep=True).matched():
        witness.add(exchange)
    return witness


def captured(data: bytes, numbers: dict[tuple[str, int], int], history: DeliveryHistory) -> set[int]:
    """The exchanges that can be read whole: a hole may hide what follows it, too, or make a frame of other bytes."""
    found = set()
    for one in capture.read(BytesIO(data), keep=True).matched():
        number = numbers.get((one.row.client or "", one.row.correlation_id or 0), -1)
        if one.row.problem is None and (one.request, one.response) == history.exchanges[number][1:3]:
            found.add(number)
    return found


def reading(one: Given) -> str:
    """What became of a batch that was given, in truth."""
    state = one.entry.state
    if not one.committed or state in ("none", "committed"):
        return "delivered" if one.delivered else "withheld"
    if state == "aborted":
        return "aborted_read" if one.delivered else "left_out"
    return "open_read"


def standing(one: Commit) -> str:
    """What became of a committed offset, in truth."""
    if one.entry is None:
        return "lost"
    return {"none": "held", "committed": "held"}.get(one.entry.state, one.entry.state)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("world", range(len(WORLDS)))
def test_judgements_are_the_truth_or_unknown(tmp_path: Path, world: int, seed: int) -> None:
    faults, drops, old = WORLDS[world]
    history = DeliveryHistory(random.Random(f"{world} {seed}"), faults=faults)
    history.run(150)
    begins = history.random.randrange(100) if drops and seed % 2 else 0
    data, numbers = history.capture(drops=drops, begins=begins)
    history.write(tmp_path / "logs", step=history.random.randrange(20, 150) if old else None)
    both = captured(data, numbers, history)
    assert drops or both == set(range(len(history.exchanges)))
    given = [one for one in history.given if one.exchange in both]
    commits = [one for one in history.commits if one.exchange in both]
    exact = not (drops or old)

    # Each batch that was given.
    witness = witness_of(data, tmp_path / "logs")
    told: Counter[tuple[bool, str]] = Counter()
    true: Counter[tuple[bool, str]] = Counter()
    for place, rows in witness.fetched.by_place():
        copy = next(witness._held.copies(place, witness.identity, only_newest=True), None)
        mine = [one for one in given if (TOPIC, one.partition) == place]
        assert rows["base"].tolist() == [one.entry.base for one in mine]
        for one, kind in zip(mine, readings(PackedRows.of(rows), copy).tolist(), strict=True):
            name = READINGS[kind].name
            told[one.committed, name] += 1
            true[one.committed, reading(one)] += 1
            # A batch that was given while its transaction was open broke the promise, however it ended.
            assert name in (reading(one), "unknown") or (name == "open_read" and one.open), (one, name)
            assert not exact or name == reading(one)

    # What is printed: counts, and what is named.
    summary, *others = witness_of(data, tmp_path / "logs").rows()
    assert isinstance(summary, WitnessSummary)
    reads = [row for row in others if isinstance(row, ReadTotal)]
    assert Counter(told) == Counter(
        _summed([((row.isolation == "read_committed", row.read), row.batches) for row in reads])
    )
    assert summary.fetched == len(given) == sum(row.batches for row in reads)
    assert summary.read_anomalies == sum(isinstance(row, ReadAnomaly) for row in others)
    fates = [row for row in others if isinstance(row, FateTotal)]
    assert sum(row.batches for row in fates) == summary.batches
    assert {row.fate for row in fates} <= {"held", "unacknowledged_held", "unknown"}
    assert not exact or {row.fate for row in fates} == {"held"}

    _check_commits(
        summary, [row for row in others if isinstance(row, CommitTotal | CommitAnomaly)], commits, exact=exact
    )
    _check_transactions(history, summary, others, exact=exact)
    if not faults:
        broken = [name for name in summary.__struct_fields__ if name.endswith("anomalies") and getattr(summary, name)]
        assert not broken, [row for row in others if isinstance(row, CommitAnomaly | TransactionAnomaly | ReadAnomaly)]


def _summed(pairs: list[tuple[tuple[bool, str], int]]) -> dict[tuple[bool, str], int]:
    found: Counter[tuple[bool, str]] = Counter()
    for key, number in pairs:
        found[key] += number
    return dict(found)


def _check_commits(
    summary: WitnessSummary, rows: list[CommitTotal | CommitAnomaly], commits: list[Commit], *, exact: bool
) -> None:
    totals = [row for row in rows if isinstance(row, CommitTotal)]
    anomalies = [row for row in rows if isinstance(row, CommitAnomaly)]
    assert summary.commits == len(commits) == sum(row.commits for row in totals)
    assert summary.commit_anomalies == len(anomalies)
    true = Counter(standing(one) for one in commits)
    found: Counter[str] = Counter()
    deliveries: Counter[str] = Counter()
    for row in totals:
        found[row.commit] += row.commits
        deliveries[row.delivery] += row.commits
    if exact:
        # What was lost is proven by a later one; open ones are open.
        assert all(found[name] == true[name] for name in ("held", "aborted", "open")), (found, true)
        assert found["lost"] <= true["lost"]
    else:
        assert all(found[name] <= true[name] for name in ("lost",)), (found, true)
    assert deliveries["undelivered"] <= sum(one.past for one in commits)
    assert deliveries["delivered"] <= sum(one.delivered for one in commits)
    assert not exact or deliveries["delivered"] == sum(one.delivered and not one.open for one in commits)
    by_place = {(one.group, one.partition, one.offset): one for one in commits}
    for anomaly in anomalies:
        one = by_place[anomaly.group, anomaly.partition, anomaly.offset]
        if anomaly.name == "lost":
            assert one.entry is None
        elif anomaly.name in ("undelivered", "gap"):
            assert one.past  # the former offset may not have been captured
        else:
            assert one.transaction is not None
            assert one.transaction.faulty


def _check_transactions(history: DeliveryHistory, summary: WitnessSummary, rows: list[Row], *, exact: bool) -> None:
    entries = {(number, entry.base): entry for number in PARTITIONS for entry in history.logs[number]}
    anomalies = [row for row in rows if isinstance(row, TransactionAnomaly)]
    assert summary.transaction_anomalies == len(anomalies)
    for anomaly in anomalies:
        entry = entries[anomaly.partition, anomaly.offset]
        assert entry.transaction is not None
        assert entry.transaction.faulty, (anomaly, entry.transaction)
        if anomaly.name == "late_data":
            assert entry.late
    told = {"COMMIT": "committed", "ABORT": "aborted"}
    torn = {
        place
        for place, entry in entries.items()
        if entry.transaction is not None and not entry.marker and entry.transaction.producer.own_epochs
        if entry.transaction.told is not None and entry.state not in ("open", told[entry.transaction.told])
    }
    found = {(one.partition, one.offset) for one in anomalies if "_though_" in one.name}
    assert found == torn if exact else found <= torn
    for row in rows:
        if isinstance(row, TransactionTotal) and not torn:
            assert row.transaction in (told[row.end_txn], "open", "unknown")


def test_each_anomaly_is_among_them(tmp_path: Path) -> None:
    names: set[str] = set()
    for seed in range(20):
        history = DeliveryHistory(random.Random(seed), faults=True)
        history.run(150)
        history.write(tmp_path / str(seed))
        rows = witness_of(history.capture(drops=0)[0], tmp_path / str(seed)).rows()
        names |= {row.name for row in rows if isinstance(row, CommitAnomaly | TransactionAnomaly | ReadAnomaly)}
    assert names == {
        "aborted_read", "withheld", "open_read", "undelivered", "gap", "lost", "late_data", "missing_marker",
        "aborted_though_committed", "committed_though_aborted",
    }  # fmt: skip

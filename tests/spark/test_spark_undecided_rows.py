"""Transactions without a decision, judged as columns wherever the rows of a task are cut."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa

from kafkawire.spark.auditing import outcome_judge
from kafkawire.spark.auditing.outcome_rows import DECISION, ENDING, USE, Judged, packed, unpacked
from kafkawire.spark.session.typed_table import schema_of
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge_epoch
from kafkawire.transactions.checks.timed_decisions import begins
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import Ending
from kafkawire.transactions.log.producer_append import OUTCOMES

PLACES = [Place("logs", "orders", 0), Place("logs", "payments", 0)]
LOG = Place("logs", "__transaction_state", 0)
TYPES = schema_of(Judged)
Row = dict[str, Any]


@st.composite
def task_rows(draw: st.DrawFn) -> list[Row]:
    """Ended transactions and decisions of two clusters, in the order of a task's rows."""
    rows: list[Row] = []
    for number in range(draw(st.integers(1, 25))):
        cluster, producer_id, epoch = draw(st.integers(0, 1)), draw(st.integers(7, 8)), draw(st.integers(0, 1))
        time = draw(st.integers(0, 6)) * 1000
        of_producer = {"cluster": cluster, "producer_id": producer_id, "offset": number, "counts": True}
        kind = draw(st.sampled_from([ENDING, ENDING, ENDING, DECISION, USE]))
        if kind == ENDING:
            marker = {"marker_epoch": draw(st.integers(0, 2)), "outcome": draw(st.integers(0, 1)), "timestamp": time}
            place = packed(draw(st.sampled_from(PLACES)))
            rows.append({**of_producer, **marker, "kind": kind, "data_epoch": epoch, "place": place})
        elif kind == DECISION:
            version = draw(st.sampled_from([0, 2]))
            decision = Decision(
                transactional_id="pay", place=LOG, offset=number, producer_id=producer_id, lowest_epoch=epoch,
                highest_epoch=epoch, marker_epoch=epoch, outcome=OUTCOMES[draw(st.integers(0, 1))], version=version,
                partitions=draw(st.sampled_from([None, frozenset({("orders", 0)})])), since=time, until=time,
            )  # fmt: skip
            begun = None if version else int(begins(decision))
            same = {"kind": kind, "data_epoch": epoch, "place": packed(LOG), "timestamp": begun}
            rows.append({**of_producer, **same, "payload": pickle.dumps(decision)})
        else:
            rows.append({**of_producer, "kind": kind, "place": packed(LOG), "timestamp": time})
    return sorted(rows, key=_order)


def _order(row: Row) -> list[tuple[bool, object]]:
    """Spark's: nulls first."""
    names = ("cluster", "producer_id", "data_epoch", "timestamp", "kind", "place", "offset")
    return [(row.get(name) is not None, row.get(name) or 0) for name in names if name != "place"]


def batches(rows: list[Row], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        columns = [[row.get(name) for row in rows[start : start + size]] for name in TYPES.names]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=TYPES)


def ending(row: Row) -> Ending:
    return Ending(
        unpacked(row["place"]), row["offset"], row["producer_id"], row["data_epoch"], row["marker_epoch"],
        OUTCOMES[row["outcome"]], row["timestamp"],
    )  # fmt: skip


def judged(rows: Iterable[Row], tallies: dict[int, Tallies]) -> None:
    """One by one."""

    def epoch(row: Row) -> tuple[object, ...]:
        return row["cluster"], row["producer_id"], row["data_epoch"]

    for (cluster, _, data_epoch), of_epoch in groupby(rows, key=epoch):
        if data_epoch is None:
            continue
        listed = [pickle.loads(row["payload"]) if row["kind"] == DECISION else ending(row) for row in of_epoch]
        judge_epoch(data_epoch, listed, tallies[cluster])


def answers(tallies: dict[int, Tallies]) -> list[tuple[object, ...]]:
    return sorted(
        (
            cluster,
            place,
            one.check,
            one.held,
            one.violated,
            one.not_checkable,
            sorted(one.lacked),
            sorted(map(str, one.breaches)),
        )
        for cluster, of_cluster in tallies.items()
        for place, one in of_cluster.all()
        if one.held or one.violated or one.not_checkable
    )


@pytest.mark.slow
@given(task_rows(), st.integers(1, 9), st.integers(1, 9))
def test_tallies_do_not_depend_on_where_rows_are_cut(rows: list[Row], together: int, batch: int) -> None:
    expected: dict[int, Tallies] = defaultdict(Tallies)
    whole = pa.Table.from_batches(batches(rows, len(rows))).to_pylist()
    judged(whole, expected)
    found: dict[int, Tallies] = defaultdict(Tallies)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outcome_judge, "_ROWS", together)
        tables = outcome_judge.without_undecided(batches(rows, batch), found, {0: None, 1: None})
        left = [row for table in tables for row in table.to_pylist()]
    judged(left, found)
    assert [row for row in left if row["kind"] != ENDING] == [row for row in whole if row["kind"] != ENDING]
    assert answers(found) == answers(expected)


def test_one_epoch_over_many_tables_leaves_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_judge, "_ROWS", 10)
    rows: list[Row] = [
        {
            "kind": ENDING, "cluster": 0, "producer_id": 7, "data_epoch": 1, "marker_epoch": 1, "offset": number,
            "outcome": int(number % 10 > 0), "timestamp": number, "place": packed(PLACES[0]), "counts": True,
        }
        for number in range(100)
    ]  # fmt: skip
    tallies: dict[int, Tallies] = defaultdict(Tallies)
    left = sum(map(len, outcome_judge.without_undecided(batches(rows, 3), tallies, {0: None})))
    assert left == 10  # ABORTs: a decision behind them may not list their partition
    assert sum(tally.not_checkable for tally in tallies[0].outcome.values()) == 90

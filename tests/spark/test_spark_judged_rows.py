"""The rows of a task that judges: dealt in cells, in order wherever they are cut, most judged as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

import numpy as np
import pyarrow as pa

from kafkawire.records.control import EMPTY_CODE
from kafkawire.spark.auditing import judged_rows, outcome_judge
from kafkawire.spark.auditing.outcome_rows import DECISION, USE, Judged, packed
from kafkawire.spark.session.row_batches import as_batches
from kafkawire.spark.session.sent_values import sent
from kafkawire.spark.session.typed_table import schema_of
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge_epoch
from kafkawire.transactions.checks.timed_decisions import begins
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import JUDGED, Ending
from kafkawire.transactions.log.producer_append import OUTCOMES

PLACES = [Place("logs", "orders", 2), Place("logs", "orders", 10), Place("logs", "payments", 0)]
LOG = Place("logs", "__transaction_state", 0)
TASKS = 3
Key = tuple[int, int, float]


class Given(NamedTuple):
    """What tasks are given: ended transactions, and rows beside them, each with its cluster."""

    ended: list[tuple[int, Ending]]
    asked: list[Judged]


@st.composite
def given_rows(draw: st.DrawFn) -> Given:
    """Of two clusters and three producer ids, of which two are of one task."""
    found = Given([], [])
    for number in range(draw(st.integers(1, 25))):
        cluster, producer_id, epoch = draw(st.integers(0, 1)), draw(st.integers(7, 10)), draw(st.integers(0, 1))
        time = draw(st.integers(0, 6)) * 1000
        kind = draw(st.sampled_from([None, None, None, DECISION, USE]))
        if kind is None:
            outcome = OUTCOMES[draw(st.integers(0, 1))]
            place = draw(st.sampled_from(PLACES))
            found.ended.append(
                (cluster, Ending(place, number, producer_id, epoch, draw(st.integers(0, 2)), outcome, time))
            )
        elif kind == DECISION:
            version = draw(st.sampled_from([0, 2]))
            decision = Decision(
                transactional_id="pay", place=LOG, offset=number, producer_id=producer_id, lowest_epoch=epoch,
                highest_epoch=epoch, marker_epoch=epoch, outcome=OUTCOMES[draw(st.integers(0, 1))], version=version,
                partitions=draw(st.sampled_from([None, frozenset({("orders", 2)})])), since=time, until=time,
            )  # fmt: skip
            begun = None if version else int(begins(decision))
            of_log = packed(LOG), number, sent(decision)
            found.asked.append(Judged(cluster, producer_id, epoch, begun, DECISION, *of_log, counts=True))
        else:
            found.asked.append(Judged(cluster, producer_id, None, time, USE, packed(LOG), number, b"pay", counts=True))
    return found


def columns_of(ended: Iterable[Ending]) -> np.ndarray[Any, Any]:
    return np.array(
        [
            (
                one.producer_id,
                one.offset,
                one.timestamp,
                0,
                one.data_epoch,
                one.marker_epoch,
                OUTCOMES.index(one.outcome),
            )
            for one in ended
        ],
        JUDGED,
    )


def dealt(found: Given, at_once: int) -> list[Judged]:
    """The cells of ended transactions, as many of which are dealt at once."""
    cells: list[Judged] = []
    for cluster in (0, 1):
        ended = [one for of, one in found.ended if of == cluster]
        for start in range(0, len(ended), at_once):
            hand = judged_rows._Hand(cluster, TASKS)
            for place, of_place in groupby(ended[start : start + at_once], key=lambda one: one.place):
                hand.take(packed(place), columns_of(of_place))
            cells += hand.dealt()
    return cells


def of_task(task: int, found: Given, at_once: int, size: int) -> Iterator[pa.RecordBatch]:
    """The batches of a task, in the order in which Spark gives them."""
    cells = [cell for cell in dealt(found, at_once) if cell.producer_id == task]
    asked = sorted((row for row in found.asked if row.producer_id % TASKS == task), key=_order)
    rows = [row for cluster in (0, 1) for listed in (cells, asked) for row in listed if row.cluster == cluster]
    return as_batches(rows, schema_of(Judged), size)


def _order(row: Judged) -> list[tuple[bool, Any]]:
    """Spark's: nulls first."""
    names = ("cluster", "producer_id", "data_epoch", "timestamp", "kind", "place", "offset")
    return [(value is not None, value or 0) for value in (getattr(row, name) for name in names) if value != row.place]


def keyed(found: judged_rows.Ordered) -> Iterator[tuple[int, Key, Judged | Ending]]:
    for item in outcome_judge._items(found):
        time = item.row.timestamp
        yield found.cluster, (item.producer_id, item.data_epoch, float("-inf") if time is None else time), item.row


def small(patch: pytest.MonkeyPatch) -> None:
    """Rows go through files, and few are returned at once."""
    for name, count in (("_SORTED", 5), ("_AT_ONCE", 3), ("_BLOCK", 2)):
        patch.setattr(judged_rows, name, count)


@pytest.mark.slow
@given(given_rows(), st.integers(1, 30), st.integers(1, 30), st.booleans())
def test_rows_of_tasks_are_those_given_in_the_order_of_producers_epochs_and_times(
    found: Given, at_once: int, size: int, in_files: bool
) -> None:
    rows: list[tuple[int, Key, Judged | Ending]] = []
    with pytest.MonkeyPatch.context() as patch:
        if in_files:
            small(patch)
        for task in range(TASKS):
            of_this = [
                one for ordered in judged_rows.in_order(of_task(task, found, at_once, size)) for one in keyed(ordered)
            ]
            assert {key[0] % TASKS for _, key, _ in of_this} <= {task}
            assert [(cluster, key) for cluster, key, _ in of_this] == sorted(
                (cluster, key) for cluster, key, _ in of_this
            )
            for one, following in pairwise(of_this):
                if one[:2] == following[:2] and isinstance(one[2], Ending):
                    assert isinstance(following[2], Ending)  # what decides comes first
            rows += of_this
    assert sorted((cluster, repr(row)) for cluster, _, row in rows) == sorted(
        [*((cluster, repr(one)) for cluster, one in found.ended), *((row.cluster, repr(row)) for row in found.asked)]
    )


def judged(found: Given, tallies: dict[int, Tallies]) -> None:
    """One by one."""
    listed: list[tuple[int, int, int, float, int, int, Decision | Ending]] = []
    for cluster, one in found.ended:
        order = PLACES.index(one.place), one.offset
        listed.append((cluster, one.producer_id, one.data_epoch, one.timestamp, 1 + order[0], order[1], one))
    for row in found.asked:
        if row.kind == DECISION and row.data_epoch is not None:
            time = float("-inf") if row.timestamp is None else row.timestamp
            decision = judged_rows.received(row.payload)
            listed.append((row.cluster, row.producer_id, row.data_epoch, time, 0, row.offset, decision))
    listed.sort(key=lambda one: one[:-1])
    for (cluster, _, epoch), of_epoch in groupby(listed, key=lambda one: one[:3]):
        judge_epoch(epoch, (one[-1] for one in of_epoch), tallies[cluster])


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
@given(given_rows(), st.integers(1, 30), st.integers(1, 30), st.booleans())
def test_tallies_do_not_depend_on_where_rows_are_cut(found: Given, at_once: int, size: int, in_files: bool) -> None:
    expected: dict[int, Tallies] = defaultdict(Tallies)
    judged(found, expected)
    tallies: dict[int, Tallies] = defaultdict(Tallies)
    left = Given([], [])
    with pytest.MonkeyPatch.context() as patch:
        if in_files:
            small(patch)
        for task in range(TASKS):
            ordered = judged_rows.in_order(of_task(task, found, at_once, size))
            for one in outcome_judge.without_undecided(ordered, tallies, {0: None, 1: None}):
                for item in outcome_judge._items(one):
                    if isinstance(item.row, Ending):
                        left.ended.append((one.cluster, item.row))
                    else:
                        left.asked.append(item.row)
    judged(left, tallies)
    assert sorted(map(repr, left.asked)) == sorted(map(repr, found.asked))
    assert answers(tallies) == answers(expected)


def in_one_epoch(count: int) -> Given:
    return Given([(0, Ending(PLACES[0], n, 7, 1, 1, OUTCOMES[int(n % 10 > 0)], n)) for n in range(count)], [])


def test_one_epoch_over_many_pieces_leaves_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged_rows, "_AT_ONCE", 10)
    tallies: dict[int, Tallies] = defaultdict(Tallies)
    ordered = judged_rows.in_order(of_task(1, in_one_epoch(100), 100, 3))
    left = sum(len(one.rows) for one in outcome_judge.without_undecided(ordered, tallies, {0: None}))
    assert left == 10  # ABORTs: a decision after them may not list their partition
    assert sum(tally.not_checkable for tally in tallies[0].outcome.values()) == 90


def test_more_rows_than_are_sorted_at_once_go_through_files_that_are_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    small(monkeypatch)
    written = []
    for ordered in judged_rows.in_order(of_task(1, in_one_epoch(40), 5, 3)):
        written.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))
        assert len(ordered.rows) <= 3 * 9  # a piece of each run
    assert written[0] == 40 * judged_rows.ROW.itemsize
    assert list(tmp_path.iterdir()) == []


def test_ended_transactions_whose_marker_is_empty_are_not_judged() -> None:
    hand = judged_rows._Hand(0, TASKS)
    ended = columns_of([Ending(PLACES[0], n, 7, 1, 1, "COMMIT", n) for n in range(3)])
    ended["outcome"][1] = EMPTY_CODE
    hand.take(packed(PLACES[0]), ended)
    (found,) = judged_rows.in_order(as_batches(hand.dealt(), schema_of(Judged)))
    assert found.rows["offset"].tolist() == [0, 2]

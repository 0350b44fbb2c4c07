"""Ended transactions that no decision is known for, judged as columns among the rows of a task of `outcome_judge`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkawire.spark.outcome_rows import DECISION, ENDING, unpacked
from kafkawire.transactions.checks.marker_outcomes import Tallies
from kafkawire.transactions.checks.undecided import EndedColumns, judge_undecided

#: Rows that are looked at together; a part of an epoch at either end of them is judged one by one, but for COMMITs.
_ROWS = 1 << 16
#: Whose rows are of one epoch of a producer id.
_EPOCH = ("cluster", "producer_id", "data_epoch")


def without_undecided(
    batches: Iterable[pa.RecordBatch], tallies: Mapping[int, Tallies], decided_until: Mapping[int, int | None]
) -> Iterator[pa.Table]:
    """Judge the ended transactions that no decision is known for. Returns the other rows.

    Args:
        batches: ordered by cluster, producer id, epoch of the data and time.
        tallies: by cluster. `decided_until`: the latest of any producer id, likewise.
    """
    last: list[int] | None = None
    decided = False  # a decision of that epoch has been seen
    for table in _tables(batches):
        values = [_values(table, name) for name in _EPOCH]
        kind = _values(table, "kind")
        starts = np.flatnonzero(np.append(True, np.any([np.diff(column) != 0 for column in values], axis=0)))
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(kind))))
        first, following = ([column[at].item() for column in values] for at in (0, -1))
        goes_on = first == last
        is_decision = kind == DECISION
        seen = np.cumsum(is_decision)
        before = (seen - is_decision)[starts]
        early = seen == before[group]
        alone = ~np.logical_or.reduceat(is_decision, starts)
        if goes_on:
            early[group == 0] &= not decided
            alone[0] = False
        decided = bool(seen[-1] > before[-1]) or (goes_on and len(starts) == 1 and decided)
        last = following
        alone[-1] = False  # the next rows may go on with it
        yield _left(table, values, kind == ENDING, alone[group], early, tallies, decided_until)


def _left(
    table: pa.Table,
    values: list[npt.NDArray[Any]],
    ended: npt.NDArray[np.bool_],
    alone: npt.NDArray[np.bool_],
    early: npt.NDArray[np.bool_],
    tallies: Mapping[int, Tallies],
    decided_until: Mapping[int, int | None],
) -> pa.Table:
    clusters, producer_id, data_epoch = values
    marker_epoch, outcome, timestamp = (_values(table, name) for name in ("marker_epoch", "outcome", "timestamp"))
    encoded = pc.dictionary_encode(table["place"].combine_chunks())
    place = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    places = [unpacked(one) for one in encoded.dictionary.to_pylist()]
    left = np.ones(len(clusters), bool)
    for cluster in np.unique(clusters[ended]).tolist():
        rows = np.flatnonzero(ended & (clusters == cluster))
        columns = EndedColumns(
            producer_id[rows], data_epoch[rows], marker_epoch[rows], outcome[rows], timestamp[rows], place[rows], places
        )
        left[rows] = judge_undecided(
            columns, tallies[cluster], alone=alone[rows], early=early[rows], decided_until=decided_until[cluster]
        )
    return table if left.all() else table.filter(pa.array(left))


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting)


def _values(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Null is -1: an epoch of no ended transaction with data, and of no decision."""
    found: npt.NDArray[Any] = table[name].fill_null(-1).to_numpy()
    return found

"""Batches -> runs of offsets, each with one status. Pure: `offset_walk` reads the batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkawire.errors import RecordError
from kafkawire.logdir.offset_scan import steps
from kafkawire.logdir.transaction_states import Outcomes
from kafkawire.offsets.statuses import ABORT, COMMIT, COMPACTED, CONTROL, NO_DETAIL, UNREADABLE, Runs, Why
from kafkawire.records import Batch
from kafkawire.records.array_types import Int8, Int64
from kafkawire.records.batch import readable_control
from kafkawire.records.columns import Batches, records
from kafkawire.records.control import EMPTY
from kafkawire.records.marker_columns import markers

_MARKERS = {0: ABORT, 1: COMMIT}


def runs_of(found: Batches, reached: int, outcomes: Outcomes, gap: Runs, segment: str) -> Iterator[Runs]:
    """The offsets from one that was reached up to the end of batches.

    Args:
        found: batches. Offsets of theirs that were reached before are left out.
        reached: the offset after the last one that has a status.
        outcomes: of the partition.
        gap: a run whose status offsets have that lie between batches.
        segment: the path of the batches' file.
    """
    ends, _, gaps = steps(found.base_offset, found.last_offset + 1, reached)
    first, end = np.maximum(found.base_offset, ends[:-1]), ends[1:]
    code, detail = _statuses(found, outcomes)
    whole = found.is_control | (found.record_count > found.last_offset_delta)
    code[~whole & (found.record_count <= 0)] = COMPACTED
    partial = ~whole & (found.record_count > 0) & (first < end)
    broken: list[tuple[int, Why]] = []
    if partial.any():
        at = np.flatnonzero(partial)
        left, of, broken = _left(found, at, segment)
        inside = (left >= first[of]) & (left < end[of])
        left, of = left[inside], of[inside]
        kept = ~partial
        kept[[index for index, _ in broken]] = True
        code[[index for index, _ in broken]] = UNREADABLE
        order = np.argsort(np.concatenate((first[kept], left)), kind="stable")
        first, end, code, detail = (
            np.concatenate(pair)[order]
            for pair in ((first[kept], left), (end[kept], left + 1), (code[kept], code[of]), (detail[kept], detail[of]))
        )
    some = first < end
    runs = Runs(first[some], end[some], code[some], detail[some])
    # Within a batch, and between batches of a compacted log, offsets are missing by its work.
    if partial.any() or int(gap.code[0]) == COMPACTED:
        yield from _apart(_filled(runs, reached, int(ends[-1]), COMPACTED).collapsed(), broken, found)
        return
    done = 0
    for batch, place in zip([*gaps.tolist(), -1], [*np.cumsum(some)[gaps].tolist(), len(runs.first) + 1], strict=True):
        part = slice(done, place - 1)
        yield Runs(runs.first[part], runs.end[part], runs.code[part], runs.detail[part]).collapsed()
        if batch >= 0:
            yield gap._replace(first=ends[batch : batch + 1], end=found.base_offset[batch : batch + 1])
        done = place - 1


def runs_of_old(batch: Batch, reached: int, gap: Runs, segment: str) -> Iterator[Runs]:
    """The runs of a batch of magic 0 or 1, which is in no transaction. `reached`, `gap`, `segment`: see `runs_of`."""
    first, end = max(batch.base_offset, reached), batch.last_offset + 1
    if first > reached:
        yield gap._replace(first=np.array([reached]), end=np.array([first]))
    if first >= end:
        return
    if batch.record_count > batch.last_offset_delta:
        yield Runs.one(first, end, 0)
        return
    try:
        left = np.array([record.offset for record in batch.records], np.int64)
    except RecordError as error:
        yield Runs.one(first, end, UNREADABLE, Why("bad_records", str(error), segment, batch.position))
        return
    left = left[(left >= first) & (left < end)]
    runs = Runs(left, left + 1, np.zeros(len(left), np.int8), np.full(len(left), NO_DETAIL))
    yield _filled(runs, first, end, COMPACTED).collapsed()


def _statuses(found: Batches, outcomes: Outcomes) -> tuple[Int8, Int64]:
    """Code and detail of each batch as a whole."""
    code = outcomes.states(found)
    detail = np.full(len(found), NO_DETAIL, np.int64)
    plain = markers(found)
    code[plain.at] = np.where(plain.type == 1, COMMIT, ABORT)
    detail[plain.at] = plain.coordinator_epoch
    for place in plain.others.tolist():
        code[place], detail[place] = _control(found.batch(place))
    return code, detail


def _control(batch: Batch) -> tuple[int, int]:
    control = readable_control(batch)
    if control is None or control.name == EMPTY:
        return COMPACTED, NO_DETAIL
    if control.type in _MARKERS:
        epoch = control.coordinator_epoch
        return _MARKERS[control.type], NO_DETAIL if epoch is None else epoch
    return CONTROL, NO_DETAIL if control.type is None else control.type


def _left(found: Batches, at: Int64, segment: str) -> tuple[Int64, Int64, list[tuple[int, Why]]]:
    """The offsets that compaction has left in batches with removed records, the batch of each, and the batches whose
    records cannot be read."""
    chosen = np.zeros(len(found), bool)
    chosen[at] = True
    offsets, of = [], []
    broken: list[tuple[int, Why]] = []
    for piece in records(found.where(chosen)):
        whole = np.ones(len(piece), bool)
        for damage in piece.damage:
            index = int(found.position.searchsorted(damage.position))
            broken.append((index, Why(damage.reason, damage.detail, segment, damage.position)))
            whole &= at[piece.batch] != index
        offsets.append(piece.offset[whole])
        of.append(at[piece.batch[whole]])
    return np.concatenate(offsets), np.concatenate(of), broken


def _filled(runs: Runs, reached: int, end: int, code: int) -> Runs:
    """The runs, and between them runs of a status, so that each begins where the one before it ends."""
    before = np.concatenate(([reached], runs.end))
    after = np.concatenate((runs.first, [end]))
    first = np.stack((before, np.append(runs.first, end)), 1).ravel()[:-1]
    last = np.stack((after, np.append(runs.end, end)), 1).ravel()[:-1]
    codes = np.stack((np.full(len(before), code, np.int8), np.append(runs.code, 0).astype(np.int8)), 1).ravel()[:-1]
    details = np.stack((np.full(len(before), NO_DETAIL), np.append(runs.detail, NO_DETAIL)), 1).ravel()[:-1]
    some = first < last
    return Runs(first[some], last[some], codes[some], details[some])


def _apart(runs: Runs, broken: list[tuple[int, Why]], found: Batches) -> Iterator[Runs]:
    """The runs, with those of batches that cannot be read alone, each with its reason."""
    for index, why in broken:
        before, within, runs = runs.parts(int(found.base_offset[index]), int(found.last_offset[index]) + 1)
        yield before
        yield within._replace(why=why)
    yield runs

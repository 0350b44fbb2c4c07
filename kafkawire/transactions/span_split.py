"""`split`: the ended transactions of spans, apart from the few that the checks of a partition look at."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.control import ABORT, CONTROL_TYPES
from kafkawire.transactions.endings import ABORT_CODE, PACKED, Packed
from kafkawire.transactions.part_summary import PartSummary
from kafkawire.transactions.span import Span, Step

_ABORT = CONTROL_TYPES[ABORT]


def split(summary: PartSummary) -> tuple[PartSummary, list[Packed]]:
    """Returns the summary with few of its ended transactions, to be merged as `apart`; and for each of its spans all
    of them. Those of a span hold where the merge takes the span."""
    ended = [np.frombuffer(span.endings, PACKED) for span in summary.spans]
    spans = (_with(span, rows) for span, rows in zip(summary.spans, ended, strict=True))
    return replace(summary, spans=tuple(spans)), ended


def _with(span: Span, ended: Packed) -> Span:
    """The span with the ended transactions that the check of `.txnindex` files asks for: those that are aborted, are
    open when another is aborted, or are the first to begin behind that or behind the beginning of the span."""
    in_steps = (
        item.append.base_offset
        for _, items in span.programs
        for item in items
        if isinstance(item, Step) and item.append.control == _ABORT
    )
    aborted = ended["outcome"] == ABORT_CODE
    markers = np.sort(np.append(ended["offset"][aborted], np.fromiter(in_steps, np.int64)))
    first = ended["first_offset"]
    open_ = np.searchsorted(markers, ended["offset"]) > np.searchsorted(markers, first, "right")
    kept = aborted | open_ | _first_behind(markers, first, ended["producer_id"])
    return replace(span, endings=ended[kept].tobytes())


def _first_behind(markers: Int64, first: Int64, producer_id: Int64) -> Bools:
    """The first transactions of two producers that begin behind each marker, and of all."""
    kept = np.zeros(len(first), bool)
    if not len(first):
        return kept
    order = np.argsort(first)
    at = np.append(0, np.searchsorted(first[order], markers, "right"))
    runs = np.append(np.flatnonzero(np.diff(producer_id[order])) + 1, len(order))
    at = at[at < len(order)]
    others = runs[np.searchsorted(runs, at, "right")]
    kept[order[at]] = kept[order[others[others < len(order)]]] = True
    return kept

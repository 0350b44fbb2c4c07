"""Batches of an idempotent producer that a partition holds in another order than they were sent. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkawire.records.array_types import Int64
from kafkawire.rows import OrderAnomaly
from kafkawire.witness.exchange_rows import Place, Sources, evidence_of
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.packed_rows import PackedRows

_SEQUENCES = 1 << 31
_RULE = "the batches of an idempotent producer are in the order of their sequence numbers"
_HINT = "the state of the producer was lost, and its batches were appended again or late"


def out_of_order(rows: PackedRows, base: Int64) -> tuple[Int64, Int64]:
    """Batches that are held after one with a later sequence number of the same producer id and epoch; and those that
    are held right before them. Sequence 0 is no batch that came late: a producer begins with it anew.

    Args:
        rows: of each batch the first sending (`SENT`). base: the offset at which a copy holds it; -1: nowhere.
    """
    held = np.flatnonzero((rows["producer_id"] >= 0) & (rows["sequence"] >= 0) & (base >= 0))
    order = held[np.lexsort((base[held], rows["epoch"][held], rows["producer_id"][held]))]
    first, second = order[:-1], order[1:]
    same = (rows["producer_id"][first] == rows["producer_id"][second]) & (rows["epoch"][first] == rows["epoch"][second])
    ahead = (rows["sequence"][second].astype(np.int64) - rows["sequence"][first]) % _SEQUENCES
    late = same & ((ahead == 0) | (ahead >= _SEQUENCES // 2)) & (rows["sequence"][second] != 0)
    return second[late], first[late]


def order_anomalies(
    place: Place, rows: PackedRows, base: Int64, found: tuple[Int64, Int64], copy: CopyOfPartition, sources: Sources
) -> Iterator[OrderAnomaly]:
    """The batches of `out_of_order`, with the evidence."""
    files, clients = sources.files, sources.clients
    for late, before in zip(*(numbers.tolist() for numbers in found), strict=True):
        yield OrderAnomaly(
            name="out_of_order",
            offset=int(base[late]),
            later_offset=int(base[before]),
            later_sequence=int(rows["sequence"][before]),
            log=copy.segment(int(base[late])),
            rule=_RULE,
            hint=_HINT,
            **evidence_of(place, rows, late, files, clients),
        )

"""Differences between the clocks of brokers, measured by transactions that have ended.

A coordinator appends a Prepare record, then the leader of each partition its marker, and after the last of these the
coordinator a Complete record. So the leader's clock minus the coordinator's lies between two differences: the marker's
time minus Complete's, and the marker's time minus Prepare's. There may be millions of transactions: of each log those
are kept that have the lowest hashes of producer id and epoch, so that two logs keep the same ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import nsmallest
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkawire.transactions.facts import DecisionTime, MarkerTime
from kafkawire.transactions.log.range_digests import spread
from kafkawire.transactions.log.spill import Packed

#: Transactions kept of a partition with data, and of one of `__transaction_state`.
OF_DATA, OF_COORDINATOR = 4, 64
#: A transaction that is older than the newest broker-side time by more says nothing on clocks now.
LASTING_MS = 86_400_000
#: Clocks that certainly differ by more are reported.
TOLD_MS = 60_000
#: The most brokers whose clocks are compared.
_MOST = 32


def _hashes(producer_ids: npt.NDArray[np.int64], epochs: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A hash of each producer id and epoch."""
    return spread((producer_ids.astype(np.uint64) << np.uint64(16)) ^ epochs.astype(np.uint64))


def has_own_epochs(ended: Packed) -> bool:
    """Whether any of the transactions has a marker one epoch above its data."""
    return bool((ended["marker_epoch"] == ended["data_epoch"] + 1).any())


class MarkerTimes:
    """Takes the ended transactions of a partition, and keeps those with the lowest hashes. `start`: first offset of the
    newest leader epoch; None: it is not known, and none is kept."""

    def __init__(self, start: int | None) -> None:
        self._start = start
        self._kept: list[tuple[int, MarkerTime]] = []

    def add(self, ended: Packed) -> None:
        """Take the next (`endings.PACKED`)."""
        if self._start is None:
            return
        chosen = ended[(ended["marker_epoch"] == ended["data_epoch"] + 1) & (ended["offset"] >= self._start)]
        if not len(chosen):
            return
        hashes = _hashes(chosen["producer_id"], chosen["marker_epoch"])
        lowest = np.argsort(hashes, kind="stable")[:OF_DATA]
        fresh = [
            (
                int(hashes[i]),
                MarkerTime(*(int(chosen[name][i]) for name in ("producer_id", "marker_epoch", "timestamp"))),
            )
            for i in lowest
        ]
        self._kept = nsmallest(OF_DATA, [*self._kept, *fresh])

    def found(self) -> tuple[MarkerTime, ...]:
        return tuple(one for _, one in self._kept)


class DecisionTimes:
    """Takes the completed decisions of a partition of `__transaction_state`, and keeps those with the lowest hashes."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, DecisionTime]] = []

    def add(self, one: DecisionTime) -> None:
        """Take the next."""
        found = _hashes(np.array([one.producer_id]), np.array([one.epoch]))
        self._kept.append((int(found[0]), one))
        if len(self._kept) >= 2 * OF_COORDINATOR:
            self._kept = nsmallest(OF_COORDINATOR, self._kept)

    def found(self) -> tuple[DecisionTime, ...]:
        return tuple(one for _, one in nsmallest(OF_COORDINATOR, self._kept))


#: The most that one broker's clock is ahead of another's, milliseconds; the least is that of the other way, negative.
Differences = Mapping[tuple[int, int], int]


class ClockAhead(NamedTuple):
    """A broker whose clock is ahead of another's, and by how much at least and at most, milliseconds."""

    broker: int
    other: int
    least_ms: int
    most_ms: int


def differences(
    markers: Iterable[tuple[int, MarkerTime]], decisions: Iterable[tuple[int, DecisionTime]], newest: int
) -> Differences:
    """The differences between clocks of brokers, as far as transactions show them; none where they contradict each
    other, because a clock was set in between.

    Args:
        markers, decisions: each with the broker that wrote it.
        newest: the newest broker-side time, epoch milliseconds.
    """
    known: dict[tuple[int, int], list[tuple[int, DecisionTime]]] = defaultdict(list)
    for broker, decision in decisions:
        known[decision.producer_id, decision.epoch].append((broker, decision))
    # The highest difference of one clock and another that the transactions permit.
    highest: dict[tuple[int, int], int] = {}
    for leader, marker in markers:
        for coordinator, decision in known.get((marker.producer_id, marker.epoch), ()):
            if leader != coordinator and newest - marker.time <= LASTING_MS:
                _lower(highest, (leader, coordinator), marker.time - decision.since)
                _lower(highest, (coordinator, leader), decision.until - marker.time)
    return _connected(highest)


def _lower(highest: dict[tuple[int, int], int], pair: tuple[int, int], value: int) -> None:
    highest[pair] = min(highest.get(pair, value), value)


def _connected(highest: Differences) -> Differences:
    """The differences between any two brokers, also by way of others."""
    nodes = sorted({broker for pair in highest for broker in pair})
    if len(nodes) > _MOST:
        return {}
    paths: dict[tuple[int, int], int] = {**highest, **{(node, node): 0 for node in nodes}}
    for middle, first, last in product(nodes, repeat=3):
        if (first, middle) in paths and (middle, last) in paths:
            _lower(paths, (first, last), paths[first, middle] + paths[middle, last])
    return {} if any(paths[node, node] < 0 for node in nodes) else paths


def spread_ms(found: Differences, brokers: Collection[int]) -> int | None:
    """The largest possible difference between the clocks of brokers, milliseconds; None where that was not measured for
    all. `found`: as measured. `brokers`: that are compared."""
    if not 1 < len(brokers) <= _MOST:
        return None
    pairs = [found.get((one, other)) for one in brokers for other in brokers]
    measured = [difference for difference in pairs if difference is not None]
    return max(measured) if len(measured) == len(pairs) else None


def far_apart(found: Differences) -> tuple[ClockAhead, ...]:
    """The brokers whose clock differs from another's by more than clocks do, for certain, those of the widest
    differences first. Of a broker that is far from all others there is a row with each."""
    rows = [
        ClockAhead(one, other, -found[other, one], most)
        for (one, other), most in found.items()
        if (other, one) in found and -found[other, one] > TOLD_MS
    ]
    return tuple(sorted(rows, key=lambda row: (-row.least_ms, row)))

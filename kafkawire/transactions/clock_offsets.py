"""By how much the clocks of brokers differ, measured by transactions that have ended.

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

import numpy as np
import numpy.typing as npt

from kafkawire.transactions.endings import Packed
from kafkawire.transactions.facts import DecisionTime, MarkerTime

#: Transactions kept of a partition with data, and of one of `__transaction_state`.
OF_DATA, OF_COORDINATOR = 4, 64
#: A transaction that is older than the newest broker-side time by more says nothing on clocks now.
LASTING_MS = 86_400_000
#: More brokers are not compared.
_MOST = 32

_WORD = (1 << 64) - 1
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def _hashes(producer_ids: npt.NDArray[np.int64], epochs: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finalizer."""
    mixed: npt.NDArray[np.uint64] = (producer_ids.astype(np.uint64) << np.uint64(16)) ^ epochs.astype(np.uint64)
    for shift, factor in _STEPS:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _hash(producer_id: int, epoch: int) -> int:
    """The same of one."""
    mixed = ((producer_id << 16) ^ epoch) & _WORD
    for shift, factor in _STEPS:
        mixed = ((mixed ^ (mixed >> shift)) * factor) & _WORD
    return mixed ^ (mixed >> 31)


def has_own_epochs(ended: Packed) -> bool:
    """Whether any of the transactions has a marker one epoch above its data."""
    return bool((ended["marker_epoch"] == ended["data_epoch"] + 1).any())


class MarkerTimes:
    """Takes the ended transactions of a partition, and keeps those with the lowest hashes.

    Args:
        start: first offset of the newest leader epoch; None: it is not known, and none is kept.
    """

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
        self._kept.append((_hash(one.producer_id, one.epoch), one))
        if len(self._kept) >= 2 * OF_COORDINATOR:
            self._kept = nsmallest(OF_COORDINATOR, self._kept)

    def found(self) -> tuple[DecisionTime, ...]:
        return tuple(one for _, one in nsmallest(OF_COORDINATOR, self._kept))


def spread_ms(
    markers: Iterable[tuple[int, MarkerTime]],
    decisions: Iterable[tuple[int, DecisionTime]],
    brokers: Collection[int],
    newest: int,
) -> int | None:
    """By how much the clocks of brokers differ at most, milliseconds; None where that was not measured for all.

    Args:
        markers, decisions: each with the broker that wrote it.
        brokers: that are compared.
        newest: the newest broker-side time, epoch milliseconds.
    """
    if not 1 < len(brokers) <= _MOST:
        return None
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
    return _widest(highest, brokers)


def _lower(highest: dict[tuple[int, int], int], pair: tuple[int, int], value: int) -> None:
    highest[pair] = min(highest.get(pair, value), value)


def _widest(highest: Mapping[tuple[int, int], int], brokers: Collection[int]) -> int | None:
    """The highest difference between any two of the brokers, also by way of others."""
    nodes = sorted({*brokers, *(broker for pair in highest for broker in pair)})
    if len(nodes) > _MOST:
        return None
    paths: dict[tuple[int, int], int] = {**highest, **{(node, node): 0 for node in nodes}}
    for middle, first, last in product(nodes, repeat=3):
        if (first, middle) in paths and (middle, last) in paths:
            _lower(paths, (first, last), paths[first, middle] + paths[middle, last])
    if any(paths[node, node] < 0 for node in nodes):
        return None  # a clock was set in between
    found = [paths.get((first, last)) for first, last in product(brokers, repeat=2)]
    measured = [difference for difference in found if difference is not None]
    return max(measured) if len(measured) == len(found) else None

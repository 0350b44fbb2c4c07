"""`without_consequences`: keeps the cause among violations that have one, and drops those that follow from it.

A batch that is wrong makes its producer's later batches, the files that come from the log, the replicas and the
coordinator's records disagree with it. What rests on a violation proves nothing more: it counts as not checkable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate
from math import inf

from msgspec.structs import replace

from kafkawire.transactions.answers import (
    COORDINATOR_EPOCH_MONOTONIC,
    DUPLICATE_BATCH,
    EPOCH_NOT_BACKWARDS,
    EPOCH_STEP,
    LATE_TRANSACTION,
    LEGAL_TRANSITION,
    LSO,
    MARKER_EPOCH,
    MARKER_SHAPE,
    MAX_KEPT,
    MIXED_BATCHES,
    NEW_EPOCH_FROM_ZERO,
    ONE_OUTCOME,
    PREPARE_COMPLETED,
    PREVIOUS_PRODUCER_ID,
    PRODUCER_ID_UNIQUE,
    REPLICAS_AGREE,
    SEQUENCE_CONTIGUOUS,
    SNAPSHOT_EQUALS_REPLAY,
    SNAPSHOT_GHOST,
    TRANSACTION_UNKNOWN_TO_COORDINATOR,
    TRANSITION_FIELDS,
    TXNINDEX_EQUALS_LOG,
    Breach,
    Placed,
)
from kafkawire.transactions.facts import Place

#: Why a violation that has a cause is not one.
FOLLOWS = "it rests on what violates another rule"
#: Why violations that are only counted are none, where each that was kept has a cause.
NOT_COMPARED = f"the first {MAX_KEPT:,} violations rest on what violates other rules; those behind were not compared"

_BATCHES = frozenset(
    {SEQUENCE_CONTIGUOUS, NEW_EPOCH_FROM_ZERO, DUPLICATE_BATCH, EPOCH_NOT_BACKWARDS, MIXED_BATCHES,
     MARKER_SHAPE, COORDINATOR_EPOCH_MONOTONIC}
)  # fmt: skip
_RECORDS = frozenset({LEGAL_TRANSITION, TRANSITION_FIELDS, EPOCH_STEP, PREVIOUS_PRODUCER_ID})
_FILES = frozenset({TXNINDEX_EQUALS_LOG, SNAPSHOT_EQUALS_REPLAY})
_OUTCOMES = frozenset({ONE_OUTCOME, MARKER_EPOCH})
_OPEN = frozenset({TRANSACTION_UNKNOWN_TO_COORDINATOR, LATE_TRANSACTION, SNAPSHOT_GHOST, PREPARE_COMPLETED})

_NUMBERS = frozenset({SEQUENCE_CONTIGUOUS, NEW_EPOCH_FROM_ZERO})


class _Reach(Enum):
    """What a cause and what it explains have in common."""

    REPLICA = "the replica and the producer id, from the cause on"
    PARTITION = "the partition and the producer id"
    LATER = "the partition and the producer id; the cause is before, among the batches that are compared"
    PRODUCER = "the producer id or the transactional id"
    WHOLE = "the replica"
    WITHIN = "the partition; the cause is among the batches that are compared"


_Explained = tuple[frozenset[str], _Reach]
_BY_BATCH: tuple[_Explained, ...] = ((_FILES, _Reach.REPLICA), (_FILES, _Reach.WITHIN))
_BY_STRAY: _Explained = (_NUMBERS, _Reach.WITHIN)
_BY_EPOCH: _Explained = (_OUTCOMES, _Reach.REPLICA)
_IN_TURN: _Explained = (_NUMBERS | {DUPLICATE_BATCH, EPOCH_NOT_BACKWARDS}, _Reach.LATER)
_BY_OUTCOME: tuple[_Explained, ...] = ((_FILES, _Reach.PARTITION), (_FILES, _Reach.WITHIN))

#: A rule -> the rules that a violation of it explains, and how far.
_EXPLAINS: dict[str, tuple[_Explained, ...]] = {
    REPLICAS_AGREE: (
        (_BATCHES | _FILES | {PRODUCER_ID_UNIQUE}, _Reach.PARTITION),
        (_FILES, _Reach.WITHIN),
        (_OUTCOMES | _OPEN, _Reach.PRODUCER),
    ),
    PRODUCER_ID_UNIQUE: (
        (_BATCHES | _FILES, _Reach.PARTITION),
        (_FILES, _Reach.WITHIN),
        (_OUTCOMES, _Reach.PRODUCER),
        _BY_STRAY,
    ),
    LSO: ((_FILES, _Reach.WHOLE),),
    TXNINDEX_EQUALS_LOG: ((frozenset({SNAPSHOT_EQUALS_REPLAY}), _Reach.REPLICA),),
    TRANSACTION_UNKNOWN_TO_COORDINATOR: ((_FILES | _NUMBERS, _Reach.WITHIN),),
    SEQUENCE_CONTIGUOUS: _BY_BATCH,
    COORDINATOR_EPOCH_MONOTONIC: (*_BY_BATCH, (frozenset({SNAPSHOT_EQUALS_REPLAY}), _Reach.PARTITION)),
    NEW_EPOCH_FROM_ZERO: (*_BY_BATCH, _BY_EPOCH, _IN_TURN),
    DUPLICATE_BATCH: (*_BY_BATCH, _BY_STRAY, _IN_TURN),
    MIXED_BATCHES: (*_BY_BATCH, _BY_STRAY),
    EPOCH_NOT_BACKWARDS: (*_BY_BATCH, _BY_STRAY, _BY_EPOCH, _IN_TURN),
    MARKER_SHAPE: (*_BY_BATCH, _BY_STRAY, _BY_EPOCH, (_NUMBERS, _Reach.REPLICA), (_OPEN, _Reach.PRODUCER)),
    MARKER_EPOCH: (*_BY_OUTCOME, _IN_TURN, (frozenset({ONE_OUTCOME}), _Reach.LATER)),
    ONE_OUTCOME: _BY_OUTCOME,
    **dict.fromkeys(_RECORDS, ((_OUTCOMES | _OPEN | {PRODUCER_ID_UNIQUE}, _Reach.PRODUCER),)),
}


def without_consequences(answers: Sequence[Placed]) -> Iterator[Placed]:
    """The answers of a cluster; what a violation explains is not checkable in them."""
    causes = _Causes(answers)
    for placed in answers:
        answer = placed.answer
        kept = tuple(breach for breach in answer.breaches if not causes.explain(placed.place, breach))
        dropped = len(answer.breaches) - len(kept)
        if not dropped:
            yield placed
            continue
        reasons = [FOLLOWS]
        if not kept and answer.violated > dropped:
            reasons.append(NOT_COMPARED)
            dropped = answer.violated
        lacked = tuple(dict.fromkeys((*answer.lacked, *reasons)))
        violated, not_checkable = answer.violated - dropped, answer.not_checkable + dropped
        changed = replace(answer, breaches=kept, violated=violated, not_checkable=not_checkable, lacked=lacked)
        yield replace(placed, answer=changed)


class _Causes:
    """The ranges of offsets where causes are, by what they explain: a rule, how far, and what it is about."""

    def __init__(self, answers: Iterable[Placed]) -> None:
        found: dict[tuple[str, _Reach, object], list[tuple[int, int]]] = defaultdict(list)
        for placed in answers:
            for breach in placed.answer.breaches:
                for effects, reach in _EXPLAINS.get(breach.check, ()):
                    # What batches explain of each other goes forward only: no two can explain each other.
                    files = reach is _Reach.WITHIN and effects == _FILES
                    where = _ranges(breach) if files else [(breach.offset, breach.offset)]
                    for subject in _subjects(placed.place, breach, reach):
                        for effect in effects:
                            found[effect, reach, subject] += where
        #: The first offsets in order, and the highest last one of each and those before.
        self._found = {
            key: ([first for first, _ in sorted(ranges)], list(accumulate((last for _, last in sorted(ranges)), max)))
            for key, ranges in found.items()
        }

    def explain(self, place: Place, breach: Breach) -> bool:
        """Whether another violation explains this one."""
        for reach in _Reach:
            low, high = _range(breach, reach)
            for subject in _subjects(place, breach, reach):
                firsts, lasts = self._found.get((breach.check, reach, subject), ((), ()))
                before = bisect_right(firsts, high)
                if before and lasts[before - 1] >= low:
                    return True
        return False


def _ranges(breach: Breach) -> list[tuple[int, int]]:
    """Where the batches are that a violation is about: anywhere in a gap of numbers, else one of two."""
    since = breach.offset if breach.since is None else breach.since
    if breach.check in _NUMBERS:
        return [(since, breach.offset)]
    return [(since, since), (breach.offset, breach.offset)]


def _range(breach: Breach, reach: _Reach) -> tuple[float, float]:
    """Where the cause of a violation can be."""
    match reach:
        case _Reach.REPLICA:
            return -inf, breach.offset
        case _Reach.LATER:
            return -inf if breach.since is None else breach.since, breach.offset - 1
        case _Reach.WITHIN:
            return breach.offset if breach.since is None else breach.since, breach.offset
        case _:
            return -inf, inf


def _subjects(place: Place, breach: Breach, reach: _Reach) -> Iterator[object]:
    """What a violation is about, for a reach."""
    if reach is _Reach.WHOLE:
        yield place
        return
    where = (place.topic, place.partition)
    if reach is _Reach.WITHIN:
        yield where
        return
    for producer_id in {breach.producer_id, *breach.concerns}:
        if producer_id >= 0:
            yield (place if reach is _Reach.REPLICA else None if reach is _Reach.PRODUCER else where), producer_id
    if reach is _Reach.PRODUCER and breach.transactional_id is not None:
        yield breach.transactional_id

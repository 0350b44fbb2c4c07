"""Answers of the checks: their names, what each found in one partition, and the count that makes an answer.

A rule broken is data, never an exception. Each check answers *violated*, *holds* or *not_checkable*: brokers may forget
state, compaction removes records, and copies are of different moments, so a step is only judged where no batch can be
missing in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from kafkawire.transactions.facts import Place

SEQUENCE_CONTIGUOUS = "sequence_contiguous"
NEW_EPOCH_FROM_ZERO = "new_epoch_from_zero"
DUPLICATE_BATCH = "duplicate_batch"
EPOCH_NOT_BACKWARDS = "epoch_not_backwards"
MARKER_EPOCH = "marker_epoch"
COORDINATOR_EPOCH_MONOTONIC = "coordinator_epoch_monotonic"
MARKER_SHAPE = "marker_shape"
MARKER_WITHOUT_DATA = "marker_without_data"
MIXED_BATCHES = "mixed_batches"
OPEN_TRANSACTION = "open_transaction"
TRANSACTION_UNKNOWN_TO_COORDINATOR = "transaction_unknown_to_coordinator"
LATE_TRANSACTION = "late_transaction"
LSO = "lso"
TXNINDEX_EQUALS_LOG = "txnindex_equals_log"
SNAPSHOT_EQUALS_REPLAY = "snapshot_equals_replay"
SNAPSHOT_GHOST = "snapshot_ghost"
PREPARE_COMPLETED = "prepare_completed"
ONE_OUTCOME = "one_outcome"
LEGAL_TRANSITION = "legal_transition"
TRANSITION_FIELDS = "transition_fields"
EPOCH_STEP = "epoch_step"
PREVIOUS_PRODUCER_ID = "previous_producer_id"
PRODUCER_ID_UNIQUE = "producer_id_unique"
ID_IN_ITS_PARTITION = "id_in_its_partition"
REPLICAS_AGREE = "replicas_agree"
TIER_COPY_FINISHED = "tier_copy_finished"
TIER_OBJECT_KNOWN = "tier_object_known"
TIER_OBJECT_PRESENT = "tier_object_present"
TIER_COVERS_LOG = "tier_covers_log"

VIOLATED, HOLDS, NOT_CHECKABLE = "violated", "holds", "not_checkable"

#: Number of breaches of one rule in one partition that have a row, the first ones; the others are counted.
MAX_BREACHES = 100
#: Number of those that are kept until it is known which of them rest on other breaches: they have no row.
MAX_KEPT = 10 * MAX_BREACHES

_every_breach: ContextVar[bool] = ContextVar("every_breach", default=False)


@contextmanager
def every_breach(wanted: bool = True) -> Iterator[None]:
    """A block in which new tallies keep every breach, for a table of all: memory grows with them."""
    token = _every_breach.set(wanted)
    try:
        yield
    finally:
        _every_breach.reset(token)


class Breach(msgspec.Struct, frozen=True):
    """A rule broken: where, and what was found.

    Attributes:
        file: path of the file that disagrees, where it is not the log itself.
        transactional_id: whose record it is, or whose transaction, where that is known.
        concerns: more producer ids whose data rests on what is broken.
        since: what is broken may be due to another breach in the partition from this offset on; None: from `offset`.
    """

    check: str
    offset: int
    producer_id: int
    what: str
    file: str | None = None
    transactional_id: str | None = None
    concerns: tuple[int, ...] = ()
    since: int | None = None


def breach_order(breach: Breach) -> tuple[int, int]:
    """Breaches of one rule in one partition in order."""
    return breach.offset, breach.producer_id


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a check for one partition.

    Attributes:
        held, violated, not_checkable: number of steps, or entries, with that answer.
        noted: number of those that are worth knowing and break no rule.
        breaches: the first of the violated ones, at most `MAX_KEPT` of them.
        lacked: why something could not be judged, each reason once; empty where all was.
    """

    check: str
    held: int = 0
    violated: int = 0
    not_checkable: int = 0
    noted: int = 0
    breaches: tuple[Breach, ...] = ()
    lacked: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """violated, holds (also where there was nothing to judge) or not_checkable (nothing could be judged)."""
        if self.violated:
            return VIOLATED
        return NOT_CHECKABLE if self.not_checkable and not self.held else HOLDS


class Placed(msgspec.Struct, frozen=True):
    """The answer of a check on one replica of a partition; of a check that joins several, on the one that is blamed.

    Attributes:
        path: of the partition's directory.
    """

    place: Place
    answer: Answer
    path: str | None = None

    @classmethod
    def lacking(cls, place: Place, check: str, why: str, path: str | None = None) -> Placed:
        """The answer of a check that could not be made there. `why`: a clause."""
        return cls(place, Answer(check=check, not_checkable=1, lacked=(why,)), path)


class Tally:
    """Counts the judgements of one check."""

    __slots__ = ("breaches", "check", "held", "lacked", "most", "not_checkable", "noted", "violated")

    def __init__(self, check: str) -> None:
        self.check = check
        self.held = self.violated = self.not_checkable = self.noted = 0
        self.breaches: list[Breach] = []
        self.lacked: dict[str, None] = {}
        self.most = None if _every_breach.get() else MAX_KEPT

    def breach(
        self,
        offset: int,
        producer_id: int,
        what: str,
        file: str | None = None,
        transactional_id: str | None = None,
        concerns: tuple[int, ...] = (),
        since: int | None = None,
    ) -> None:
        """Count a violation. `offset`, `producer_id`, `what`, `file`, `transactional_id`, `concerns`, `since`: as in
        `Breach`; producer id -1: none."""
        self.violated += 1
        self.breaches.append(Breach(self.check, offset, producer_id, what, file, transactional_id, concerns, since))
        if self.most is not None and len(self.breaches) >= 2 * self.most:
            self._first_breaches()

    def _first_breaches(self) -> None:
        self.breaches.sort(key=breach_order)
        if self.most is not None:
            del self.breaches[self.most :]

    def take(self, answer: Answer) -> None:
        """Add an answer of the same check, of another part of the log."""
        self.held += answer.held
        self.violated += answer.violated
        self.not_checkable += answer.not_checkable
        self.noted += answer.noted
        self.breaches += answer.breaches
        self.lacked |= dict.fromkeys(answer.lacked)

    def lack(self, why: str, count: int = 1) -> None:
        if count:
            self.not_checkable += count
            self.lacked[why] = None

    def answer(self) -> Answer:
        self._first_breaches()
        return Answer(
            check=self.check,
            held=self.held,
            violated=self.violated,
            not_checkable=self.not_checkable,
            noted=self.noted,
            breaches=tuple(self.breaches),
            lacked=tuple(self.lacked),
        )

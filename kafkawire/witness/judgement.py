"""Batches of a partition and the copies of it -> fates. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kafkawire.kafka_errors import error_name
from kafkawire.logdir.transaction_states import STATES
from kafkawire.records.array_types import Bools, Int8, Int64
from kafkawire.rows import DeliveryAnomaly
from kafkawire.witness import batch_fates as fates
from kafkawire.witness.batch_fates import FATES, RESPONSES
from kafkawire.witness.exchange_rows import Place, Rows, evidence_of
from kafkawire.witness.grouping import grouped
from kafkawire.witness.held import HELD, CopyOfPartition
from kafkawire.witness.join import locate
from kafkawire.witness.packed_rows import PackedRows

#: What is kept of a batch from the copy that shows most of it. `copy`: its number; -1: none. `state`: of its
#: transaction, as in `HELD`; -1: not held. `base`, `second`: offsets at which it is held; -1: nowhere.
_SHOWN = np.dtype([("seen", "i1"), ("copy", "<i4"), ("state", "i1"), ("base", "<i8"), ("second", "<i8")])

#: What is counted together: the response, fate, state of the transaction, reason, error.
Key = tuple[int, int, int, int, int]
#: Batches and records.
Counts = dict[Key, tuple[int, int]]


#: What the row of an anomaly has of a batch's first sending.


class Judgement:
    """The fates of the batches that were sent to one partition.

    Args:
        place: topic and partition. sent: in the order of the captures.

    Attributes:
        batches: with the columns of `grouping`, in the order in which they were first sent.
        unseen: number of data batches in the newest copy that are none of those sent; None without a copy.
    """

    def __init__(self, place: Place, sent: Rows) -> None:
        self.place = place
        self._sent = PackedRows.of(sent)
        self.batches = grouped(self._sent)
        self._rows = self._sent.take(self.batches["row"])
        self._shown = np.empty(len(self.batches), _SHOWN)
        self._shown["seen"], self._shown["copy"], self._shown["state"] = fates.NO_COPY, -1, -1
        self._shown["base"] = self._shown["second"] = -1
        self._paths: list[tuple[str, tuple[tuple[int, str], ...]]] = []
        self.unseen: int | None = None

    def __len__(self) -> int:
        """The number of sendings."""
        return len(self._sent)

    def add(self, copy: CopyOfPartition) -> None:
        """Take the next copy; the newest one first."""
        newest = not self._paths
        found = locate(self._sent, self.batches, self._rows, copy, newest=newest)
        if newest:
            self.unseen = found.unseen
        better = np.flatnonzero(_is_better(self._shown["seen"], found.seen))
        at, second = found.at[better], found.second[better]
        shown = np.empty(len(better), _SHOWN)
        held = copy.batches if len(copy.batches) else PackedRows.of(np.zeros(1, HELD))
        shown["seen"], shown["copy"] = found.seen[better], len(self._paths)
        shown["state"] = np.where(at >= 0, held["state"][at], -1)
        shown["base"] = np.where(at >= 0, held["base"][at], -1)
        shown["second"] = np.where(second >= 0, held["base"][second], -1)
        self._shown[better] = shown
        self._paths.append((copy.path, copy.segments))

    @property
    def fates(self) -> Int8:
        """The fate of each batch, by the codes of `batch_fates`."""
        found: Int8 = _FATE_OF[self.batches["response"], self._shown["seen"]]
        return found

    @property
    def states(self) -> Int8:
        """The state of each batch's transaction; -1 of what is not held."""
        held = np.isin(
            self.fates,
            (
                fates.F_HELD,
                fates.F_UNACKED,
                fates.F_TWICE,
                fates.F_ELSEWHERE,
                fates.F_REFUSED_HELD,
            ),
        )
        return np.where(held, self._shown["state"], -1).astype(np.int8)

    @property
    def first_sendings(self) -> PackedRows:
        """The first sending of each batch: `SENT`."""
        return self._rows

    @property
    def held_at(self) -> Int64:
        """The offset at which each batch is held; -1: nowhere."""
        found: Int64 = self._shown["base"]
        return found

    @property
    def in_newest(self) -> Bools:
        """Whether it is the newest copy that shows each batch."""
        found: Bools = self._shown["copy"] == 0
        return found

    def counts(self) -> Counts:
        """Batches and records. -1: the state of what is not held, the reason of a fate that is known; the error of what
        was not refused is 0."""
        fate = self.fates
        state = self.states
        reason = np.where(fate == fates.F_UNKNOWN, self._shown["seen"], -1)
        error = np.where(self.batches["response"] == fates.REFUSED, self.batches["error"], 0)
        packed = np.zeros(len(fate), np.int64)
        for column in (self.batches["response"], fate, state, reason):
            packed = (packed << 8) | (column.astype(np.int64) + 1)
        packed = (packed << 16) | (error.astype(np.int64) + (1 << 15))
        keys, which = np.unique(packed, return_inverse=True)
        records = np.bincount(which, weights=self._rows["records"], minlength=len(keys))
        batches = np.bincount(which, minlength=len(keys))
        return {
            _key(key): (number, int(count))
            for key, number, count in zip(keys.tolist(), batches.tolist(), records.tolist(), strict=True)
        }

    def anomalies(self, files: list[str], clients: list[tuple[str, str]]) -> Iterator[DeliveryAnomaly]:
        """The batches for which a promise is broken.

        Args:
            files, clients: of `SentBatches`.
        """
        fate = self.fates
        for one in np.flatnonzero(_ANOMALOUS[fate]).tolist():
            batch = {name: self.batches[name][one] for name in ("response", "error", "offset", "sendings", "answer")}
            shown, answer = self._shown[one], int(batch["answer"])
            base = int(shown["base"])
            number = int(shown["copy"])
            kind = FATES[fate[one]]
            yield DeliveryAnomaly(
                name=kind.name,
                response=RESPONSES[batch["response"]],
                acknowledged_offset=_known(batch["offset"]),
                held_offset=_known(base),
                second_offset=_known(shown["second"]),
                transaction=STATES[shown["state"]] if shown["state"] >= 0 else None,
                acks=int(self._rows["acks"][one]),
                error=error_name(int(batch["error"])) if batch["response"] == fates.REFUSED else None,
                sendings=int(batch["sendings"]),
                log=self._segment(number, base if base >= 0 else int(batch["offset"])),
                rule=kind.rule,
                hint=kind.hint,
                **evidence_of(self.place, self._rows, one, files, clients, (self._sent, answer)),
            )

    def _segment(self, copy: int, offset: int) -> str | None:
        """The file of a copy that has an offset."""
        if copy < 0:
            return None
        path, segments = self._paths[copy]
        return next((name for base, name in reversed(segments) if base <= offset), path)


def _is_better(shown: Int8, seen: Int8) -> Bools:
    """Whether another copy shows more than those before it.

    That the newest log has other data at an offset is not undone by a copy whose offset was deleted or compacted. Nor
    does a copy that was left behind show that the newest log lacks what it may have."""
    gone = np.isin(seen, (fates.DELETED, fates.COMPACTED))
    doubtful = np.isin(shown, (fates.AMBIGUOUS, fates.REWRITTEN))
    found: Bools = (seen > shown) & ~(gone & (shown == fates.LOST)) & ~(doubtful & (seen == fates.LOST))
    return found


def judge(place: Place, sent: Rows, copies: Iterable[CopyOfPartition]) -> Judgement:
    """The fates of the batches that were sent to a partition.

    Args:
        copies: of the partition, the newest first.
    """
    judgement = Judgement(place, sent)
    for copy in copies:
        judgement.add(copy)
    return judgement


def _key(packed: int) -> Key:
    response, fate, state, reason = (((packed >> shift) & 0xFF) - 1 for shift in (40, 32, 24, 16))
    return response, fate, state, reason, (packed & 0xFFFF) - (1 << 15)


def _known(offset: int) -> int | None:
    return int(offset) if offset >= 0 else None


_FATE_OF = np.array(
    [[fates.fate_of(response, seen) for seen in range(fates.HELD + 1)] for response in range(len(RESPONSES))],
    np.int8,
)
_ANOMALOUS = np.array([fate.anomaly for fate in FATES])

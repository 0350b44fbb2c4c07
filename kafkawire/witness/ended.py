"""How transactions ended by the responses of EndTxn, against what copies show. Pure.

From version 5 of EndTxn on (KIP-890) no two transactions have one producer id and epoch, so that the answer is that of
the transaction of each batch with both. Before, an answer that no capture shows may lie between: nothing is concluded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.logdir.transaction_states import ABORTED, COMMITTED, STATES
from kafkawire.records.array_types import Int8, Int64
from kafkawire.rows import TransactionAnomaly, TransactionTotal
from kafkawire.witness.contents import UInt64, mixed
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.packed_rows import PackedRows

END_TXN = 26
#: From this version on each transaction has an epoch of its own.
_OWN_EPOCH = 5
_PENDING = 4096
_NAMES = ("ABORT", "COMMIT")

_ENDED = np.dtype([("key", "<u8"), ("committed", "i1"), ("file", "<i4"), ("packet", "<i8"), ("response_packet", "<i8")])


class Promise(NamedTuple):
    """A promise that is broken: its name in rows, and as a sentence."""

    name: str
    rule: str


#: By what was asked for (0: ABORT, 1: COMMIT).
_BROKEN = (
    Promise("committed_though_aborted", "a transaction that EndTxn aborted is committed in no partition"),
    Promise("aborted_though_committed", "a transaction that EndTxn committed is aborted in no partition"),
)
_HINT = "a marker of another transaction, data that came after its marker, or a coordinator that decided anew"


class EndedTransactions:
    """Takes exchanges in order.

    Attributes:
        asked: number of EndTxn requests. acknowledged: number of those that were answered without error. shared: of
            these, with a version before 5, where transactions share epochs.
    """

    def __init__(self) -> None:
        self._pending: list[tuple[int, int, int, int, int, int]] = []
        self._chunks: list[npt.NDArray[np.void]] = []
        self._files: dict[str, int] = {}
        self.asked = self.acknowledged = self.shared = 0

    @property
    def files(self) -> list[str]:
        return list(self._files)

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange; those of other apis are passed over."""
        row = found.row
        request: Any = found.request
        response: Any = found.response
        if row.api_key != END_TXN or request is None or kafka_name(request) != "EndTxnRequest":
            return
        self.asked += 1
        if response is None or kafka_name(response) != "EndTxnResponse" or response.error_code or row.problem:
            return
        self.acknowledged += 1
        if found.version < _OWN_EPOCH:
            self.shared += 1
            return
        file = self._files.setdefault(row.file or "-", len(self._files))
        packets = row.packet or -1, row.response_packet or -1
        self._pending.append((request.producer_id, request.producer_epoch, int(request.committed), file, *packets))
        if len(self._pending) >= _PENDING:
            self._pack()

    def _pack(self) -> None:
        if self._pending:
            columns = np.array(self._pending, np.int64).T
            packed = np.empty(len(self._pending), _ENDED)
            packed["key"] = _keys(columns[0], columns[1])
            packed["committed"], packed["file"], packed["packet"], packed["response_packet"] = columns[2:]
            self._chunks.append(packed)
            self._pending.clear()

    def answers(self) -> PackedRows:
        """The answers, by key."""
        self._pack()
        found = np.concatenate([np.empty(0, _ENDED), *self._chunks])
        self._chunks = [found]
        return PackedRows.of(found[np.argsort(found["key"], kind="stable")])


def _keys(producer_id: Int64, epoch: Int64) -> UInt64:
    return mixed(producer_id.astype(np.int64), epoch.astype(np.int64))


class TransactionCounts:
    """What became of the transactional batches of transactions for which EndTxn was answered without error.

    Args:
        answers: of `EndedTransactions`. files: of it.
    """

    def __init__(self, answers: PackedRows, files: list[str]) -> None:
        self._answers = answers
        self._files = files
        self.batches: Counter[tuple[int, int]] = Counter()

    @property
    def anomalies(self) -> int:
        """Number of batches for which a promise is broken."""
        return self.batches[0, COMMITTED] + self.batches[1, ABORTED]

    def add(self, place: Place, rows: PackedRows, state: Int8, base: Int64) -> Iterator[TransactionAnomaly]:
        """Take the batches of a partition. Returns those for which a promise is broken; they are counted at once.

        Args:
            rows: of each batch the first sending. state: of its transaction in the copy, -1 where no copy has it.
            base: the offset at which a copy holds it.
        """
        answers = self._answers
        if not len(answers):
            return iter(())
        keys = _keys(rows["producer_id"], rows["epoch"])
        at = np.minimum(np.searchsorted(answers["key"], keys), len(answers) - 1)
        known = rows["transactional"] & (answers["key"][at] == keys) & (state >= 0)
        wanted = answers["committed"][at]
        for code in np.unique(wanted[known]).tolist():
            for found, number in Counter(state[known & (wanted == code)].tolist()).items():
                self.batches[code, found] += number
        broken = known & (((wanted == 1) & (state == ABORTED)) | ((wanted == 0) & (state == COMMITTED)))
        return self._listed(place, rows, state, base, at, np.flatnonzero(broken))

    def _listed(
        self, place: Place, rows: PackedRows, state: Int8, base: Int64, at: Int64, broken: Int64
    ) -> Iterator[TransactionAnomaly]:
        answers = self._answers
        wanted = answers["committed"][at]
        for one in broken.tolist():
            promise, answer = _BROKEN[int(wanted[one])], int(at[one])
            yield TransactionAnomaly(
                name=promise.name,
                topic=place[0],
                partition=place[1],
                offset=int(base[one]),
                records=int(rows["records"][one]),
                producer_id=int(rows["producer_id"][one]),
                producer_epoch=int(rows["epoch"][one]),
                sequence=int(rows["sequence"][one]),
                end_txn=_NAMES[int(wanted[one])],
                transaction=STATES[int(state[one])],
                file=self._files[int(answers["file"][answer])],
                packet=int(answers["packet"][answer]),
                response_packet=int(answers["response_packet"][answer]),
                rule=promise.rule,
                hint=_HINT,
            )

    def rows(self) -> Iterator[TransactionTotal]:
        """A row for each count."""
        for (wanted, state), number in sorted(self.batches.items(), reverse=True):
            if number:
                yield TransactionTotal(end_txn=_NAMES[wanted], transaction=STATES[state], batches=number)

"""`EndedTransactions`: how producers ended their transactions: EndTxn and AddPartitionsToTxn exchanges -> packed rows.
Pure.

From version 5 of EndTxn on (KIP-890) no two transactions have one producer id and epoch, so that an answer belongs to
the transaction of each batch with these. Before version 5 transactions share epochs, and their order distinguishes
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.records.array_types import Int8, Int64
from kafkawire.witness.contents import UInt64, mixed
from kafkawire.witness.exchange_rows import ORIGIN, PartitionRows, Sources
from kafkawire.witness.packed_rows import PackedRows

ADD_PARTITIONS_TO_TXN, END_TXN = 24, 26
#: From this version on each transaction has an epoch of its own.
_OWN_EPOCH = 5
_PENDING = 4096
#: The last version in which clients, and not brokers, ask.
_OF_CLIENTS = 3

#: An EndTxn that was answered without error. `own`: the transaction has an epoch of its own.
ENDED = np.dtype(
    [
        ("key", "<u8"), ("producer_id", "<i8"), ("epoch", "<i2"), ("committed", "i1"), ("own", "?"), ("file", "<i4"),
        ("packet", "<i8"), ("response_packet", "<i8"),
    ]
)  # fmt: skip
#: A partition that a producer added to its transaction.
REGISTERED = np.dtype([("place", "<i4"), ("key", "<u8"), *ORIGIN])


class EndedTransactions:
    """Takes exchanges in order.

    Args:
        sources: captures and clients.

    Attributes:
        asked: number of EndTxn requests. acknowledged: number of those that were answered without error. shared: of
            these, with a version before 5, where transactions share epochs.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._pending: list[tuple[int, ...]] = []
        self._chunks: list[npt.NDArray[np.void]] = []
        self.asked = self.acknowledged = self.shared = 0

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
        own = found.version >= _OWN_EPOCH
        self.shared += not own
        file = self._sources.file(row)
        packets = row.packet or -1, row.response_packet or -1
        self._pending.append(
            (0, request.producer_id, request.producer_epoch, int(request.committed), own, file, *packets)
        )
        if len(self._pending) >= _PENDING:
            self._pack()

    def _pack(self) -> None:
        if self._pending:
            packed = np.array(self._pending, ENDED)
            packed["key"] = producer_keys(packed["producer_id"], packed["epoch"])
            self._chunks.append(packed)
            self._pending.clear()

    def take(self, answers: npt.NDArray[np.void]) -> None:
        """Add answers (`ENDED`) that were collected elsewhere."""
        self._chunks.append(answers)

    def rows(self) -> npt.NDArray[np.void]:
        """All answers (`ENDED`), in the order of the captures."""
        self._pack()
        self._chunks = [np.concatenate([np.empty(0, ENDED), *self._chunks])]
        return self._chunks[0]

    def answers(self) -> PackedRows:
        """All answers (`ENDED`), by key, those of one key in the order of the captures."""
        found = self.rows()
        return PackedRows.of(found[np.argsort(found["key"], kind="stable")])


class RegisteredPartitions(PartitionRows):
    """Takes exchanges in order: partitions that producers added to their transactions.

    Args:
        sources: captures and clients.
    """

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources, REGISTERED)

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange; those of other apis, and of brokers, are passed over."""
        row = found.row
        request: Any = found.request
        response: Any = found.response
        if row.api_key != ADD_PARTITIONS_TO_TXN or found.version > _OF_CLIENTS or row.problem:
            return
        if request is None or response is None or kafka_name(response) != "AddPartitionsToTxnResponse":
            return
        numbers = np.array([request.v3_and_below_producer_id]), np.array([request.v3_and_below_producer_epoch])
        key, origin = int(producer_keys(*numbers)[0]), self._sources.origin(row)
        for topic in response.results_by_topic_v3_and_below:
            for part in topic.results_by_partition:
                if not part.partition_error_code:
                    self.append_row((self.place(topic.name, part.partition_index), key, *origin))


def producer_keys(producer_id: Int64, epoch: npt.NDArray[np.integer[Any]]) -> UInt64:
    """A number for each producer id and epoch."""
    return mixed(producer_id.astype(np.int64), epoch.astype(np.int64))


def ended_as(answers: PackedRows, producer_id: Int64, epoch: npt.NDArray[np.integer[Any]]) -> tuple[Int8, Int64]:
    """How the transactions with these producer ids and epochs ended: 1 COMMIT, 0 ABORT, -1 not known; and the rows of
    `answers` that say so. Only transactions with an epoch of their own are known by it.

    Args:
        answers: of `EndedTransactions`.
    """
    if not len(answers):
        return np.full(len(producer_id), -1, np.int8), np.zeros(len(producer_id), np.int64)
    keys = producer_keys(producer_id, epoch)
    at = np.minimum(np.searchsorted(answers["key"], keys), len(answers) - 1)
    known = (answers["key"][at] == keys) & answers["own"][at]
    return np.where(known, answers["committed"][at], np.int8(-1)).astype(np.int8), at

"""Scripted brokers that end transactions: one leads partitions with an open one each, one coordinates an id too."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from kafkawire.client import Search
from kafkawire.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.describe_transactions_response import TopicData, TransactionState
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kafkawire.messages.list_transactions_response import TransactionState as Listed
from kafkawire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)
from kafkawire.records import Record, build, build_marker
from tests.client.answers import OLD, describing
from tests.client.scripted import ScriptedBroker
from tests.records.record_bytes import fixed

STATE = "__transaction_state"
START, END = 40, 42
_PRODUCER, _EPOCH = 7, 3


class Log:
    """A partition's log and its leader's state: a transaction of producer id 7, epoch 3, open since offset 40.

    Attributes:
        start: of the open transaction, -1 for none. `beside`: where one of another producer began, -1 for none.
        end: of the log, and the high watermark. `stable`: the last stable offset, None as it follows.
        coordinator_epoch, timestamp, sequence: as the producer state has them.
        code: error of WriteTxnMarkers, `fetch_code` of Fetch. `marks`: whether WriteTxnMarkers writes its marker.
    """

    def __init__(self) -> None:
        self.start = START
        self.beside = -1
        self.end = END
        self.stable: int | None = None
        self.coordinator_epoch = 5
        self.timestamp = OLD
        self.sequence = -1
        self.code = 0
        self.fetch_code = 0
        self.marks = True
        batch = build(
            (Record(value=b"x", timestamp=OLD) for _ in range(END - START)),
            producer_id=_PRODUCER,
            producer_epoch=_EPOCH,
            base_sequence=0,
            transactional=True,
            base_offset=START,
        )
        self._batches = [(START, batch)]
        self._times = {START: OLD}

    def producers(self) -> tuple[ProducerState, ...]:
        mine = ProducerState(
            producer_id=_PRODUCER,
            producer_epoch=_EPOCH,
            last_timestamp=self.timestamp,
            last_sequence=self.sequence,
            coordinator_epoch=self.coordinator_epoch,
            current_txn_start_offset=self.start,
        )
        other = ProducerState(producer_id=8, producer_epoch=0, current_txn_start_offset=self.beside)
        return (mine, other)

    @property
    def last_stable(self) -> int:
        opens = [one for one in (self.start, self.beside) if one >= 0]
        return self.stable if self.stable is not None else min(opens, default=self.end)

    def append_marker(self, marker: Any, name: str = "ABORT") -> None:
        self.timestamp = OLD + 1000
        self._times[self.end] = OLD + 1000
        data = build_marker(
            name,
            offset=self.end,
            timestamp=OLD + 1000,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
        )
        self._batches.append((self.end, data))
        self.end += 1
        self.start = -1

    def append_unreadable_marker(self) -> None:
        """A control batch of producer 9 with a right checksum, and with a record that cannot be read."""
        data = build_marker(
            "COMMIT", offset=self.end, timestamp=OLD, producer_id=9, producer_epoch=0, coordinator_epoch=5
        )
        self._batches.append((self.end, fixed(data[:61] + b"\xff" * len(data[61:]))))
        self.end += 1

    def at(self, timestamp: int) -> int:
        """The first offset of what is not older, -1 where nothing is."""
        return min((offset for offset, time in self._times.items() if time >= timestamp), default=-1)

    def read(self, offset: int) -> bytes:
        return b"".join(data for base, data in self._batches if base >= offset)


class PartitionBroker(ScriptedBroker):
    """Leads partitions of `orders`, coordinates, and names no id; its `__transaction_state` cannot be read.

    Attributes:
        logs: by partition.
    """

    def __init__(self, partitions: int = 1) -> None:
        super().__init__({"orders": dict.fromkeys(range(partitions), 1), STATE: {0: 1}})
        self.versions |= {1: (4, 17), 29: (1, 3)}
        self.logs = {number: Log() for number in range(partitions)}
        self.on |= {
            DescribeAclsRequest: lambda _: DescribeAclsResponse(error_code=54),
            DescribeProducersRequest: self.describe_producers,
            ListTransactionsRequest: lambda _: ListTransactionsResponse(),
            ListOffsetsRequest: self.list_offsets,
            DescribeTransactionsRequest: describing(),
            FetchRequest: self.fetch,
            WriteTxnMarkersRequest: self.write_markers,
        }

    @property
    def log(self) -> Log:
        return self.logs[0]

    def describe_producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=tuple(
                TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        PartitionResponse(
                            partition_index=p,
                            active_producers=self.logs[p].producers() if topic.name == "orders" else (),
                        )
                        for p in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        def offset(asked: Any) -> int:
            log = self.logs[asked.partition_index]
            if asked.timestamp == -2:
                return 0
            if asked.timestamp >= 0:
                return log.at(asked.timestamp)
            return log.last_stable if request.isolation_level else log.end

        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(partition_index=one.partition_index, offset=offset(one))
                        if topic.name == "orders"
                        else ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=29)
                        for one in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (one,) = topic.partitions
        log = self.logs[one.partition]
        data = PartitionData(
            partition_index=one.partition,
            error_code=log.fetch_code,
            high_watermark=log.end,
            records=b"" if log.fetch_code else log.read(one.fetch_offset),
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic=topic.topic, partitions=(data,)),))

    def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        (topic,) = marker.topics
        (number,) = topic.partition_indexes
        log = self.logs[number]
        if log.marks and not log.code:
            log.append_marker(marker)
        partition = WritableTxnMarkerPartitionResult(partition_index=number, error_code=log.code)
        result = WritableTxnMarkerTopicResult(name=topic.name, partitions=(partition,))
        return WriteTxnMarkersResponse(
            markers=(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=(result,)),)
        )


NAME = "orders-service"


class Coordinator(PartitionBroker):
    """Coordinates one id with the transaction in orders-0; ends it on InitProducerId.

    Attributes:
        states: the id's, one after the other; the last stays. `code`: of DescribeTransactions.
        timeout_ms, began_ms: of the transaction.
        refusal: error code of InitProducerId. `ends`: whether InitProducerId ends the partition's transaction.
    """

    def __init__(self, *states: str, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.states = list(states) or ["Ongoing"]
        self.code = 0
        self.refusal = 0
        self.timeout_ms = 1000
        self.began_ms = 5
        self.ends = True
        self.on |= {
            DescribeTransactionsRequest: self.describe,
            InitProducerIdRequest: self.init_producer,
            ListTransactionsRequest: self.list_ids,
        }

    def list_ids(self, _: ListTransactionsRequest) -> ListTransactionsResponse:
        listed = Listed(transactional_id=NAME, producer_id=7, transaction_state=self.states[0])
        return ListTransactionsResponse(transaction_states=(listed,))

    def describe(self, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        open_ = state in ("Ongoing", "PrepareCommit", "PrepareAbort")
        (name,) = request.transactional_ids
        described = TransactionState(
            error_code=self.code,
            transactional_id=name,
            transaction_state=state,
            producer_id=7,
            producer_epoch=3,
            transaction_timeout_ms=self.timeout_ms,
            transaction_start_time_ms=self.began_ms if open_ else -1,
            topics=(TopicData(topic="orders", partitions=(0,)),) if open_ else (),
        )
        return DescribeTransactionsResponse(transaction_states=(described,))

    def init_producer(self, _: InitProducerIdRequest) -> InitProducerIdResponse:
        if self.refusal:
            return InitProducerIdResponse(error_code=self.refusal)
        if self.ends:
            self.log.start = -1
        self.states = ["Empty"]
        return InitProducerIdResponse(producer_id=7, producer_epoch=5)


SEARCH = Search(confirm_after_s=0.01, session_s=0.02, address="h:1")


@contextlib.contextmanager
def in_thread(broker: ScriptedBroker) -> Iterator[ScriptedBroker]:
    """The broker answers in a thread of its own, so that a command line can be run against it."""
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with broker.running():
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield broker
    finally:
        stop.set()
        thread.join(10)

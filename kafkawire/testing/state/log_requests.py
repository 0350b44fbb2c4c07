"""The requests about partitions: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DescribeProducers."""

from __future__ import annotations

from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.fetch_request import FetchPartition
from kafkawire.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kafkawire.messages.list_offsets_request import ListOffsetsPartition
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kafkawire.messages.offset_for_leader_epoch_request import OffsetForLeaderPartition
from kafkawire.messages.offset_for_leader_epoch_response import EpochEndOffset, OffsetForLeaderTopicResult
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.produce_response import LeaderIdAndEpoch as ProduceLeader
from kafkawire.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kafkawire.testing.state.call import Call, Handlers, Wait
from kafkawire.testing.state.stored_configs import MAX_MESSAGE_BYTES
from kafkawire.testing.state.stored_partition import MESSAGE_TOO_LARGE, PartitionLog
from kafkawire.testing.state.topics import FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, Topic, Topics
from kafkawire.testing.state.transactions import Transactions

OFFSET_OUT_OF_RANGE = CODES["OFFSET_OUT_OF_RANGE"]
CORRUPT_MESSAGE = CODES["CORRUPT_MESSAGE"]
INVALID_REQUIRED_ACKS = CODES["INVALID_REQUIRED_ACKS"]
FETCH_SESSION_ID_NOT_FOUND = CODES["FETCH_SESSION_ID_NOT_FOUND"]

#: Answers that name the leader (KIP-951).
_ELSEWHERE = (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH)
_NO_LEADER = -1, -1
_ACKS = (-1, 0, 1)
_READ_COMMITTED = 1


class LogRequests:
    """See the module. Fetch has no sessions: every request names its partitions (KIP-227 permits it)."""

    def __init__(self, topics: Topics, transactions: Transactions) -> None:
        self._topics = topics
        self._transactions = transactions
        self.handlers: Handlers = {
            ProduceRequest: (self.produce, range(3, 14)),
            FetchRequest: (self.fetch, range(4, 19)),
            ListOffsetsRequest: (self.list_offsets, range(1, 12)),
            OffsetForLeaderEpochRequest: (self.offset_for_leader_epoch, range(2, 5)),
            DescribeProducersRequest: (self.describe_producers, range(1)),
        }

    # Produce ----------------------------------------------------------------------------------------------------------

    def produce(self, call: Call) -> ProduceResponse | None:
        request: ProduceRequest = call.body
        response = ProduceResponse(responses=tuple(self._produced(call, asked) for asked in request.topic_data))
        return response if request.acks else None

    def _produced(self, call: Call, asked: TopicProduceData) -> TopicProduceResponse:
        topic = self._topics.topic(asked.name, asked.topic_id)
        parts = tuple(self._appended(call, topic, data) for data in asked.partition_data)
        return TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=parts)

    def _appended(self, call: Call, topic: Topic | int, data: PartitionProduceData) -> PartitionProduceResponse:
        log = call.error or self._topics.led(call, topic, data.index)
        if not isinstance(log, int) and call.body.acks not in _ACKS:
            log = INVALID_REQUIRED_ACKS
        if isinstance(log, int):
            leader = self._leader(topic, data.index) if log in _ELSEWHERE and call.version >= 10 else _NO_LEADER
            current = ProduceLeader(leader_id=leader[0], leader_epoch=leader[1])
            return PartitionProduceResponse(index=data.index, error_code=log, base_offset=-1, current_leader=current)
        assert isinstance(topic, Topic)
        most = int(topic.setting(MAX_MESSAGE_BYTES))
        if len(data.records or b"") > most:
            error, base_offset = MESSAGE_TOO_LARGE, -1
        else:
            error, base_offset = self._append(call, log, (topic.name, data.index), data.records)
        return PartitionProduceResponse(
            index=data.index, error_code=error, base_offset=base_offset, log_start_offset=-1 if error else log.start
        )

    def _append(
        self, call: Call, log: PartitionLog, place: tuple[str, int], data: bytes | memoryview | None
    ) -> tuple[int, int]:
        batch = log.checked(bytes(data or b""))
        if isinstance(batch, int):
            return batch, -1
        if batch.transactional and (error := self._transactions.admits(call, batch, log, place)):
            return error, -1
        return log.append(batch, call.now_ms)

    def _leader(self, topic: Topic | int, number: int) -> tuple[int, int]:
        """The node that leads a partition, and its epoch (KIP-951)."""
        log = self._topics.log(topic, number)
        return _NO_LEADER if isinstance(log, int) else (log.leader, log.leader_epoch)

    # Fetch ------------------------------------------------------------------------------------------------------------

    def fetch(self, call: Call) -> FetchResponse | Wait:
        request: FetchRequest = call.body
        if call.error and call.version >= 7:
            return FetchResponse(error_code=call.error)
        if request.session_id:
            return FetchResponse(error_code=FETCH_SESSION_ID_NOT_FOUND)
        left = request.max_bytes
        found = 0
        failed = False
        answers = []
        for asked in request.topics:
            topic = self._topics.topic(asked.topic, asked.topic_id)
            parts = []
            for wanted in asked.partitions:
                part = self._fetched(call, topic, wanted, left, at_least_one=not found)
                found += len(part.records or b"")
                left = max(0, request.max_bytes - found)
                failed |= part.error_code != 0
                parts.append(part)
            answers.append(FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=tuple(parts)))
        until = call.arrived_ms + request.max_wait_ms
        if found < request.min_bytes and not failed and call.now_ms < until:
            return Wait(until)
        return FetchResponse(responses=tuple(answers))

    def _fetched(
        self, call: Call, topic: Topic | int, wanted: FetchPartition, left: int, *, at_least_one: bool
    ) -> PartitionData:
        log = call.error or self._topics.led(call, topic, wanted.partition, wanted.current_leader_epoch)
        if isinstance(log, int):
            leader = self._leader(topic, wanted.partition) if log in _ELSEWHERE and call.version >= 12 else _NO_LEADER
            return PartitionData(
                partition_index=wanted.partition,
                error_code=log,
                high_watermark=-1,
                current_leader=LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
                records=b"",
            )
        stable, offset = log.last_stable_offset, wanted.fetch_offset
        inside = log.start <= offset <= log.end
        committed = call.body.isolation_level == _READ_COMMITTED
        below = stable if committed else log.end
        size = min(left, wanted.partition_max_bytes)
        taken = log.read(offset, size, below=below, at_least_one=at_least_one) if inside else []
        aborted = log.aborted_between(offset, taken[-1].last_offset) if committed and taken else []
        return PartitionData(
            partition_index=wanted.partition,
            error_code=0 if inside else OFFSET_OUT_OF_RANGE,
            high_watermark=log.end,
            last_stable_offset=stable,
            log_start_offset=log.start,
            aborted_transactions=tuple(
                AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset) for entry in aborted
            )
            if committed
            else None,
            records=b"".join(stored.data for stored in taken),
        )

    # ListOffsets, OffsetForLeaderEpoch, DescribeProducers -------------------------------------------------------------

    def list_offsets(self, call: Call) -> ListOffsetsResponse:
        request: ListOffsetsRequest = call.body
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=asked.name,
                    partitions=tuple(self._offset(call, asked.name, wanted) for wanted in asked.partitions),
                )
                for asked in request.topics
            )
        )

    def _offset(self, call: Call, name: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        number = wanted.partition_index
        log = call.error or self._topics.led(call, self._topics.topic(name), number, wanted.current_leader_epoch)
        if isinstance(log, int):
            return ListOffsetsPartitionResponse(partition_index=number, error_code=log)
        below = log.last_stable_offset if call.body.isolation_level == _READ_COMMITTED else log.end
        timestamp, offset = log.offset_for(wanted.timestamp, below=below)
        return ListOffsetsPartitionResponse(
            partition_index=number,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=log.leader_epoch if offset >= 0 and call.version >= 4 else -1,
        )

    def offset_for_leader_epoch(self, call: Call) -> OffsetForLeaderEpochResponse:
        request: OffsetForLeaderEpochRequest = call.body
        return OffsetForLeaderEpochResponse(
            topics=tuple(
                OffsetForLeaderTopicResult(
                    topic=asked.topic,
                    partitions=tuple(self._epoch_end(call, asked.topic, wanted) for wanted in asked.partitions),
                )
                for asked in request.topics
            )
        )

    def _epoch_end(self, call: Call, name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        number = wanted.partition
        log = call.error or self._topics.led(call, self._topics.topic(name), number, wanted.current_leader_epoch)
        if isinstance(log, int):
            return EpochEndOffset(partition=number, error_code=log)
        epoch, end = log.epoch_end(wanted.leader_epoch)
        return EpochEndOffset(partition=number, leader_epoch=epoch, end_offset=end)

    def describe_producers(self, call: Call) -> DescribeProducersResponse:
        request: DescribeProducersRequest = call.body
        return DescribeProducersResponse(
            topics=tuple(
                TopicResponse(
                    name=asked.name,
                    partitions=tuple(self._producers(call, asked.name, number) for number in asked.partition_indexes),
                )
                for asked in request.topics
            )
        )

    def _producers(self, call: Call, name: str, number: int) -> PartitionResponse:
        log = call.error or self._topics.led(call, self._topics.topic(name), number)
        if isinstance(log, int):
            return PartitionResponse(partition_index=number, error_code=log)
        return PartitionResponse(
            partition_index=number,
            active_producers=tuple(
                ProducerState(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=producer.first_offset,
                )
                for producer in log.replay.producers.values()
            ),
        )

"""The transaction coordinator: requests for transactional ids, answered by `testing.coordinator_machine`.

Markers are written at once, so that a client never meets a Prepare state. Transactions that are over their time are
ended by `expire`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from kafkawire import records
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kafkawire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kafkawire.messages.describe_transactions_response import TopicData
from kafkawire.messages.describe_transactions_response import TransactionState as DescribedTransaction
from kafkawire.messages.list_transactions_response import TransactionState as ListedTransaction
from kafkawire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)
from kafkawire.testing import coordinator_machine as machine
from kafkawire.testing.coordinator_machine import TransactionMetadata, Transition
from kafkawire.testing.state.call import MAX_ENTRIES, POLICY_VIOLATION, Call, Handlers, by_topic
from kafkawire.testing.state.memory import ENTRY
from kafkawire.testing.state.nodes import TRANSACTION
from kafkawire.testing.state.stored_partition import INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PartitionLog
from kafkawire.testing.state.topics import INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, Topics
from kafkawire.transactions.coordinator.coordinator_rules import PREPARED, STATES, partition_of_id, timed_out
from kafkawire.transactions.verdict.case import MAX_TIMEOUT_MS

OPERATION_NOT_ATTEMPTED = CODES["OPERATION_NOT_ATTEMPTED"]
TRANSACTIONAL_ID_NOT_FOUND = CODES["TRANSACTIONAL_ID_NOT_FOUND"]
TRANSACTION_ABORTABLE = CODES["TRANSACTION_ABORTABLE"]

OFFSETS_TOPIC = "__consumer_offsets"
_OFFSETS_PARTITIONS = 50
_COORDINATOR_EPOCH = 0
_FIRST_PRODUCER_ID = 1000

#: Request -> the first version that knows PRODUCER_FENCED; before it the answer is INVALID_PRODUCER_EPOCH.
_FENCED_SINCE: dict[type[Any], int] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
#: The first versions of Produce and TxnOffsetCommit that add to the transaction by themselves, and of EndTxn (KIP-890).
_PRODUCE_ADDS, _OFFSETS_ADD, _END_RAISES = 12, 5, 5
_ABORTABLE_SINCE = 11  # of Produce


class EndObserver(Protocol):
    """Is called when a transaction with offsets of groups ends."""

    def __call__(self, producer_id: int, *, committed: bool) -> None: ...


class Transactions:
    """See the module.

    Args:
        transaction_version: of the cluster, 0 to 2: the feature `transaction.version` (KIP-890).
        verify: whether Produce is refused for a partition that is not part of the transaction
            (transaction.partition.verification.enable). Without it, a transaction can be left hanging.

    Attributes:
        ids: transactional id -> its state.
        on_end: called for the offsets of each transaction that ends.
    """

    def __init__(self, topics: Topics, *, transaction_version: int, verify: bool) -> None:
        self.ids: dict[str, TransactionMetadata] = {}
        self.on_end: list[EndObserver] = []
        self._topics = topics
        self._version = transaction_version
        self._verify = verify
        self._next_producer_id = _FIRST_PRODUCER_ID
        self.handlers: Handlers = {
            InitProducerIdRequest: (self.init_producer_id, range(6)),
            AddPartitionsToTxnRequest: (self.add_partitions, range(6)),
            AddOffsetsToTxnRequest: (self.add_offsets, range(5)),
            EndTxnRequest: (self.end_txn, range(6)),
            WriteTxnMarkersRequest: (self.write_txn_markers, range(1, 3)),
            # Version 2 has regular expressions of the client's, which Python evaluates in exponential time.
            ListTransactionsRequest: (self.list_transactions, range(2)),
            DescribeTransactionsRequest: (self.describe_transactions, range(1)),
        }

    # The coordinator's part -------------------------------------------------------------------------------------------

    def _new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id

    def _version_of(self, raises: bool) -> int:
        """The version of a transaction: that of the cluster where the request is one of version 2, else 0."""
        return self._version if raises and self._version >= 2 else 0

    def _take(self, call: Call, name: str, step: Transition) -> int:
        """Keeps the next state of an id, with its markers. Returns the error code for the client."""
        before, memory = self.ids.get(name), self._topics.memory
        more = _size(name, step.after) - (0 if before is None else _size(name, before))
        if more > 0 and not memory.has_room(more):
            return POLICY_VIOLATION
        self._keep(name, self._completed(step.after, call.now_ms))
        if step.error == machine.PRODUCER_FENCED and call.version < _FENCED_SINCE.get(type(call.body), 0):
            return INVALID_PRODUCER_EPOCH
        return step.error

    def _keep(self, name: str, state: TransactionMetadata) -> None:
        self.ids[name] = state
        self._topics.memory.keep(("transactional id", name), _size(name, state))

    def _completed(self, state: TransactionMetadata, now_ms: int) -> TransactionMetadata:
        if state.state not in PREPARED:
            return state
        committed = state.state == "PrepareCommit"
        for topic, numbers in by_topic(state.partitions).items():
            self._mark(topic, numbers, state.producer_id, state.epoch, committed, _COORDINATOR_EPOCH, now_ms)
        return machine.complete(state, now=now_ms)

    def _mark(
        self,
        topic: str,
        numbers: Iterable[int],
        producer_id: int,
        epoch: int,
        committed: bool,
        coordinator_epoch: int,
        now_ms: int,
    ) -> list[int]:
        """Writes markers to partitions of a topic. Returns the error code of each."""
        if topic == OFFSETS_TOPIC:
            for observer in self.on_end:
                observer(producer_id, committed=committed)
            return [0 for _ in numbers]
        found = self._topics.topic(topic)
        outcome = "COMMIT" if committed else "ABORT"
        logs = (self._topics.log(found, number) for number in numbers)
        return [
            log if isinstance(log, int) else log.mark(outcome, producer_id, epoch, coordinator_epoch, now_ms)
            for log in logs
        ]

    def expire(self, now_ms: int) -> None:
        """Aborts the transactions that are open for longer than their timeout."""
        for name, state in self.ids.items():
            if timed_out(state.state, state.started, state.timeout_ms, now_ms):
                fenced = machine.fence(
                    state, now=now_ms, version=self._version, new_producer_id=self._new_producer_id()
                )
                self._keep(name, self._completed(fenced, now_ms))

    def _added(
        self, call: Call, name: str, producer_id: int, epoch: int, places: Collection[tuple[str, int]], raises: bool
    ) -> int:
        state = self.ids.get(name)
        if state is None:
            return machine.INVALID_PRODUCER_ID_MAPPING
        version = self._version_of(raises)
        step = machine.add_partitions(state, producer_id, epoch, places, now=call.now_ms, version=version)
        return self._take(call, name, step)

    def _verified(self, name: str, producer_id: int, epoch: int, places: Collection[tuple[str, int]]) -> int:
        """The error code for a write to partitions that must be part of the transaction; 0 for none."""
        state = self.ids.get(name)
        if state is None or producer_id != state.producer_id:
            return machine.INVALID_PRODUCER_ID_MAPPING
        if epoch != state.epoch:
            return machine.PRODUCER_FENCED
        return 0 if state.state == "Ongoing" and state.partitions.issuperset(places) else TRANSACTION_ABORTABLE

    def admits(self, call: Call, batch: records.Batch, log: PartitionLog, place: tuple[str, int]) -> int:
        """The error code for a transactional batch in Produce, 0 for none. Version 12 adds the partition (KIP-890).

        Args:
            call: the Produce request.
            batch: the batch.
            log: the partition that it is for.
            place: topic and number of the partition.
        """
        name, identity = call.body.transactional_id or "", (batch.producer_id, batch.producer_epoch)
        known = log.replay.producers.get(batch.producer_id)
        if known is not None and known.first_offset >= 0 and known.epoch == batch.producer_epoch:
            return 0  # verified at the first batch
        if call.version >= _PRODUCE_ADDS and self._version >= 2:
            error = self._added(call, name, *identity, {place}, True)
        elif self._verify:
            error = self._verified(name, *identity, {place})
        else:
            error = 0
        if error == machine.PRODUCER_FENCED:
            return INVALID_PRODUCER_EPOCH
        if error == TRANSACTION_ABORTABLE and call.version < _ABORTABLE_SINCE:
            return INVALID_TXN_STATE
        return error

    def admits_offsets(self, call: Call, request: TxnOffsetCommitRequest) -> int:
        """The error code for offsets of a transaction, 0 for none. TxnOffsetCommit 5 adds the group (KIP-890)."""
        name, identity = request.transactional_id, (request.producer_id, request.producer_epoch)
        places = {_offsets_place(request.group_id)}
        if call.version >= _OFFSETS_ADD and self._version >= 2:
            error = self._added(call, name, *identity, places, True)
        else:
            error = self._verified(name, *identity, places)
        if error == machine.PRODUCER_FENCED:
            return INVALID_PRODUCER_EPOCH
        return INVALID_TXN_STATE if error == TRANSACTION_ABORTABLE else error

    # Requests of producers --------------------------------------------------------------------------------------------

    def init_producer_id(self, call: Call) -> InitProducerIdResponse:
        request: InitProducerIdRequest = call.body
        name = request.transactional_id
        if call.error or name == "":
            return InitProducerIdResponse(error_code=call.error or INVALID_REQUEST, producer_epoch=-1)
        if name is None:
            return InitProducerIdResponse(producer_id=self._new_producer_id(), producer_epoch=0)
        timeout_ms = machine.timeout_of(request.transaction_timeout_ms, MAX_TIMEOUT_MS)
        if timeout_ms is None:
            return InitProducerIdResponse(error_code=machine.INVALID_TRANSACTION_TIMEOUT, producer_epoch=-1)
        before = self.ids.get(name)
        if before is None:
            if len(self.ids) >= MAX_ENTRIES:
                return InitProducerIdResponse(error_code=POLICY_VIOLATION, producer_epoch=-1)
            before = machine.create(self._new_producer_id(), timeout_ms, call.now_ms)
        own = request.producer_id, request.producer_epoch
        step = machine.init_producer_id(
            before,
            timeout_ms=timeout_ms,
            now=call.now_ms,
            new_producer_id=self._new_producer_id(),
            expected=None if own == (-1, -1) else own,
            version=self._version,
        )
        error = self._take(call, name, step)
        if error:
            return InitProducerIdResponse(error_code=error, producer_epoch=-1)
        return InitProducerIdResponse(producer_id=step.after.producer_id, producer_epoch=step.after.epoch)

    def add_partitions(self, call: Call) -> AddPartitionsToTxnResponse:
        request: AddPartitionsToTxnRequest = call.body
        if call.version < 4:
            own = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
            topics = request.v3_and_below_topics
            return AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=self._results(
                    call, request.v3_and_below_transactional_id, *own, topics, verify_only=False
                )
            )
        return AddPartitionsToTxnResponse(
            error_code=call.error,
            results_by_transaction=tuple(
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=self._results(
                        call,
                        each.transactional_id,
                        each.producer_id,
                        each.producer_epoch,
                        each.topics,
                        verify_only=each.verify_only,
                    ),
                )
                for each in request.transactions
            ),
        )

    def _results(
        self,
        call: Call,
        name: str,
        producer_id: int,
        epoch: int,
        topics: Collection[AddPartitionsToTxnTopic],
        *,
        verify_only: bool,
    ) -> tuple[AddPartitionsToTxnTopicResult, ...]:
        places = {(topic.name, number) for topic in topics for number in topic.partitions}
        unknown = {
            place for place in places if isinstance(self._topics.log(self._topics.topic(place[0]), place[1]), int)
        }
        if call.error or unknown:
            error = call.error or OPERATION_NOT_ATTEMPTED
        elif verify_only:
            error = self._verified(name, producer_id, epoch, places)
        else:
            error = self._added(call, name, producer_id, epoch, places, False)
        return tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=number,
                        partition_error_code=call.error
                        or (UNKNOWN_TOPIC_OR_PARTITION if (topic.name, number) in unknown else error),
                    )
                    for number in topic.partitions
                ),
            )
            for topic in topics
        )

    def add_offsets(self, call: Call) -> AddOffsetsToTxnResponse:
        request: AddOffsetsToTxnRequest = call.body
        own = request.transactional_id, request.producer_id, request.producer_epoch
        places = {_offsets_place(request.group_id)}
        return AddOffsetsToTxnResponse(error_code=call.error or self._added(call, *own, places, False))

    def end_txn(self, call: Call) -> EndTxnResponse:
        request: EndTxnRequest = call.body
        state = self.ids.get(request.transactional_id)
        if call.error or state is None:
            return EndTxnResponse(error_code=call.error or machine.INVALID_PRODUCER_ID_MAPPING)
        step = machine.end(
            state,
            request.producer_id,
            request.producer_epoch,
            committed=request.committed,
            now=call.now_ms,
            version=self._version_of(call.version >= _END_RAISES),
            new_producer_id=self._new_producer_id(),
        )
        error = self._take(call, request.transactional_id, step)
        after = self.ids[request.transactional_id]
        if error or call.version < _END_RAISES:
            return EndTxnResponse(error_code=error)
        return EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)

    # Requests of administrators ---------------------------------------------------------------------------------------

    def write_txn_markers(self, call: Call) -> WriteTxnMarkersResponse:
        request: WriteTxnMarkersRequest = call.body
        markers = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                numbers = topic.partition_indexes
                own = marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch
                errors = [call.error or self._elsewhere(call, topic.name, number) for number in numbers]
                led = [number for number, error in zip(numbers, errors, strict=True) if not error]
                marked = iter(self._mark(topic.name, led, *own, call.now_ms))
                errors = [error or next(marked) for error in errors]
                parts = (
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=error)
                    for number, error in zip(numbers, errors, strict=True)
                )
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=tuple(parts)))
            markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(topics)))
        return WriteTxnMarkersResponse(markers=tuple(markers))

    def _elsewhere(self, call: Call, topic: str, number: int) -> int:
        """The error code where another node leads a partition; 0 for none."""
        log = 0 if topic == OFFSETS_TOPIC else self._topics.led(call, self._topics.topic(topic), number)
        return log if isinstance(log, int) else 0

    def list_transactions(self, call: Call) -> ListTransactionsResponse:
        request: ListTransactionsRequest = call.body
        states, producers = set(request.state_filters), set(request.producer_id_filters)
        return ListTransactionsResponse(
            error_code=call.error,
            unknown_state_filters=tuple(sorted(states.difference(STATES.values()))),
            transaction_states=tuple(
                ListedTransaction(transactional_id=name, producer_id=state.producer_id, transaction_state=state.state)
                for name, state in self.ids.items()
                if not call.error
                and self._topics.nodes.coordinator(TRANSACTION, name) == call.node
                and (not states or state.state in states)
                and (not producers or state.producer_id in producers)
                and (request.duration_filter < 0 or call.now_ms - state.started > request.duration_filter)
            ),
        )

    def describe_transactions(self, call: Call) -> DescribeTransactionsResponse:
        request: DescribeTransactionsRequest = call.body
        described = (self._described(name, call.error) for name in request.transactional_ids)
        return DescribeTransactionsResponse(transaction_states=tuple(described))

    def _described(self, name: str, error: int) -> DescribedTransaction:
        state = self.ids.get(name)
        if error or state is None:
            return DescribedTransaction(transactional_id=name, error_code=error or TRANSACTIONAL_ID_NOT_FOUND)
        return DescribedTransaction(
            transactional_id=name,
            transaction_state=state.state,
            transaction_timeout_ms=state.timeout_ms,
            transaction_start_time_ms=state.started,
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            topics=tuple(
                TopicData(topic=topic, partitions=tuple(numbers))
                for topic, numbers in by_topic(state.partitions).items()
            ),
        )


def _offsets_place(group_id: str) -> tuple[str, int]:
    """The partition that a group's offsets belong to."""
    return OFFSETS_TOPIC, partition_of_id(group_id, _OFFSETS_PARTITIONS)


def _size(name: str, state: TransactionMetadata) -> int:
    """Bytes that an id takes in memory."""
    return ENTRY + len(name) + sum(ENTRY + len(topic) for topic, _ in state.partitions)

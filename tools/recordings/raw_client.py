"""Requests that no client library sends: Kafka's protocol by hand, through this package's own codecs."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kafkawire import frames, messages, records
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kafkawire.messages.metadata_request import MetadataRequestTopic
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker, WritableTxnMarkerTopic
from kafkawire.wire.message import Message
from tools.polling import until

from . import RecordingError

CLIENT_ID = "kafkawire-examples"
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, COORDINATOR_LOAD_IN_PROGRESS,
# COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS: they pass.
TRANSIENT = frozenset({3, 5, 6, 14, 15, 16, 51})
_RETRY_S = 20.0  # partitions and coordinators take a moment to be there
_TIMEOUT_S = 15.0
_TRANSACTION = 1  # FindCoordinator's key type
#: Requests in flight: their responses fit into the socket's buffers.
_AT_ONCE = 500
_UNSUPPORTED_VERSION = 35

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, kw_only=True)
class RawExchange:
    """A request that we sent and the response it got, as the machine-readable truth names them."""

    api: str
    api_key: int
    version: int
    correlation_id: int
    client_id: str
    client_port: int
    broker_port: int
    request_bytes: int
    response_bytes: int


@dataclass
class RawProducer:
    """A producer id, its epoch, and the transactional id that it was given for (None: for none)."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None


class RawConnection:
    """One TCP connection to one broker; a request at a time."""

    def __init__(self, host: str, port: int, exchanges: list[RawExchange]) -> None:
        self._socket = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        self._port = port
        self._client_port: int = self._socket.getsockname()[1]
        self._exchanges = exchanges
        self._reader = frames.FrameReader()
        self._correlation_id = 0

    def ask(self, body: Message, version: int, expected: type[M]) -> M:
        """Sends a request and returns the decoded body of its response.

        Args:
            version: of the request and its response. `expected`: class of the response.
        """
        return _decoded(self._exchange(self._encoded(body, version), body, version), body, version, expected)

    def ask_often(self, body: Message, version: int, expected: type[M], times: int) -> M:
        """Sends a request again and again without a wait in between, which a broker answers one after the other; the
        decoded body of the last response. Neither `exchanges` nor memory grows with `times`.
        """
        request = self._encoded(body, version)
        frame = b""
        while times:
            count = min(times, _AT_ONCE)
            self._socket.sendall(request * count)
            times -= count
            while count:
                data = self._socket.recv(1 << 16)
                if not data:
                    raise self._closed()
                answered = list(self._reader.feed(data))
                frame = answered[-1] if answered else frame
                count -= len(answered)
        return _decoded(frame, body, version, expected)

    def _encoded(self, body: Message, version: int) -> bytes:
        self._correlation_id += 1
        return frames.encode_request(body, version=version, correlation_id=self._correlation_id, client_id=CLIENT_ID)

    def ask_api_versions_of_the_future(self, version: int) -> messages.ApiVersionsResponse:
        """ApiVersions in a version that no broker knows: the answer is error 35 in a body of version 0 (KIP-511)."""
        body = messages.ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="99")
        request = bytearray(self._encoded(body, body.spec.valid_versions[-1]))
        struct.pack_into(">h", request, 6, version)
        answer = _decoded(self._exchange(bytes(request), body, version), body, version, messages.ApiVersionsResponse)
        if answer.error_code != _UNSUPPORTED_VERSION:
            raise RecordingError(f"ApiVersions v{version} is not answered with error {_UNSUPPORTED_VERSION}: {answer}")
        return answer

    def _exchange(self, request: bytes, body: Message, version: int) -> bytes:
        self._socket.sendall(request)
        frame = self._frame()
        self._exchanges.append(
            RawExchange(
                api=_name_of(body),
                api_key=_key_of(body),
                version=version,
                correlation_id=self._correlation_id,
                client_id=CLIENT_ID,
                client_port=self._client_port,
                broker_port=self._port,
                request_bytes=len(request) - 4,
                response_bytes=len(frame),
            )
        )
        return frame

    def close(self) -> None:
        self._socket.close()

    def _frame(self) -> bytes:
        """The next one: a request waits for its response, so no more than one comes."""
        while data := self._socket.recv(1 << 16):
            for frame in self._reader.feed(data):
                return frame
        raise self._closed()

    def _closed(self) -> RecordingError:
        return RecordingError(f"127.0.0.1:{self._port} closed the connection")


@dataclass
class RawCluster:
    """A cluster, seen request by request. Every exchange is kept in `exchanges`."""

    bootstrap: str
    exchanges: list[RawExchange] = field(default_factory=list)
    _connections: dict[int, RawConnection] = field(default_factory=dict)

    def __enter__(self) -> RawCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    def connection(self, node_id: int) -> RawConnection:
        """The connection to one broker; -1 is the first of the bootstrap addresses."""
        if node_id not in self._connections:
            if node_id == -1:
                host, _, port = self.bootstrap.split(",")[0].partition(":")
                address = (host, int(port))
            else:
                address = self.brokers()[node_id]
            self._connections[node_id] = RawConnection(*address, self.exchanges)
        return self._connections[node_id]

    def metadata(self, topics: Iterable[str] = ()) -> messages.MetadataResponse:
        asked = tuple(MetadataRequestTopic(name=name) for name in topics)
        request = messages.MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        return self.connection(-1).ask(request, 11, messages.MetadataResponse)

    def brokers(self) -> dict[int, tuple[str, int]]:
        """{node id: (host, port)}"""
        return {broker.node_id: (broker.host, broker.port) for broker in self.metadata().brokers}

    def leaders(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """{(topic, partition): node id of its leader}, once every partition has one."""

        def all_led() -> dict[tuple[str, int], int] | None:
            answer = self.metadata(wanted)
            if any(topic.error_code or any(p.error_code for p in topic.partitions) for topic in answer.topics):
                return None
            return {(t.name or "", p.partition_index): p.leader_id for t in answer.topics for p in t.partitions}

        wanted = tuple(topics)
        return until(all_led, f"leaders of {', '.join(wanted)}", seconds=_RETRY_S)

    def coordinator(self, transactional_id: str) -> int:
        """The node id of the transaction coordinator."""
        request = messages.FindCoordinatorRequest(key_type=_TRANSACTION, key=transactional_id)
        return self._settled(lambda: -1, request, 3, messages.FindCoordinatorResponse, _code, "FindCoordinator").node_id

    def init_producer(
        self, transactional_id: str | None, *, timeout_ms: int = 900_000, two_phase: bool = False
    ) -> RawProducer:
        """A producer id: for a transactional id from its coordinator, for none from any broker.

        Args:
            transactional_id: None for a producer without transactions, from any broker. `timeout_ms`: of its
                transactions.
            two_phase: its transactions never time out (KIP-939); the brokers must allow that.
        """
        request = messages.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, enable2_pc=two_phase
        )
        answer = self._settled(
            lambda: -1 if transactional_id is None else self.coordinator(transactional_id),
            request, 6 if two_phase else 4, messages.InitProducerIdResponse, _code, "InitProducerId",
        )  # fmt: skip
        return RawProducer(answer.producer_id, answer.producer_epoch, transactional_id)

    def add_partitions(self, producer: RawProducer, partitions: Mapping[str, Sequence[int]]) -> None:
        """AddPartitionsToTxn v3, which producers send before they write with transaction version 1."""
        transactional_id = _id_of(producer)
        request = messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes)) for name, indexes in partitions.items()
            ),
        )

        def code(answer: messages.AddPartitionsToTxnResponse) -> int:
            results = (one for topic in answer.results_by_topic_v3_and_below for one in topic.results_by_partition)
            codes = {one.partition_error_code for one in results}
            return min(codes & TRANSIENT, default=max(codes))

        self._settled(
            lambda: self.coordinator(transactional_id),
            request, 3, messages.AddPartitionsToTxnResponse, code, "AddPartitionsToTxn",
        )  # fmt: skip

    def produce(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        producer: RawProducer,
        *,
        timestamp: int,
        sequence: int = 0,
        version: int = 9,
        transactional: bool = True,
        passing: frozenset[int] = TRANSIENT,
        expected: int = 0,
    ) -> int:
        """Writes one batch, whether or not its partition is part of a transaction; the base offset.

        Produce before version 12 does not add the partition to the transaction: that is AddPartitionsToTxn's task, and
        without it no coordinator ends the records' transaction.

        Args:
            values: of the records. `timestamp`: CreateTime of the first one, epoch milliseconds; a second between two.
            sequence: number of the first record. `version`: of Produce. `transactional`: of the batch.
            passing: error codes after which the request is sent again. `expected`: the code of the response.
        """
        batch = records.build(
            (
                records.Record(key=b"%d" % (sequence + i), value=value, timestamp=timestamp + 1000 * i)
                for i, value in enumerate(values)
            ),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=partition, records=batch),))
        named = producer.transactional_id or (f"lost-{producer.producer_id}" if transactional else None)
        request = messages.ProduceRequest(transactional_id=named, acks=-1, timeout_ms=10_000, topic_data=(data,))
        answer = self._settled(
            lambda: self._leader(topic, partition),
            request, version, messages.ProduceResponse,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
            f"Produce to {topic}-{partition}", passing=passing, expected=expected,
        )  # fmt: skip
        return answer.responses[0].partition_responses[0].base_offset

    def end(self, producer: RawProducer, *, committed: bool, version: int = 3) -> int:
        """EndTxn; the error code. With version 3 the epoch stays (version 5, of transaction version 2, bumps it).

        Args:
            committed: commit or abort. `version`: of EndTxn.
        """
        transactional_id = _id_of(producer)
        request = messages.EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        return self._settled(
            lambda: self.coordinator(transactional_id),
            request, version, messages.EndTxnResponse, _code, "EndTxn", expected=None,
        ).error_code  # fmt: skip

    def write_marker(self, topic: str, partition: int, producer: RawProducer, *, coordinator_epoch: int) -> None:
        """WriteTxnMarkers v1 with an ABORT for one partition at its leader: what an operator's abort sends.

        Args:
            coordinator_epoch: that the marker carries.
        """
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,)),),
            coordinator_epoch=coordinator_epoch,
        )
        self._settled(
            lambda: self._leader(topic, partition),
            messages.WriteTxnMarkersRequest(markers=(marker,)), 1, messages.WriteTxnMarkersResponse,
            lambda answer: answer.markers[0].topics[0].partitions[0].error_code,
            f"WriteTxnMarkers on {topic}-{partition}",
        )  # fmt: skip

    def _leader(self, topic: str, partition: int) -> int:
        return self.leaders([topic])[topic, partition]

    def _settled(
        self,
        node: Callable[[], int],
        request: Message,
        version: int,
        expected_class: type[M],
        code: Callable[[M], int],
        what: str,
        *,
        passing: frozenset[int] = TRANSIENT,
        expected: int | None = 0,
    ) -> M:
        """The first response whose error does not pass.

        Args:
            node: the id of the broker that is asked, found anew for each request. `code`: the error of a response.
            what: the request, for the text. `expected`: the error code of the response; None: any.
        """

        def answered() -> M | None:
            answer = self.connection(node()).ask(request, version, expected_class)
            return None if code(answer) in passing else answer

        answer = until(answered, what, seconds=_RETRY_S)
        if expected is not None and code(answer) != expected:
            raise RecordingError(f"{what} answers error {code(answer)}")
        return answer


def expect(answer: object, wanted: object, what: str) -> None:
    """Raises RecordingError where an answer, or an error code, is not the expected one.

    Args:
        what: that is answered, for the text.
    """
    if answer != wanted:
        raise RecordingError(f"{what} answers {answer}, not {wanted}")


def _decoded(frame: bytes, body: Message, version: int, expected: type[M]) -> M:
    """The body of a response to a request with that body."""
    response = frames.decode_response(frame, api_key=_key_of(body), version=version)
    answer = getattr(response, "body", None)
    if not isinstance(answer, expected):
        raise RecordingError(f"the response to {_name_of(body)} v{version} cannot be decoded: {response}")
    return answer


def _key_of(request: Message) -> int:
    api_key = type(request).spec.api_key
    assert api_key is not None
    return api_key


def _name_of(request: Message) -> str:
    return type(request).__name__.removesuffix("Request")


def _code(answer: messages.FindCoordinatorResponse | messages.InitProducerIdResponse | messages.EndTxnResponse) -> int:
    return answer.error_code


def _id_of(producer: RawProducer) -> str:
    if producer.transactional_id is None:
        raise RecordingError(f"producer id {producer.producer_id} has no transactional id")
    return producer.transactional_id

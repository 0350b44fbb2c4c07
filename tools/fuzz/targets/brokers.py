"""Responses of a hostile broker, or of an attacker in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

from msgspec import structs

from kafkawire import frames, records
from kafkawire.client import Admin, Connection, Search, TopicPartition
from kafkawire.client.actions.aborting import abort, look_at
from kafkawire.client.actions.terminating import describe_one, terminate
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.diagnosis.doctor import examine
from kafkawire.client.diagnosis.transaction_state_log import read_ids
from kafkawire.client.diagnosis.wire_audit import WireAudit, audit
from kafkawire.client.errors import ClientError, ConnectError, NoSuchBrokerError
from kafkawire.client.rpc.group_offsets import group_offsets
from kafkawire.client.rpc.hidden_resources import has_authorizer, hidden_topics
from kafkawire.client.transport.config import Config
from kafkawire.client.transport.sasl import Credentials
from kafkawire.errors import DecodeError, KafkaWireError
from kafkawire.messages import ListTransactionsRequest, SaslAuthenticateResponse, SaslHandshakeResponse
from kafkawire.testing import MockBroker
from kafkawire.testing.state.stored_partition import Stored
from kafkawire.transactions.log.producer_append import append_of
from kafkawire.transactions.verdict.abort_rules import Refused, TransactionSpec
from kafkawire.wire.message import Message
from tools.fuzz import inputs, seed_vectors
from tools.fuzz.target import FuzzTarget

_PLACE = TopicPartition("orders", 0)


# Connections ----------------------------------------------------------------------------------------------------------

_WHO = (
    None,
    Credentials(mechanism="PLAIN", username="u", password="p"),
    Credentials(mechanism="SCRAM-SHA-256", username="u", password="p"),
    Credentials(mechanism="OAUTHBEARER", token="t"),
)
_RAW, _AGAIN = 0x80, 0x40


def check_connection(data: bytes) -> None:
    """Parts: our login (by the first byte), then the broker's answers, each after a byte with its form: raw bytes, or a
    frame that answers the next request."""
    parts = inputs.parts_of(data)
    credentials = inputs.pick(_WHO, parts[0] if parts else b"")
    connection = Connection("b:9092", client_id="c", credentials=credentials, max_response_bytes=1 << 20)
    sent = frames.FrameReader()
    asked = [frame[4:8] for frame in sent.feed(connection.start())]
    with suppress(ClientError):
        for part in parts[1:]:
            how = part[0] if part else 0
            sent_bytes = part[1:]
            if not how & _RAW:
                number = asked[0] if asked else b"\0\0\0\0"
                if asked and not how & _AGAIN:
                    del asked[0]
                sent_bytes = (len(sent_bytes) + 4).to_bytes(4, "big") + number + sent_bytes
            half = len(sent_bytes) // 2 or 1
            for piece in (sent_bytes[:half], sent_bytes[half:]):
                if piece:
                    events = connection.receive(piece)
                    assert all(connection.ready for _ in events)
            asked += [frame[4:8] for frame in sent.feed(connection.outgoing())]
            if connection.ready:
                _, request = connection.request(ListTransactionsRequest())
                asked += [frame[4:8] for frame in sent.feed(request)]
        connection.receive(b"")
    assert connection.in_flight <= len(parts) + 3


def _connections() -> Iterator[bytes]:
    from tests.client.test_client_connection import offered

    hello = b"\0" + offered().encode(3)
    sasl = b"\0" + SaslHandshakeResponse(mechanisms=("PLAIN", "SCRAM-SHA-256")).encode(1)
    done = b"\0" + SaslAuthenticateResponse(session_lifetime_ms=9).encode(2)
    refused = b"\0" + SaslAuthenticateResponse(error_code=58, error_message="no").encode(2)
    old = b"\0" + offered(error_code=35).encode(0)
    scram = b"\0" + SaslAuthenticateResponse(auth_bytes=b"r=x,s=eA==,i=4096").encode(2)
    for who in range(len(_WHO)):
        first = bytes([who])
        yield inputs.joined([first, hello, sasl, done, done])
        yield inputs.joined([first, hello, sasl, refused])
        yield inputs.joined([first, old, hello, sasl, scram, scram])
    yield inputs.joined([b"\0", b"\x80\x15\x03\x03\x00\x02\x02\x50"])
    yield inputs.joined([b"\0", b"\x80HTTP/1.1 400 Bad Request\r\n\r\n"])
    yield inputs.joined([b"\0", b"\x80" + b"\x7f\xff\xff\xff"])


# Calls ----------------------------------------------------------------------------------------------------------------

_FAST = {"default.api.timeout.ms": "1", "retry.backoff.ms": "0", "retry.backoff.max.ms": "0"}
_MOST_ANSWERS = 200
_SEARCH = Search(confirm_after_s=0, session_s=0)


class _AnsweringCluster(Cluster):
    """A cluster whose brokers answer with a fuzzer's bytes: one response each, in turn."""

    def __init__(self, answers: list[bytes]) -> None:
        super().__init__(Config.of("b:9092", _FAST))
        self._answers = answers
        self._given = 0

    async def ask_broker(
        self, broker_id: int, body: Message, deadline: Any, *, at_most: int | None = None, **_: Any
    ) -> Any:
        if not self._answers or self._given >= _MOST_ANSWERS:
            raise ConnectError("b:9092", "closed")
        sent_bytes = self._answers[self._given % len(self._answers)]
        self._given += 1
        cls = inputs.message_of(body.spec.name.removesuffix("Request") + "Response")
        version = body.spec.valid_versions[-1] if at_most is None else at_most
        body.encode(version)  # the request can be encoded
        try:
            return cls.decode_from(sent_bytes, version)[0]
        except DecodeError as error:
            raise ConnectError("b:9092", str(error)) from None

    async def link(self, broker_id: int, deadline: Any) -> Any:
        await self.highest(ListTransactionsRequest, deadline, broker_id)
        return _AnsweringLink(self, broker_id)

    async def highest(
        self, request: type[Message], deadline: Any, broker_id: int = -1, *, at_most: int | None = None
    ) -> int:
        if broker_id >= 0 and broker_id not in self.brokers:
            raise NoSuchBrokerError.of(broker_id, self.brokers)
        return request.spec.valid_versions[-1]


class _AnsweringLink:
    """A connection to a broker of `_AnsweringCluster`."""

    def __init__(self, cluster: _AnsweringCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    async def ask(self, body: Message, *_: Any, at_most: int | None = None, **more: Any) -> Any:
        return await self._cluster.ask_broker(self._broker_id, body, Deadline(1.0), at_most=at_most)

    async def ask_then(self, first: Message, then: Message, guard: Callable[[Any], None], **_: Any) -> Any:
        guard(await self.ask(first))
        return await self.ask(then)


async def _terminated(admin: Admin) -> Any:
    found, _ = await describe_one(admin.cluster, "a", _SEARCH)
    return await terminate(admin.cluster, found, _SEARCH, record=lambda *_: None)


async def _aborted(admin: Admin) -> Any:
    findings = (await look_at(admin.cluster, TransactionSpec(topic="orders", partition=0), _SEARCH)).findings
    return await abort(admin.cluster, findings[0], _SEARCH, record=lambda *_: None, force=True) if findings else None


_CALLS: tuple[Callable[[Admin], Awaitable[Any]], ...] = (
    lambda admin: admin.cluster.metadata(),
    lambda admin: admin.list_transactions(),
    lambda admin: admin.describe_transactions(["a", "b"]),
    lambda admin: admin.fence_producers(["a"]),
    lambda admin: admin.describe_producers([_PLACE, TopicPartition("orders", 1)]),
    lambda admin: admin.offsets([_PLACE]),
    lambda admin: admin.find_hanging_transactions(_SEARCH),
    lambda admin: admin.abort_transaction(_PLACE, start_offset=0),
    lambda admin: group_offsets(admin.cluster, "g", [], admin.cluster.deadline()),
    lambda admin: read_ids(admin.cluster, [0], admin.cluster.deadline()),
    lambda admin: has_authorizer(admin.cluster, admin.cluster.deadline()),
    lambda admin: hidden_topics(admin.cluster, [1], [], admin.cluster.deadline()),
    lambda admin: audit(admin.cluster, WireAudit(search=_SEARCH, since_ms=0)),
    lambda admin: examine(admin.cluster),
    _terminated,
    lambda admin: admin.find_hanging_transactions(structs.replace(_SEARCH, impact=True, show_records=1)),
    _aborted,
)


def check_calls(data: bytes) -> None:
    """Parts: which call (by the first byte), then the bodies of the brokers' answers, which come again at their end."""
    parts = inputs.parts_of(data)
    call = inputs.pick(_CALLS, parts[0] if parts else b"")

    async def run() -> None:
        with suppress(ClientError, Refused):
            repr(await call(Admin(_AnsweringCluster(parts[1:]))))

    asyncio.run(run())


def _calls() -> Iterator[bytes]:
    newest: dict[str, list[bytes]] = {}
    for name, version, data, _ in seed_vectors.messages(300):
        if version == inputs.message_of(name).spec.valid_versions[-1]:
            newest.setdefault(name, []).append(data)
    names = (
        ("Metadata",), ("Metadata", "ListTransactions"), ("FindCoordinator", "DescribeTransactions"),
        ("FindCoordinator", "InitProducerId"), ("Metadata", "DescribeProducers"), ("Metadata", "ListOffsets"),
        ("Metadata", "Metadata", "Metadata", "DescribeProducers", "Metadata", "ListOffsets", "ListTransactions"),
        ("Metadata", "DescribeProducers", "Metadata", "WriteTxnMarkers"), ("FindCoordinator", "OffsetFetch"),
        ("Metadata", "ListOffsets", "ListOffsets", "ListOffsets", "Metadata", "Fetch"), ("DescribeAcls",),
        ("DescribeLogDirs",),
    )  # fmt: skip
    for number, answers in enumerate(names):
        for variant in range(3):
            bodies = [newest[f"{name}Response"] for name in answers]
            yield inputs.joined([bytes([number]), *(found[variant % len(found)] for found in bodies)])
    yield from _scripted()
    yield from _recorded()


def _scripted() -> Iterator[bytes]:
    """Answers of scripted brokers that fit their requests, call by call."""
    from tests.client.answers import describing, listing, marked, producers
    from tests.client.scripted import ScriptedBroker

    sent_bytes: list[bytes] = []
    broker = ScriptedBroker({"orders": {0: 1}, "__transaction_state": {0: 1}})
    broker.brokers = {1: 9092}
    answers: dict[str, Callable[[Any], Any]] = {
        "MetadataRequest": broker.metadata,
        "FindCoordinatorRequest": broker.find_coordinator,
        "ListTransactionsRequest": lambda _: listing("a", "b"),
        "DescribeTransactionsRequest": describing(),
        "DescribeProducersRequest": producers(),
        "WriteTxnMarkersRequest": lambda _: marked(),
    }

    class Recorded(_AnsweringCluster):
        async def ask_broker(self, broker_id: int, body: Message, deadline: Any, **options: Any) -> Any:
            answer = answers.get(body.spec.name)
            if answer is None:
                raise ConnectError("b:9092", "no answer")
            found = answer(body)
            at_most = options.get("at_most")
            version = found.spec.valid_versions[-1] if at_most is None else at_most
            sent_bytes.append(found.encode(version))
            return found

    for number, call in enumerate(_CALLS):
        sent_bytes.clear()

        async def run(call: Callable[[Admin], Awaitable[Any]] = call) -> None:
            with suppress(KafkaWireError):
                await call(Admin(Recorded([])))

        asyncio.run(run())
        if sent_bytes:
            yield inputs.joined([bytes([number]), *sent_bytes])


class _RecordingCluster(Cluster):
    """A cluster that keeps its brokers' answers, as `_AnsweringCluster` reads them."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(Config.of(bootstrap))
        self.answers: list[bytes] = []

    async def ask_broker(self, broker_id: int, body: Message, deadline: Any, **options: Any) -> Any:
        found = await super().ask_broker(broker_id, body, deadline, **options)
        at_most = options.get("at_most")
        self.answers.append(found.encode(found.spec.valid_versions[-1] if at_most is None else at_most))
        return found


def _recorded() -> Iterator[bytes]:
    """Answers of a broker in memory with an open transaction, call by call."""

    async def run() -> list[bytes]:
        seeds = []
        async with MockBroker({"orders": 1, "__transaction_state": 1}) as broker:
            log = broker._log("orders", 0)
            data = records.build(
                [records.Record(b"k", b"v", timestamp=1)],
                producer_id=3,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            (batch,) = records.read(data)
            assert isinstance(batch, records.Batch)
            append = append_of(batch)
            assert append is not None
            log.batches.append(Stored(0, 0, 1, data))
            log.replay.add(append)
            log.end = 1
            for number, call in enumerate(_CALLS):
                cluster = _RecordingCluster(broker.address)
                async with Admin(cluster) as admin:
                    with suppress(KafkaWireError):
                        await call(admin)
                seeds.append(inputs.joined([bytes([number]), *cluster.answers]))
        return seeds

    yield from asyncio.run(run())


# ----------------------------------------------------------------------------------------------------------------------

TARGETS = (
    FuzzTarget(
        name="connections",
        reads="what a hostile broker sends: TLS, HTTP, sizes, correlation ids, versions, SASL",
        holds="`ClientError`, or events; nothing is answered that was not asked",
        check=check_connection,
        seeds=_connections,
        form=inputs.PARTS,
    ),
    FuzzTarget(
        name="calls",
        reads="a hostile broker's answers to every call of the admin client, to find-hanging, the audit and doctor",
        holds="`ClientError`, `Refused`, or a result; every request that follows can be encoded",
        check=check_calls,
        seeds=_calls,
        form=inputs.PARTS,
        longest=4096,
    ),
)

"""Everything that a broker was seen to do instead of an answer, row by row: one sentence each, and it ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from kafkawire.client import (
    Admin,
    ApiTimeoutError,
    AuthenticationError,
    BrokerError,
    ClientError,
    ConnectError,
    PeerError,
    ProtocolError,
    RequestTimeoutError,
    TlsError,
)
from kafkawire.client.diagnosis.transaction_state_log import read_ids
from kafkawire.drafts import kip_664_adopted, kip_664_draft
from kafkawire.errors import EncodeError
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    TransactionLogKey,
    TransactionLogValue,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.find_coordinator_response import Coordinator
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kafkawire.records import Record, build
from kafkawire.testing.server import reset
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.wire.message import Message
from tests.client.answers import P, admin, describing, listing, marked, producers, scenario, script
from tests.client.scripted import RESET, ScriptedBroker, served

pytestmark = pytest.mark.slow

#: Of every call here: less than what a test may take (`answers.HANG_S`), more than a request.
SOON_S = 1.0

# Calls: the answer, or its error --------------------------------------------------------------------------------------


async def list_(client: Admin) -> Any:
    return (await client.list_transactions(timeout_s=SOON_S))[1]


async def describe(client: Admin) -> Any:
    return (await client.describe_transactions(["a"], timeout_s=SOON_S))["a"]


async def fence(client: Admin) -> Any:
    return (await client.fence_producers(["a"], timeout_s=SOON_S))["a"]


async def active(client: Admin) -> Any:
    return (await client.describe_producers([P], timeout_s=SOON_S))[P]


async def offsets(client: Admin) -> Any:
    return (await client.offsets([P], timeout_s=SOON_S))[P]


async def abort(client: Admin) -> Any:
    return await client.abort_transaction(P, producer_id=7, producer_epoch=3, coordinator_epoch=0, timeout_s=SOON_S)


def positions(code: int) -> Callable[[ListOffsetsRequest], ListOffsetsResponse]:
    def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=one.partition_index, error_code=code, offset=0 if one.timestamp == -2 else 1
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    return answer


def found(code: int) -> Callable[[FindCoordinatorRequest], FindCoordinatorResponse]:
    """FindCoordinator that fails."""
    return lambda request: FindCoordinatorResponse(
        coordinators=tuple(Coordinator(key=key, node_id=-1, error_code=code) for key in request.coordinator_keys)
    )


def failed(kind: type[Message], code: int) -> Any:
    return lambda _: kind(error_code=code)  # type: ignore[call-arg]


_HALF = bytes.fromhex("00000040 00000001 0000")
_HUGE = bytes.fromhex("7fffffff 00000001")
_NO_REQUEST = bytes.fromhex("00000005 00007777 00")
_BROKEN = bytes.fromhex("00000007 00000002 0000ff")  # versions and metadata came before


class Row(NamedTuple):
    """The broker's response to a request, a call of the client, and the error that it raises."""

    says: tuple[type[Message], Any]
    call: Callable[[Admin], Awaitable[Any]]
    kind: type[ClientError]
    text: str


ROWS = {
    "closed at the request": Row((ListTransactionsRequest, None), list_, ConnectError, "closed the connection"),
    "reset": Row((ListTransactionsRequest, RESET), list_, ConnectError, "closed the connection"),
    "silence": Row((ListTransactionsRequest, ...), list_, RequestTimeoutError, "no answer to ListTransactions in"),
    "half a frame": Row((ListTransactionsRequest, _HALF), list_, RequestTimeoutError, "no answer to ListTransactions"),
    "a frame of 2 GB": Row((ListTransactionsRequest, _HUGE), list_, ProtocolError, "no Kafka response"),
    "another id": Row((ListTransactionsRequest, _NO_REQUEST), list_, ProtocolError, "30583, which was never sent"),
    "an answer that is broken": Row((ListTransactionsRequest, _BROKEN), list_, ProtocolError, "ListTransactions v2"),
    "loading for ever": Row(
        (ListTransactionsRequest, failed(ListTransactionsResponse, 14)),
        list_,
        ApiTimeoutError,
        "ListTransactions: COORDINATOR_LOAD_IN_PROGRESS (after 1 s)",
    ),
    "not there for ever": Row(
        (ListTransactionsRequest, failed(ListTransactionsResponse, 15)),
        list_,
        ApiTimeoutError,
        "COORDINATOR_NOT_AVAILABLE (after 1 s)",
    ),
    "no coordinator for ever": Row(
        (FindCoordinatorRequest, found(15)),
        describe,
        ApiTimeoutError,
        "coordinator of transactional id a: COORDINATOR_NOT_AVAILABLE (after 1 s)",
    ),
    "the wrong coordinator for ever": Row(
        (DescribeTransactionsRequest, describing(16)),
        describe,
        ApiTimeoutError,
        "transactional id a: NOT_COORDINATOR (after 1 s)",
    ),
    "an answer that does not contain it": Row(
        (DescribeTransactionsRequest, lambda _: DescribeTransactionsResponse()),
        describe,
        ClientError,
        "a: the broker's answer does not contain it",
    ),
    "a stuck Prepare": Row(
        (InitProducerIdRequest, failed(InitProducerIdResponse, 51)),
        fence,
        ApiTimeoutError,
        "transactional id a: CONCURRENT_TRANSACTIONS (after 1 s)",
    ),
    "an error that Kafka has no name for": Row(
        (InitProducerIdRequest, failed(InitProducerIdResponse, 9999)), fence, BrokerError, "a: UNKNOWN_9999"
    ),
    "a server in trouble": Row(
        (InitProducerIdRequest, failed(InitProducerIdResponse, -1)), fence, BrokerError, "a: UNKNOWN_SERVER_ERROR"
    ),
    "no replica for ever": Row(
        (DescribeProducersRequest, producers(6)), active, ApiTimeoutError, "NOT_LEADER_OR_FOLLOWER (after 1 s)"
    ),
    "a disk that failed": Row(
        (DescribeProducersRequest, producers(56)), active, ApiTimeoutError, "orders-0: KAFKA_STORAGE_ERROR (after 1 s)"
    ),
    "offsets at a follower": Row(
        (ListOffsetsRequest, positions(6)), offsets, ApiTimeoutError, "orders-0: NOT_LEADER_OR_FOLLOWER (after 1 s)"
    ),
    "offsets that are denied": Row(
        (ListOffsetsRequest, positions(29)), offsets, BrokerError, "the principal needs Describe on topic orders"
    ),
    "a marker at a follower": Row(
        (WriteTxnMarkersRequest, lambda _: marked(6)), abort, BrokerError, "written: NOT_LEADER_OR_FOLLOWER"
    ),
    "a marker without a replica": Row(
        (WriteTxnMarkersRequest, lambda _: marked(3)), abort, BrokerError, "written: UNKNOWN_TOPIC_OR_PARTITION"
    ),
    "a marker of an old coordinator": Row(
        (WriteTxnMarkersRequest, lambda _: marked(52)), abort, BrokerError, "written: TRANSACTION_COORDINATOR_FENCED"
    ),
    "a marker of an old epoch": Row(
        (WriteTxnMarkersRequest, lambda _: marked(47)), abort, BrokerError, "written: INVALID_PRODUCER_EPOCH"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
@scenario
async def test_each_fault_is_one_error(name: str) -> None:
    row = ROWS[name]
    request, sent = row.says
    broker = ScriptedBroker({"orders": {0: 1}})
    broker.versions |= {2: (1, 10), 22: (0, 5)}
    broker.on[request] = script(sent)
    # Connections that fail are tried again: within the time of the call only if each fails soon.
    soon = {"socket_connection_setup_timeout_ms": "300"} if issubclass(row.kind, ConnectError) else {}
    async with broker.running(), admin(broker.address, **soon) as client:
        with pytest.raises(row.kind) as caught:
            await row.call(client)
    text = str(caught.value)
    assert row.text in text
    assert "\n" not in text
    if isinstance(caught.value, ConnectError):
        assert text.startswith(f"{broker.address}: ")


_FENCED = InitProducerIdResponse(producer_id=7, producer_epoch=5)

#: Answers one after the other: what passes is waited for.
PASSING = {
    "a coordinator that moves and loads": (
        DescribeTransactionsRequest, [describing(16), describing(14), describing()], describe,
    ),
    "a list that is not there yet": (
        ListTransactionsRequest,
        [ListTransactionsResponse(error_code=15), ListTransactionsResponse(error_code=14), listing("a")],
        list_,
    ),
    "a transaction that is aborted first": (
        InitProducerIdRequest, [*([InitProducerIdResponse(error_code=51)] * 2), _FENCED], fence,
    ),
    "a leader that was elected just now": (
        DescribeProducersRequest, [producers(5), producers(6), producers(74), producers()], active,
    ),
    "offsets of a leader that moves": (ListOffsetsRequest, [positions(6), positions(78), positions(0)], offsets),
    "connections that are lost": (ListTransactionsRequest, [None, RESET, listing("a")], list_),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSING)
@scenario
async def test_temporary_errors_are_retried(name: str) -> None:
    request, answers, call = PASSING[name]
    broker = ScriptedBroker({"orders": {0: 1}})
    broker.on[request] = script(*answers)
    async with broker.running(), admin(broker.address) as client:
        assert await call(client)
    assert broker.count(request) >= len(answers)


@scenario
async def test_a_coordinator_that_is_looked_for_until_there_is_one() -> None:
    """15 while the internal topic is being created, 14 while it loads."""
    broker = ScriptedBroker()
    broker.on[DescribeTransactionsRequest] = describing()
    broker.on[FindCoordinatorRequest] = script(found(15), found(14), broker.find_coordinator)
    async with broker.running(), admin(broker.address) as client:
        assert (await describe(client)).state == "Ongoing"


@scenario
async def test_a_fetch_quota_is_waited_out() -> None:
    """A throttled response has no topics, and a throttle time; the log is read to its end all the same."""
    key = TransactionLogKey(transactional_id="a").encode_prefixed(version=0)
    value = TransactionLogValue(producer_id=7, transaction_partitions=None).encode_prefixed(version=1)
    data = build([Record(key=key, value=value, timestamp=1)])
    partition = PartitionData(partition_index=0, high_watermark=1, records=data)
    topic = FetchableTopicResponse(topic=TRANSACTION_STATE, partitions=(partition,))
    broker = ScriptedBroker({TRANSACTION_STATE: {0: 1}})
    broker.versions[1] = (4, 17)
    broker.on[ListOffsetsRequest] = positions(0)
    throttled = FetchResponse(throttle_time_ms=50, responses=())
    broker.on[FetchRequest] = script(throttled, throttled, FetchResponse(responses=(topic,)))
    async with broker.running(), admin(broker.address) as client:
        logs = (await read_ids(client.cluster, [0], client.cluster.deadline())).all()
    (log,) = logs.values()
    owner = log.owner(7)
    assert owner is not None
    assert owner.newest.transactional_id == "a"
    assert broker.count(FetchRequest) == 3


# Logging in -----------------------------------------------------------------------------------------------------------

_PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'a.PlainLoginModule required username="u" password="p";',
}
_ENABLED = SaslHandshakeResponse(mechanisms=("PLAIN",))
_WRONG = SaslAuthenticateResponse(error_code=58, error_message="Authentication failed: Invalid username or password")

#: Answers to SaslHandshake and SaslAuthenticate, and the text of the error.
LOGINS = {
    "a mechanism that is not enabled": (
        SaslHandshakeResponse(error_code=33, mechanisms=("GSSAPI",)), None, "is not enabled there; what is: GSSAPI",
    ),
    "a listener without authentication": (SaslHandshakeResponse(error_code=34), None, "takes no authentication"),
    "a wrong password": (_ENABLED, _WRONG, "SASL_AUTHENTICATION_FAILED: Authentication failed: Invalid username"),
    "closed without an answer": (_ENABLED, None, "closed during authentication: wrong credentials, most likely"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGINS)
@scenario
async def test_logins_that_are_refused(name: str) -> None:
    """It is not tried a second time: accounts are locked that way."""
    handshake, authenticate, text = LOGINS[name]
    broker = ScriptedBroker()
    broker.versions |= {17: (0, 1), 36: (0, 2)}
    broker.on[SaslHandshakeRequest] = lambda _: handshake
    broker.on[SaslAuthenticateRequest] = lambda _: authenticate
    async with broker.running(), admin(broker.address, **_PLAIN) as client:
        with pytest.raises(AuthenticationError, match=text) as caught:
            await client.list_transactions()
    assert str(caught.value).startswith(broker.address)
    assert broker.connections == 1


# Before the first answer ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "protocol", "kind", "text"),
    [
        (bytes.fromhex("15030300020246"), "SSL", TlsError, "no version of TLS in common"),
        (bytes.fromhex("15030300020228"), "SSL", TlsError, "TLS failed"),
        (RESET, "SSL", TlsError, "a plaintext listener"),
        (RESET, "PLAINTEXT", PeerError, "closed the connection"),
        (bytes.fromhex("00000040 00000000 0000"), "PLAINTEXT", RequestTimeoutError, "connected, but no answer"),
    ],
)
@scenario
async def test_servers_that_are_no_brokers_are_named(
    sent: bytes | str, protocol: str, kind: type[ConnectError], text: str
) -> None:
    """TLS alerts (no version in common, handshake failure), a reset, half an answer to the very first request."""

    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        if isinstance(sent, str):
            reset(writer)
            return
        writer.write(sent)
        if protocol == "SSL":
            writer.close()
        else:
            await reader.read()
            writer.close()

    properties = {"security.protocol": protocol, "socket.connection.setup.timeout.ms": "400"}
    async with served(stranger) as port, admin(f"127.0.0.1:{port}", **properties) as client:
        with pytest.raises(kind, match=text):
            await client.list_transactions(timeout_s=SOON_S)


@pytest.mark.parametrize("version", [0, 1])
@scenario
async def test_sends_no_draft_to_a_broker(version: int) -> None:
    """Neither by a call of ours nor by a caller's own request: it is refused before a byte is sent, and the connection
    stays usable."""
    broker = ScriptedBroker()
    broker.versions[27] = (0, version)
    broker.on[ListTransactionsRequest] = lambda _: listing("a")
    async with broker.running(), admin(broker.address) as client:
        deadline = client.cluster.deadline()
        for draft in (kip_664_draft.WriteTxnMarkersRequest(), kip_664_adopted.WriteTxnMarkersRequest()):
            with pytest.raises(EncodeError, match="cannot be sent"):
                await client.cluster.ask_broker(1, draft, deadline)
        assert (await client.list_transactions()).all()
    assert not broker.count(WriteTxnMarkersRequest)
    assert broker.connections == 1

"""The proxy between clients and a mock broker: addresses, filters, faults, order, recording."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture, frames, records
from kafkawire.client import Cluster, Config
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    InitProducerIdRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from kafkawire.proxy import Fault, Proxy
from kafkawire.testing import MockBroker


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    with MockBroker({"orders": 1}) as running:
        yield running


@pytest.fixture
def proxy(broker: MockBroker) -> Iterator[Proxy]:
    with Proxy(broker.address) as running:
        yield running


def produce(value: bytes = b"one", acks: int = -1) -> ProduceRequest:
    place = ProduceRequest.PartitionProduceData(records=records.build([records.Record(value=value)], timestamp=5))
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=(place,))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(topic,))


def ask(address: str, request: Any, **where: Any) -> Any:
    async def run() -> Any:
        async with Cluster(Config.of(address)) as cluster:
            return await cluster.ask(request, timeout_s=10, **where)

    return asyncio.run(run())


class Peer:
    """A client that sends several requests before it reads."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        weakref.finalize(self, self.socket.close)
        self._reader = frames.FrameReader()

    def send(self, *requests: tuple[Any, int, int]) -> None:
        self.socket.sendall(
            b"".join(frames.encode_request(body, version=v, correlation_id=number) for body, v, number in requests)
        )

    def numbers(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count and (data := self.socket.recv(1 << 16)):
            found += (int.from_bytes(frame[:4], "big") for frame in self._reader.feed(data))
        return found


def test_addresses_are_those_of_the_proxy(broker: MockBroker, proxy: Proxy) -> None:
    found: MetadataResponse = ask(proxy.address, MetadataRequest(topics=None))
    assert [f"{one.host}:{one.port}" for one in found.brokers] == [proxy.address]
    coordinator = ask(proxy.address, FindCoordinatorRequest(coordinator_keys=("g",)))
    assert f"{coordinator.coordinators[0].host}:{coordinator.coordinators[0].port}" == proxy.address
    assert proxy.address != broker.address


def test_further_brokers_get_listeners(broker: MockBroker) -> None:
    with MockBroker({"other": 1}) as second, Proxy(broker.address) as proxy:
        host, _, port = second.address.rpartition(":")
        named = MetadataResponse.MetadataResponseBroker(node_id=2, host=host, port=int(port))
        broker.change(MetadataRequest, lambda _, response: response.replace(brokers=(*response.brokers, named)))
        found = ask(proxy.address, MetadataRequest(topics=()))
        addresses = [f"{one.host}:{one.port}" for one in found.brokers]
        assert addresses[0] == proxy.address
        assert addresses[1] not in (second.address, proxy.address)
        assert [topic.name for topic in ask(addresses[1], MetadataRequest(topics=None)).topics] == ["other"]


def test_filters_change_requests_and_responses(broker: MockBroker, proxy: Proxy) -> None:
    async def slower(request: ProduceRequest) -> ProduceRequest:
        await asyncio.sleep(0)
        return request.replace(timeout_ms=77)

    proxy.on_request(ProduceRequest, slower)
    seen = []

    def throttled(request: ProduceRequest, response: Any) -> None:
        seen.append(request.timeout_ms)

    proxy.on_response(ProduceRequest, throttled)
    proxy.on_response(MetadataRequest, lambda _, response: response.replace(cluster_id="changed"))
    assert ask(proxy.address, MetadataRequest(topics=())).cluster_id == "changed"
    response = ask(proxy.address, produce(), topic="orders")
    assert response.responses[0].partition_responses[0].error_code == 0
    assert broker.requests.of(ProduceRequest)[0].timeout_ms == 77
    assert seen == [77]


def test_what_nothing_asks_for_passes_as_it_is(broker: MockBroker, proxy: Proxy) -> None:
    """Bytes that no codec reads, too: the broker sees what the client has sent."""
    peer = Peer(proxy.address)
    peer.socket.sendall(frames.with_size(b"\x12\x34" + bytes(8)))
    assert peer.numbers(1) == []  # the broker has closed the connection
    assert broker.refusals[0] == "no request is known with api key 4660"


def test_answers_of_the_proxy_keep_the_order(broker: MockBroker, proxy: Proxy) -> None:
    proxy.on_request(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=27))
    peer = Peer(proxy.address)
    listed = []
    for number in range(0, 60, 3):
        listed += [
            (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3, number),
            (HeartbeatRequest(group_id="g", member_id="m"), 4, number + 1),
            (MetadataRequest(topics=None), 9, number + 2),
        ]
    peer.send(*listed)
    assert peer.numbers(60) == list(range(60))
    assert not broker.requests.of(HeartbeatRequest)


def test_requests_without_a_response_hold_nothing_back(proxy: Proxy) -> None:
    proxy.on_request(HeartbeatRequest, lambda _: HeartbeatResponse())
    peer = Peer(proxy.address)
    heartbeat = HeartbeatRequest(group_id="g", member_id="m")
    peer.send((produce(acks=0), 9, 1), (MetadataRequest(topics=None), 9, 2), (heartbeat, 4, 3))
    assert peer.numbers(2) == [2, 3]


def test_faults(broker: MockBroker, proxy: Proxy) -> None:
    proxy.fault(Fault(ProduceRequest, topic="orders", error=CODES["NOT_LEADER_OR_FOLLOWER"], times=2))
    response = ask(proxy.address, produce(), topic="orders")
    assert response.responses[0].partition_responses[0].error_code == 0
    assert len(broker.requests.of(ProduceRequest)) == 1  # the proxy has answered the first two
    proxy.fault(Fault(ProduceRequest, drop="response", times=1))
    ask(proxy.address, produce(b"two"), topic="orders")
    assert [record.value for record in broker.records("orders")] == [b"one", b"two", b"two"]
    proxy.fault(Fault(ProduceRequest, drop="request", times=1))
    ask(proxy.address, produce(b"three"), topic="orders")
    assert len(broker.records("orders")) == 4
    proxy.fault(Fault(delay_s=0.3, times=1))
    began = time.monotonic()
    ask(proxy.address, MetadataRequest(topics=()))
    assert time.monotonic() - began >= 0.3
    proxy.fault(Fault(ProduceRequest, topic="payments", error=1))
    assert ask(proxy.address, produce(), topic="orders").responses[0].partition_responses[0].error_code == 0
    proxy.clear_faults()


def test_rate_is_a_share_of_requests(broker: MockBroker) -> None:
    with Proxy(broker.address, seed=5) as proxy:
        proxy.fault(Fault(HeartbeatRequest, rate=0.25, error=77))
        peer = Peer(proxy.address)
        peer.send(*((HeartbeatRequest(group_id="g", member_id="m"), 4, number) for number in range(400)))
        assert peer.numbers(400) == list(range(400))
    assert 250 < len(broker.requests.of(HeartbeatRequest)) < 350


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"rate": 0, "delay_s": 1},
        {"times": 0, "error": 1},
        {"delay_s": -1},
        {"drop": "x"},
        {"drop": "request", "error": 1},
    ],
)
def test_fault_that_is_none(wrong: Any) -> None:
    with pytest.raises(ValueError):
        Fault(**wrong)


def test_recording_is_a_capture(broker: MockBroker, tmp_path: Path) -> None:
    path = tmp_path / "proxy.pcapng"
    large = produce(b"x" * 200_000)
    with Proxy(broker.address, record=path) as proxy:
        ask(proxy.address, large, topic="orders")
        ask(proxy.address, InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=9), transactional_id="t")
    found = capture.read(path, keep=True)
    exchanges = list(found.matched())
    assert [one.row.problem for one in exchanges] == [None] * len(exchanges)
    (produced,) = (one for one in exchanges if isinstance(one.request, ProduceRequest))
    assert produced.request == large
    assert produced.response is not None
    assert "InitProducerId" in {one.row.api for one in exchanges}
    assert found.summary.exchanges == len(exchanges) == len(broker.requests)


def test_broker_that_is_not_there(broker: MockBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Proxy(f"127.0.0.1:{port}") as proxy:
        assert Peer(proxy.address).numbers(1) == []
        for _ in range(100):
            if proxy.problems:
                break
            time.sleep(0.02)
        assert f"127.0.0.1:{port}" in proxy.problems[0]
    with pytest.raises(RuntimeError, match="not running"):
        _ = Proxy("a:1").address
    with pytest.raises(ValueError, match="HOST:PORT"):
        Proxy("a")
    with pytest.raises(ValueError, match="no request"):
        proxy.on_request(HeartbeatResponse, lambda _: None)


@pytest.mark.slow
def test_throughput_of_what_passes() -> None:
    """200 MB/s of a core at least, in both processes' ends of this one: sender and receiver are counted, too."""
    size, count = 1 << 20, 200
    response = frames.with_size((5).to_bytes(4, "big") + bytes(size))

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.recv(1 << 16)
        for _ in range(count):
            connection.sendall(response)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        with Proxy(f"127.0.0.1:{listener.getsockname()[1]}") as proxy:
            began = time.process_time()
            peer = Peer(proxy.address)
            peer.send((HeartbeatRequest(), 4, 5))
            got = 0
            buffer = bytearray(1 << 18)
            while found := peer.socket.recv_into(buffer):
                got += found
            spent = time.process_time() - began
    assert got == count * len(response)
    assert got / spent > 200e6, f"{got / spent / 1e6:.0f} MB/s"


def test_a_proxy_that_cannot_listen_leaves_a_former_recording(broker: MockBroker, tmp_path: Path) -> None:
    path = tmp_path / "proxy.pcapng"
    path.write_bytes(b"former")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        Proxy(broker.address, port=taken.getsockname()[1], record=path).__enter__()
    assert path.read_bytes() == b"former"

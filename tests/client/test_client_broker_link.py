"""`Link.ask_then`: a request that is sent in the step in which the answer to another one comes, or not at all."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.errors import ConnectError, NotSentError
from kafkawire.client.transport.broker_link import Link
from kafkawire.client.transport.config import Config
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
)
from tests.client.answers import FAST, producers, run
from tests.client.certificates import HOST, make_identity
from tests.client.scripted import ScriptedBroker, served

FIRST, THEN = DescribeProducersRequest(), InitProducerIdRequest()


def asking(check: Callable[[Link, ScriptedBroker], Any], *, first: Any = None, then: Any = None) -> ScriptedBroker:
    """Runs `check` with a connection to a broker that answers the first and the second request so."""
    broker = ScriptedBroker()
    broker.on[DescribeProducersRequest] = first or producers()
    broker.on[InitProducerIdRequest] = (lambda _: InitProducerIdResponse(producer_id=7)) if then is None else then

    async def scenario() -> None:
        async with broker.running(), Cluster(Config.of(broker.address, FAST)) as cluster:
            await cluster.known_brokers(cluster.deadline())
            await check(await cluster.link(1, cluster.deadline()), broker)

    run(scenario)
    return broker


def sent(broker: ScriptedBroker) -> int:
    return broker.count(InitProducerIdRequest)


async def ask(link: Link, guard: Callable[[Any], None] = lambda _: None, within_s: float = 5.0) -> Any:
    return await link.ask_then(FIRST, THEN, guard, within_s=within_s, timeout_s=0.4)


def test_the_guard_gets_the_first_answer_and_the_caller_the_second() -> None:
    seen: list[Any] = []

    async def check(link: Link, _: ScriptedBroker) -> None:
        assert (await ask(link, seen.append)).producer_id == 7
        assert link.connection.in_flight == 0

    assert sent(asking(check)) == 1
    assert isinstance(seen[0], DescribeProducersResponse)


def test_an_interruption_as_the_connection_ends_leaves_no_exception_behind() -> None:
    """The second request was sent, its connection fails, and the caller is cancelled before it waits for the answer:
    asyncio printed "Future exception was never retrieved"."""
    printed: list[Any] = []

    async def check(link: Link, _: ScriptedBroker) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: printed.append(context["message"]))

        def guard(_: Any) -> None:
            loop.call_soon(link._fail, ConnectError("h:1", "lost"))
            caller.cancel()

        caller = asyncio.ensure_future(ask(link, guard))
        with pytest.raises(asyncio.CancelledError):
            await caller
        gc.collect()

    asking(check)
    assert printed == []


def test_no_task_runs_between_the_guard_and_the_socket() -> None:
    order: list[str] = []

    async def check(link: Link, _: ScriptedBroker) -> None:
        write = link._writer.write

        def noted(data: bytes) -> None:
            order.append("write")
            write(data)

        def guard(_: Any) -> None:
            order.append("guard")
            asyncio.get_running_loop().call_soon(order.append, "task")

        link._writer.write = noted  # type: ignore[method-assign]
        await ask(link, guard)

    asking(check)
    assert order == ["write", "guard", "write", "task"]


def test_what_the_guard_refuses_is_not_sent() -> None:
    def guard(_: Any) -> None:
        raise ValueError("changed")

    async def check(link: Link, _: ScriptedBroker) -> None:
        with pytest.raises(ValueError, match="changed"):
            await ask(link, guard)
        assert link.connection.in_flight == 0
        assert (await ask(link)).producer_id == 7  # the connection can be used

    assert sent(asking(check)) == 1


def refused(text: str, *, before: Callable[[Link], Any] = lambda _: None, **answers: Any) -> None:
    async def check(link: Link, _: ScriptedBroker) -> None:
        before(link)
        with pytest.raises(NotSentError, match=text):
            await ask(link, within_s=0.2)
        await asyncio.sleep(0.05)  # an answer that comes later sends nothing

    assert sent(asking(check, **answers)) == 0


def test_a_connection_that_was_lost_is_not_opened_again() -> None:
    refused("127.0.0.1:.*lost|closed", first=lambda _: None)


def test_an_answer_that_comes_too_late_sends_nothing() -> None:
    async def late(_: Any) -> Any:
        await asyncio.sleep(0.22)
        return producers()(DescribeProducersRequest())

    refused("no answer to DescribeProducers in 0.2 s", first=late)


def test_nothing_is_sent_to_a_broker_that_throttles() -> None:
    """It does not read the connection meanwhile: the request would wait there."""
    refused("throttles", first=lambda _: DescribeProducersResponse(throttle_time_ms=500))


def test_nothing_is_sent_behind_another_request() -> None:
    def busy(link: Link) -> None:
        link.connection.request(ListTransactionsRequest())

    refused("busy", before=busy)


def test_nothing_is_sent_that_would_wait_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the request, if that, has gone out: the connection ends, and no broker carries it out."""

    def full(link: Link) -> None:
        transport, writes = link._writer.transport, list[bytes]()
        write = link._writer.write

        def noted(data: bytes) -> None:
            writes.append(data)
            if len(writes) == 1:
                write(data)

        link._writer.write = noted  # type: ignore[method-assign]
        monkeypatch.setattr(type(transport), "get_write_buffer_size", lambda _: 1 if len(writes) > 1 else 0)

    refused("the system did not take the request|lost", before=full)


def test_no_answer_to_the_second_is_another_error() -> None:
    """It was sent: whether it was carried out is not known."""

    async def check(link: Link, _: ScriptedBroker) -> None:
        with pytest.raises(ConnectError, match=r"no answer to InitProducerId in 0\.4 s"):
            await ask(link)

    assert sent(asking(check, then=lambda _: ...)) == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
def test_the_system_gives_up_what_is_not_acknowledged() -> None:
    async def check(link: Link, _: ScriptedBroker) -> None:
        await ask(link, within_s=0.75)
        own = link._writer.get_extra_info("socket")
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 750

    asking(check)


@pytest.mark.slow
def test_over_tls_nothing_stays_in_this_process(tmp_path: Path) -> None:
    identity = make_identity()
    pem = tmp_path / "broker.pem"
    pem.write_text(identity.key + identity.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    broker = ScriptedBroker()
    broker.on[DescribeProducersRequest] = producers()
    broker.on[InitProducerIdRequest] = lambda _: InitProducerIdResponse(producer_id=7)
    properties = {"security.protocol": "SSL", "ssl.truststore.certificates": identity.certificate}

    async def scenario() -> None:
        async with served(broker.serve, ssl=context) as port:
            broker.brokers = {1: port}
            async with Cluster(Config.of(f"{HOST}:{port}", FAST | properties)) as cluster:
                await cluster.known_brokers(cluster.deadline())
                link = await cluster.link(1, cluster.deadline())
                transport = link._writer.transport
                written: list[int] = []
                write = link._writer.write

                def noted(data: bytes) -> None:
                    write(data)
                    written.append(transport.get_write_buffer_size())

                link._writer.write = noted  # type: ignore[method-assign]
                assert (await ask(link)).producer_id == 7
                assert written == [0, 0]
            broker.drop()

    run(scenario)
    assert sent(broker) == 1

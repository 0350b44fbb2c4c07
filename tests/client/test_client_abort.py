"""Ending transactions: what names one, and that a marker is sent once."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.client import (
    ClientError,
    ConfigError,
)
from kafkawire.messages import (
    DescribeProducersRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    WriteTxnMarkersRequest,
)
from tests.client.answers import P, admin, marked, producers, scenario, script
from tests.client.scripted import RESET, ScriptedBroker


@scenario
async def test_abort_by_start_offset_looks_the_rest_up() -> None:
    broker = ScriptedBroker({"orders": {0: 1}})
    broker.on[DescribeProducersRequest] = producers(coordinator_epoch=5)
    broker.on[WriteTxnMarkersRequest] = lambda _: marked()
    async with broker.running(), admin(broker.address) as client:
        done = await client.abort_transaction(P, start_offset=40)
        assert (done.producer_id, done.producer_epoch, done.coordinator_epoch) == (7, 3, 5)
        with pytest.raises(ClientError, match="orders-0: no transaction is open there that began at offset 41"):
            await client.abort_transaction(P, start_offset=41)
    (sent,) = [body for body in broker.requests if isinstance(body, WriteTxnMarkersRequest)]
    (marker,) = sent.markers
    assert (marker.transaction_result, marker.transaction_version, marker.coordinator_epoch) == (False, 0, 5)


@pytest.mark.parametrize("epoch", [-1, 2**15])
@scenario
async def test_refuses_an_epoch_that_no_marker_can_carry(epoch: int) -> None:
    """DescribeProducers has 32 bits for it, and a broker may return any number. Nothing is sent."""
    broker = ScriptedBroker({"orders": {0: 1}})
    async with broker.running(), admin(broker.address) as client:
        with pytest.raises(ClientError, match=f"orders-0: no marker can be written for producer epoch {epoch}$"):
            await client.abort_transaction(P, producer_id=7, producer_epoch=epoch, coordinator_epoch=0)
    assert broker.count(WriteTxnMarkersRequest) == 0


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"start_offset": 1, "coordinator_epoch": 0},
        {"start_offset": 1, "producer_id": 7},
        {"producer_id": 7, "producer_epoch": 3},
    ],
)
@scenario
async def test_abort_takes_a_start_offset_or_a_coordinator_epoch(named: dict[str, int]) -> None:
    broker = ScriptedBroker({"orders": {0: 1}})
    async with broker.running(), admin(broker.address) as client:
        with pytest.raises(ConfigError, match="a transaction is named by"):
            await client.abort_transaction(P, **named)
    assert not broker.requests


@pytest.mark.slow
@pytest.mark.parametrize("silence", [None, ...])
@scenario
async def test_abort_is_sent_once(silence: Any) -> None:
    broker = ScriptedBroker({"orders": {0: 1}})
    broker.on[WriteTxnMarkersRequest] = lambda _: silence
    async with broker.running(), admin(broker.address) as client:
        with pytest.raises(ClientError, match="whether the marker was written is not known"):
            await client.abort_transaction(P, producer_id=7, producer_epoch=3, coordinator_epoch=0)
    assert broker.count(WriteTxnMarkersRequest) == 1


@scenario
async def test_fencing_waits_for_a_coordinator_that_is_busy() -> None:
    broker = ScriptedBroker()
    done = InitProducerIdResponse(producer_id=7, producer_epoch=4)
    broker.on[InitProducerIdRequest] = script(InitProducerIdResponse(error_code=51), done)
    async with broker.running(), admin(broker.address) as client:
        fenced = (await client.fence_producers(["a"])).all()["a"]
    assert (fenced.producer_id, fenced.producer_epoch) == (7, 4)


@pytest.mark.parametrize("fault", [None, RESET])
@scenario
async def test_fencing_many_keeps_the_results_that_came_before_a_fault(fault: Any) -> None:
    """An id is fenced once: fencing it again would fence the producer that has begun in the meantime."""
    broker = ScriptedBroker()
    asked: list[str] = []

    def fence(request: InitProducerIdRequest) -> Any:
        assert request.transactional_id is not None
        asked.append(request.transactional_id)
        return fault if asked == ["a", "b"] else InitProducerIdResponse(producer_id=7, producer_epoch=len(asked))

    broker.on[InitProducerIdRequest] = fence
    async with broker.running(), admin(broker.address) as client:
        fenced = (await client.fence_producers(["a", "b", "c"])).all()
    assert asked == ["a", "b", "b", "c"]
    assert {key: one.producer_epoch for key, one in fenced.items()} == {"a": 1, "b": 3, "c": 4}

"""A stranger's program, which uses the public surface: `tests/test_outside.py` has it checked and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import pinger
from pinger import PingRequest, PingResponse

from kafkawire import ErrorCode, capture, errors, frames, logdir, messages, records, versions, visit
from kafkawire.client import Cluster, Config, TopicPartition
from kafkawire.messages import REGISTRY, FetchRequest, FetchResponse, MetadataResponse, ProduceRequest
from kafkawire.testing.mock_broker import MockBroker


def own_package() -> None:
    request = PingRequest(text="hello")
    assert_type(PingRequest.response, type[PingResponse])
    assert_type(request.text, str)
    assert_type(PingRequest.decode(request.encode(1), 1), PingRequest)
    assert PingRequest.response is PingResponse
    both = pinger.REGISTRY.over(REGISTRY)
    data = frames.encode_request(request, version=1, correlation_id=7)
    decoded = frames.decode_request(data[4:], registry=both)
    assert isinstance(decoded, frames.Request)
    assert_type(decoded.narrowed(PingRequest).body, PingRequest)
    with MockBroker(registry=both) as broker:
        broker.on(PingRequest, lambda request: PingResponse(text=request.text))


def names_that_are_not_there() -> None:
    """Each is an error of both checkers: an ignored line without one is an error, too."""
    print(messages.FetchRequst)  # type: ignore[attr-defined]  # pyright: ignore
    print(records.iter_batches)  # type: ignore[attr-defined]  # pyright: ignore
    print(pinger.PingRequst)  # type: ignore[attr-defined]  # pyright: ignore


def shipped() -> None:
    assert_type(FetchRequest.response, type[FetchResponse])
    partition = FetchRequest.FetchPartition(partition=1, fetch_offset=5)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=(partition,))
    request = FetchRequest(topics=(topic,)).replace(max_wait_ms=5)
    assert_type(request, FetchRequest)
    assert [found.value for found in visit.find(request)] == ["orders"]
    assert_type(visit.rewrite(MetadataResponse(), {}), MetadataResponse)
    code: int = FetchResponse(error_code=90).error_code
    assert code == ErrorCode.PRODUCER_FENCED
    assert issubclass(errors.DecodeError, errors.KafkaWireError)
    assert_type(ProduceRequest().encode(9), bytes)


def batches(data: bytes) -> Iterator[bytes | None]:
    for batch in records.read(data):
        assert isinstance(batch, records.Batch)
        for record in batch.records:
            yield record.value


async def asks(cluster: Cluster) -> None:
    assert_type(await cluster.ask(FetchRequest(), topic="orders", partition=0), FetchResponse)
    assert_type(await cluster.ask(PingRequest(text="a"), broker=1), PingResponse)
    assert_type(frames.error_response(FetchRequest(), 3), FetchResponse)


def not_run(path: Path, config: Config) -> None:
    for row in capture.read(path):
        print(row)
    print(logdir.open(path), Cluster(config), TopicPartition("orders", 0), versions.releases(), messages.REGISTRY)


if __name__ == "__main__":
    own_package()
    shipped()
    assert list(batches(records.build([records.Record(value=b"one")]))) == [b"one"]
    sys.exit(0)

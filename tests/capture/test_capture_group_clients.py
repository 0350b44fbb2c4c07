"""What clients write into JoinGroup and SyncGroup, against the mock broker: all of it is decoded.

Two consumers join one group after each other, so that the first one joins again with the partitions that it had.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import pytest

from kafkawire.capture.message_json import body_json
from kafkawire.testing import MockBroker

TOPIC, PARTITIONS, TIMEOUT_S = "orders", 4, 120.0
GROUP_MESSAGES = ("JoinGroupRequest", "SyncGroupRequest")

pytestmark = pytest.mark.slow


def librdkafka(broker: MockBroker, assignor: str) -> None:
    client = pytest.importorskip("confluent_kafka")
    if assignor == "sticky":
        pytest.skip("librdkafka has no assignor sticky")
    options = {
        "bootstrap.servers": broker.address, "group.id": "g", "log_level": 2, "heartbeat.interval.ms": 50,
        "partition.assignment.strategy": assignor, "session.timeout.ms": 30000,
    }  # fmt: skip
    consumers: list[Any] = []
    for share in SHARES:
        consumers.append(client.Consumer(options))
        consumers[-1].subscribe([TOPIC])
        poll_until(lambda wait_s: [each.poll(wait_s) for each in consumers], consumers, share)
    for consumer in consumers:
        consumer.close()


def kafka_python(broker: MockBroker, assignor: str) -> None:
    client = pytest.importorskip("kafka")
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    classes = {
        "range": RangePartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumers: list[Any] = []
    for share in SHARES:
        consumer = client.KafkaConsumer(
            TOPIC, bootstrap_servers=broker.address, group_id="g", heartbeat_interval_ms=50, session_timeout_ms=30000,
            partition_assignment_strategy=(classes[assignor],),
        )  # fmt: skip
        consumers.append(consumer)
        # A member that joins before it knows the topic joins again once it does. kafka-python 3.0.12 forgets that
        # second join if a poll ends while the response to its SyncGroup is under way: it sends no heartbeat any more.
        assert consumer.partitions_for_topic(TOPIC) == {*range(PARTITIONS)}
        poll_until(lambda wait_s: [each.poll(int(1000 * wait_s)) for each in consumers], consumers, share)
    for consumer in consumers:
        consumer.close()


def aiokafka(broker: MockBroker, assignor: str) -> None:
    client = pytest.importorskip("aiokafka")
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    classes = {"range": RangePartitionAssignor, "sticky": StickyPartitionAssignor}
    if assignor not in classes:
        pytest.skip(f"aiokafka has no assignor {assignor}")

    async def run() -> None:
        consumers: list[Any] = []
        for share in SHARES:
            consumer = client.AIOKafkaConsumer(
                TOPIC, bootstrap_servers=broker.address, group_id="g", heartbeat_interval_ms=50,
                partition_assignment_strategy=(classes[assignor],), session_timeout_ms=30000,
            )  # fmt: skip
            await consumer.start()
            consumers.append(consumer)
            while not all_have(share, consumers):
                await consumer.getmany(timeout_ms=50)
        for consumer in consumers:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


#: How many partitions a member has after each consumer has joined.
SHARES = (PARTITIONS, PARTITIONS // 2)


def all_have(share: int, consumers: list[Any]) -> bool:
    """Whether each consumer has that many partitions. That the leader has sent them does not suffice: a consumer that
    has to join again before they reach it states that it had none."""
    return all(len(each.assignment()) == share for each in consumers)


def poll_until(step: Callable[[float], object], consumers: list[Any], share: int) -> None:
    """Polls until each consumer has that many partitions. A busy machine needs longer polls: clients begin to join anew
    where one ends too early."""
    end = time.monotonic() + TIMEOUT_S
    for wait_s in cycle((0.05, 0.1, 0.2, 0.4, 0.8)):
        if all_have(share, consumers):
            return
        if time.monotonic() > end:
            break
        step(wait_s)
    raise AssertionError("the group did not settle")


def found_in(broker: MockBroker) -> list[tuple[str, dict[str, Any]]]:
    asked = [request for request in list(broker.requests) if type(request.body).__name__ in GROUP_MESSAGES]
    return [each for request in asked for each in decoded(body_json(request.body, request.version))]


def assigned(broker: MockBroker) -> list[list[int]]:
    """The partitions of each assignment that was sent."""
    found = [value["data"]["assignedPartitions"] for key, value in found_in(broker) if key == "assignmentDecoded"]
    return [sorted(number for part in each for number in part["partitions"]) for each in found]


def decoded(body: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each decoded value in a body, those inside of others too, with its key."""
    if isinstance(body, list):
        for each in body:
            yield from decoded(each)
    elif isinstance(body, dict):
        for key, value in body.items():
            if key.endswith("Decoded"):
                yield key, value
            yield from decoded(value)


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize("client", [librdkafka, kafka_python, aiokafka], ids=lambda client: client.__name__)
def test_what_clients_write_is_decoded(client: Callable[[MockBroker, str], None], assignor: str) -> None:
    with MockBroker({TOPIC: PARTITIONS}) as broker:
        client(broker, assignor)
        found = found_in(broker)
        shares = assigned(broker)
    problems = [value["problem"] for _, value in found if "problem" in value]
    assert not problems
    subscriptions = [value["data"] for key, value in found if key == "metadataDecoded"]
    assert subscriptions
    assert all(data["topics"] == [TOPIC] for data in subscriptions)
    assert [*range(PARTITIONS)] in shares
    owners = [data for data in subscriptions if data.get("ownedPartitions") or data.get("userDataDecoded")]
    assert bool(owners) == (assignor != "range"), "who joins again states what it had"

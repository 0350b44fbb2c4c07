"""Reads the premises of an ABORT marker over open connections: each request goes once, to the broker that it is meant
for. Nothing is routed, retried or connected again in between; a failure raises `JudgeAgain`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kafkawire import records
from kafkawire.client.actions.lease import JudgeAgain
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.routing import coordinator_of, leader_of
from kafkawire.client.errors import BrokerError, ClientError, ConnectError, UnsupportedApiError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import FIRST, LAST_BY_NAME, fetch_request, records_in
from kafkawire.client.rpc.producer_states import producers_in, producers_request
from kafkawire.client.rpc.transactional_ids import descriptions_in
from kafkawire.client.transport.broker_link import Link
from kafkawire.messages import (
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    MetadataRequest,
)
from kafkawire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kafkawire.messages.metadata_request import MetadataRequestTopic
from kafkawire.transactions.verdict.abort_premises import AbortPremises, OwnerPremises, PartitionPremises
from kafkawire.wire.message import Message

_METADATA = 4  # the first version that creates no topic
_UNCOMMITTED, _LATEST, _CONSUMER = 0, -1, -1
_PIECE = 1 << 20
_ISOLATION = 2  # the version of ListOffsets that brought the isolation level


@dataclass(frozen=True)
class AbortReading:
    """Connections to the brokers that know what an abort rests on. Made by `connect`.

    Attributes:
        leader: broker id and connection. `coordinator`: of the producer's transactional id, None where no id is known.
        brokers: those that list their ids, where no id is known; without those that cannot be reached.
    """

    place: TopicPartition
    producer_id: int
    transactional_id: str | None
    leader: tuple[int, Link]
    coordinator: tuple[int, Link] | None
    brokers: dict[int, Link]

    async def first(self, timeout_s: float) -> AbortPremises:
        """The first reading. All connections have answered when it is done. `timeout_s`: seconds for each request.
        Raises JudgeAgain: a broker does not answer, or not as the leader. ClientError: it refuses."""
        _, epoch = await self._leadership(timeout_s)
        found = await self._beside(epoch, timeout_s)
        answer = await self._ask(self.leader[1], producers_request([self.place]), timeout_s)
        return replace(found, producer=self.producer(answer))

    async def again(self, before: AbortPremises, timeout_s: float) -> AbortPremises:
        """The premises without the producer, which the last request reads: all requests side by side.

        Args:
            before: the first reading.
            timeout_s: seconds for all of it.

        Raises:
            JudgeAgain: as for `first`, or a broker that answered before does not.
        """
        now = await self._beside(before.leader_epoch, timeout_s)
        silent = sorted(before.listed.keys() - now.listed.keys())
        if silent:
            raise JudgeAgain(f"broker {silent[0]} did not list its transactional ids again")
        return now

    def producer(self, answer: DescribeProducersResponse) -> PartitionPremises | None:
        """The producer in the leader's answer. Raises the errors of `first`."""
        found = producers_in(answer).get(self.place, ClientError(f"{self.place}: the answer does not contain it"))
        if isinstance(found, ClientError):
            raise _again(found)
        for one in found:
            if one.producer_id == self.producer_id:
                return PartitionPremises(
                    start_offset=one.transaction_start_offset,
                    producer_epoch=one.producer_epoch,
                    coordinator_epoch=one.coordinator_epoch,
                    last_sequence=one.last_sequence,
                    last_timestamp=one.last_timestamp,
                )
        return None

    async def wrote_between(self, start: int, end: int, timeout_s: float) -> int | None:
        """The first offset at which the producer wrote, from offset `start` up to `end`; None for none. `timeout_s`:
        seconds for the one request that is sent. Raises JudgeAgain: one response does not reach `end`."""
        body = fetch_request(self.place, start, _PIECE)
        answer = await self._ask(self.leader[1], body, timeout_s, at_least=FIRST, at_most=LAST_BY_NAME)
        reached = start
        for batch in records.read(records_in(answer, self.place)):
            if isinstance(batch, records.Batch):
                if batch.producer_id == self.producer_id and batch.last_offset >= start:
                    return batch.base_offset
                reached = batch.last_offset + 1
        if reached < end:
            raise JudgeAgain(f"{self.place} grows too fast to be read up to its end")
        return None

    async def _beside(self, epoch: int, timeout_s: float) -> AbortPremises:
        (leader, leader_epoch), end, owner, listed = await _all(
            self._leadership(timeout_s), self._end(epoch, timeout_s), self._owner(timeout_s), self._listed(timeout_s)
        )
        return AbortPremises(leader=leader, leader_epoch=leader_epoch, end=end, owner=owner, listed=listed)

    async def _leadership(self, timeout_s: float) -> tuple[int, int]:
        """Leader and leader epoch, by the leader's own metadata."""
        topics = (MetadataRequestTopic(name=self.place.topic),)
        body = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = await self._ask(self.leader[1], body, timeout_s, at_least=_METADATA)
        for topic in answer.topics:
            for one in topic.partitions:
                if (topic.name, one.partition_index) == self.place:
                    if one.leader_id != self.leader[0]:
                        raise JudgeAgain(f"broker {self.leader[0]} names broker {one.leader_id} as the leader")
                    return one.leader_id, one.leader_epoch
        raise JudgeAgain(f"broker {self.leader[0]} does not know {self.place}")

    async def _end(self, epoch: int, timeout_s: float) -> int:
        """The high watermark. A leader of another epoch refuses (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH)."""
        number = self.place.partition
        asked = ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=_LATEST)
        body = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=_UNCOMMITTED,
            topics=(ListOffsetsTopic(name=self.place.topic, partitions=(asked,)),),
        )
        answer = await self._ask(self.leader[1], body, timeout_s, at_least=_ISOLATION)
        for topic in answer.topics:
            for one in topic.partitions:
                if TopicPartition(topic.name, one.partition_index) == self.place:
                    if one.error_code:
                        what = f"partition {self.place}"
                        raise _again(BrokerError.answering("ListOffsets", one.error_code, what, self.place.topic))
                    return int(one.offset)
        raise ClientError(f"{self.place}: the broker's answer does not contain it")

    async def _owner(self, timeout_s: float) -> OwnerPremises | None:
        """None where the coordinator does not know the id any more, or may not describe it to the principal."""
        if self.coordinator is None or self.transactional_id is None:
            return None
        broker, link = self.coordinator
        body = DescribeTransactionsRequest(transactional_ids=(self.transactional_id,))
        try:
            answer = await self._ask(link, body, timeout_s)
        except UnsupportedApiError:
            return None
        found = descriptions_in(answer, broker).get(self.transactional_id)
        if found is None or isinstance(found, ClientError):
            if found is not None and not found.retriable:
                return None
            raise JudgeAgain(str(found or f"broker {broker} did not describe transactional id {self.transactional_id}"))
        return OwnerPremises(
            state=found.state,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            start_time_ms=found.start_time_ms,
            has_partition=self.place in found.partitions,
        )

    async def _listed(self, timeout_s: float) -> dict[int, tuple[str, ...]]:
        """The ids of the producer id, by broker; without brokers that do not answer, or with an error."""
        body = ListTransactionsRequest(producer_id_filters=(self.producer_id,))
        found: dict[int, tuple[str, ...]] = {}

        async def one(broker: int, link: Link) -> None:
            with suppress(JudgeAgain, UnsupportedApiError):
                answer = await self._ask(link, body, timeout_s)
                if not answer.error_code:
                    found[broker] = tuple(each.transactional_id for each in answer.transaction_states)

        await _all(*(one(broker, link) for broker, link in self.brokers.items()))
        return found

    async def _ask(
        self, link: Link, body: Message, timeout_s: float, *, at_least: int = 0, at_most: int | None = None
    ) -> Any:
        try:
            return await link.ask(body, timeout_s, pause_s=timeout_s, at_least=at_least, at_most=at_most)
        except ConnectError as error:
            raise JudgeAgain(str(error)) from None


async def connect(
    cluster: Cluster, place: TopicPartition, producer_id: int, transactional_id: str | None, deadline: Deadline
) -> AbortReading:
    """Opens the connections.

    Args:
        producer_id: of the transaction. `transactional_id`: of its owner, None where none is known.
        deadline: for all of them.

    Raises:
        ClientError: there is no leader or no coordinator, or it cannot be reached.
    """
    leader = await leader_of(cluster, place, deadline)
    link = await cluster.link(leader, deadline)
    coordinator: tuple[int, Link] | None = None
    brokers: dict[int, Link] = {}
    if transactional_id is not None:
        try:
            number = await coordinator_of(cluster, transactional_id, deadline)
            coordinator = number, await cluster.link(number, deadline)
        except BrokerError as error:
            if error.retriable:
                raise
            # The principal may not describe it: `__transaction_state` has it, and the partition decides.
    else:
        for broker in await cluster.known_brokers(deadline):
            with suppress(ConnectError):  # the verdict does not rest on it, or names it as a doubt
                brokers[broker] = await cluster.link(broker, deadline)
    return AbortReading(place, producer_id, transactional_id, (leader, link), coordinator, brokers)


def _again(error: ClientError) -> ClientError:
    return JudgeAgain(str(error)) if error.retriable else error


async def _all(*readings: Awaitable[Any]) -> list[Any]:
    """The results; all have ended when the first error is raised."""
    found = await asyncio.gather(*readings, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found

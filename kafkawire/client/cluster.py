"""`Cluster`: the brokers of a cluster, found from a bootstrap list, each with one connection that is made when needed.
The first serves its broker too, where that advertises the address by which it was reached.

    async with Cluster(config) as cluster:
        metadata = await cluster.metadata(["orders"])
        response = await cluster.ask(1, ListTransactionsRequest(), deadline)

Requests to different brokers run side by side. Nothing waits past its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kafkawire.client.deadline import Deadline, backoffs
from kafkawire.client.errors import (
    AuthenticationError,
    BrokerError,
    ClientError,
    ConnectError,
    NoSuchBrokerError,
)
from kafkawire.client.link import Link, address_of, connect
from kafkawire.client.results import Broker, Metadata, PartitionInfo, TopicPartition
from kafkawire.client.rights import missing_right
from kafkawire.client.sasl import OAUTHBEARER, Credentials
from kafkawire.client.versions import choose
from kafkawire.messages import MetadataRequest
from kafkawire.messages.metadata_request import MetadataRequestTopic

if TYPE_CHECKING:
    from kafkawire.client.config import Config
    from kafkawire.wire.message import Message

#: Metadata v1 is the first that can ask for all topics, v4 the first that creates none; brokers from 0.11 know it.
_METADATA = 4
_FIRST_GRACE_S = 1.0
_BOOTSTRAP = -1


class Cluster:
    """See the module. Use it in an `async with`, or `close` it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.brokers: dict[int, Broker] = {}
        self._context = config.tls.context() if config.tls else None
        self._links: dict[int, Link] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        links, self._links = set(self._links.values()), {}
        await asyncio.gather(*(link.close() for link in links))

    def deadline(self, seconds: float | None = None) -> Deadline:
        """The time that a call has, by default as configured (default.api.timeout.ms)."""
        return Deadline(self.config.api_timeout_s if seconds is None else seconds)

    # Requests ---------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        broker_id: int,
        body: Message,
        deadline: Deadline,
        *,
        at_most: int | None = None,
        at_least: int = 0,
    ) -> Any:
        """The response of one broker. Tried once: who asks knows whether it may be asked again.

        Raises:
            ClientError: no broker with that id, no connection, no answer, no common version.
        """
        link = await self._link(broker_id, deadline)
        left = deadline.left()
        timeout = min(left, self.config.request_timeout_s)
        return await link.ask(body, timeout, pause_s=left, at_most=at_most, at_least=at_least)

    async def ask_any(self, body: Message, deadline: Deadline, *, at_most: int | None = None, at_least: int = 0) -> Any:
        """The response of some broker: the one that answers first of those that can be reached.

        Raises:
            ClientError: none answered in time; the error of the last that was tried.
        """
        waits = backoffs(self.config)
        lost: Deadline | None = None
        while True:
            try:
                return await self.ask(_BOOTSTRAP, body, deadline, at_most=at_most, at_least=at_least)
            except ConnectError as error:
                # Where nobody has ever answered, the addresses are wrong: said at once. Later brokers come back.
                lost = lost or deadline.within(self.config.connect_timeout_s)
                if not error.retriable or not self.brokers or not await lost.sleep(next(waits)):
                    raise

    async def highest(self, request: type[Message], deadline: Deadline, broker_id: int = _BOOTSTRAP) -> int:
        """The highest version of a request that `ask` would send to a broker now; by default `ask_any`."""
        link = await self._link(broker_id, deadline)
        return choose(request, link.connection.versions, address=link.connection.address)

    # Metadata ---------------------------------------------------------------------------------------------------------

    async def metadata(
        self, topics: Iterable[str] | None = None, *, deadline: Deadline | None = None, broker_id: int | None = None
    ) -> Metadata:
        """Brokers and partitions: of all topics, or of some (none where `topics` is empty).

        Args:
            broker_id: the broker to ask, by default any.
        """
        deadline = deadline or self.deadline()
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=topic) for topic in topics)
        body = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        if broker_id is None:
            answer = await self.ask_any(body, deadline, at_least=_METADATA)
        else:
            answer = await self.ask(broker_id, body, deadline, at_least=_METADATA)
        brokers = {broker.node_id: Broker(broker.node_id, broker.host, broker.port) for broker in answer.brokers}
        if brokers:
            self.brokers = brokers
        errors: dict[str, ClientError] = {}
        partitions: dict[TopicPartition, PartitionInfo] = {}
        for topic in answer.topics:
            if topic.name is None:  # only where topics are asked for by their ids
                raise ClientError("the broker's metadata has a topic without a name")
            if topic.error_code and not topic.partitions:
                right = missing_right("Metadata", topic.error_code, topic.name)
                errors[topic.name] = BrokerError(topic.error_code, f"topic {topic.name}", right=right)
            for found in topic.partitions:
                place = TopicPartition(topic.name, found.partition_index)
                partitions[place] = PartitionInfo(
                    place,
                    found.leader_id if found.leader_id >= 0 else None,
                    found.leader_epoch,
                    found.replica_nodes,
                    found.offline_replicas,
                )
        return Metadata(answer.cluster_id, brokers, dict(sorted(partitions.items())), errors)

    async def known_brokers(self, deadline: Deadline) -> dict[int, Broker]:
        """The brokers that the cluster has now."""
        return (await self.metadata((), deadline=deadline)).brokers

    # Connections ------------------------------------------------------------------------------------------------------

    async def _link(self, broker_id: int, deadline: Deadline) -> Link:
        lock = self._opening.setdefault(broker_id, asyncio.Lock())
        async with lock:
            link = self._links.get(broker_id)
            if link is not None and link.usable:
                return link
            if link is not None:
                await link.close()
            self._links.pop(broker_id, None)
            opened = await (self._bootstrap(deadline) if broker_id == _BOOTSTRAP else self._broker(broker_id, deadline))
            self._links[broker_id] = opened
            return opened

    async def _broker(self, broker_id: int, deadline: Deadline) -> Link:
        if broker_id not in self.brokers:
            await self.known_brokers(deadline)
        broker = self.brokers.get(broker_id)
        if broker is None:
            known = ", ".join(map(str, sorted(self.brokers))) or "none"
            raise NoSuchBrokerError(f"the cluster has no broker {broker_id} now; its brokers are {known}")
        first = self._links.get(_BOOTSTRAP)
        if first is not None and first.usable and first.connection.address == address_of(broker.host, broker.port):
            return first  # to this very broker: no need for another connection
        return await self._open(broker.host, broker.port, deadline)

    async def _bootstrap(self, deadline: Deadline) -> Link:
        """A connection to the first address that answers. Each next one is tried when the one before has failed, or
        has not answered for a moment: a dead address does not cost its whole timeout."""
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        addresses = list(dict.fromkeys((*self.config.bootstrap, *known)))
        errors: list[ConnectError] = []
        waiting: set[asyncio.Task[Link]] = set()
        try:
            while addresses or waiting:
                if addresses:
                    waiting.add(asyncio.create_task(self._open(*addresses.pop(0), deadline)))
                grace = _FIRST_GRACE_S if addresses else None
                done, waiting = await asyncio.wait(waiting, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    if error is None:
                        waiting |= done - {task}
                        return task.result()
                    if not isinstance(error, ConnectError) or isinstance(error, AuthenticationError):
                        raise error
                    errors.append(error)
        finally:
            for task in waiting:
                task.cancel()
            for found in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(found, Link):
                    await found.close()
        if len(errors) == 1:
            raise errors[0]
        worst = next((error for error in errors if not error.retriable), errors[-1])
        others = "; ".join(str(error) for error in errors if error is not worst)
        raise type(worst)(worst.address, f"{worst.reason} (and no other bootstrap server answers: {others})")

    async def _open(self, host: str, port: int, deadline: Deadline) -> Link:
        credentials = self.config.credentials
        if self.config.tokens is not None:
            from kafkawire.client.oauth import get_token

            token = await asyncio.to_thread(get_token, self.config.tokens, self.config.connect_timeout_s)
            credentials = Credentials(mechanism=OAUTHBEARER, token=token)
        return await connect(host, port, self.config, credentials, deadline.left(), self._context)

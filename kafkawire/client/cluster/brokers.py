"""`Brokers`: the brokers of a cluster, found from a bootstrap list, with one connection each, opened when it is needed.
The bootstrap connection is also used as its broker's, if the broker advertises the same address.

Requests to different brokers run concurrently; none outlasts its deadline. After a broker has not answered in time, a
connection to it is attempted in the background: until it answers, a request to it fails after a second at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterable
from typing import Any, Self

from kafkawire.client.cluster.current_waits import CurrentWaits
from kafkawire.client.cluster.deadline import Deadline, backoffs
from kafkawire.client.errors import (
    AuthenticationError,
    BrokerError,
    ClientError,
    ConnectError,
    NoSuchBrokerError,
    RequestTimeoutError,
)
from kafkawire.client.results import Broker, Metadata, PartitionInfo, TopicPartition
from kafkawire.client.transport.api_versions import choose
from kafkawire.client.transport.broker_link import Link, address_of, connect
from kafkawire.client.transport.config import Config
from kafkawire.client.transport.sasl import OAUTHBEARER, Credentials, TokenSource
from kafkawire.messages import MetadataRequest
from kafkawire.messages.metadata_request import MetadataRequestTopic
from kafkawire.wire.message import Message

#: The first version of Metadata that creates no topic; brokers from 0.11 on know it.
_METADATA = 4
_FIRST_GRACE_S = 1.0
#: Stands for any broker, in place of an id.
ANY = -1
#: Seconds that a request waits for a broker that has not answered in time before; it is connected in the background.
LOOK_S = 1.0
#: Partitions and brokers that are remembered as given up; beyond it the oldest is forgotten.
_MOST_GIVEN_UP = 100_000
_NOT_YET = ", and it does not answer yet"


class Brokers:
    """The brokers of a cluster, and a request to one of them, which is sent once. `brokers`: of the newest metadata.
    `waits`: the current waits."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.brokers: dict[int, Broker] = {}
        self._context = config.tls.context() if config.tls else None
        self._links: dict[int, Link] = {}
        self._opening: dict[int, asyncio.Lock] = {}
        self.waits = CurrentWaits()
        self._silent: dict[int, tuple[float, RequestTimeoutError]] = {}
        self._looks: dict[int, tuple[float, asyncio.Task[Link]]] = {}
        self._given_up: dict[Hashable, None] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        looks, self._looks = [look for _, look in self._looks.values()], {}
        links, self._links = set(self._links.values()), {}
        links.update(await _ended(looks))
        await asyncio.gather(*(link.close() for link in links))

    def deadline(self, seconds: float | None = None) -> Deadline:
        """The deadline of a call that begins now, by default as configured (default.api.timeout.ms)."""
        return Deadline(self.config.api_timeout_s if seconds is None else seconds)

    # Requests ---------------------------------------------------------------------------------------------------------

    async def ask_broker(
        self, broker_id: int, body: Message, deadline: Deadline, *, at_most: int | None = None, at_least: int = 0
    ) -> Any:
        """The response of one broker. The request is sent once: the caller knows whether it may be repeated.

        Args:
            at_most: highest version to use. `at_least`: lowest one.

        Raises:
            ClientError: no broker with that id, no connection, no answer, no common version.
        """
        began = time.monotonic()
        try:
            link = await self.link(broker_id, deadline)
            left = deadline.left()
            timeout = min(left, self.config.request_timeout_s)
            name = f"{self._name(broker_id, link)}: no answer to {body.spec.name.removesuffix('Request')}"
            with self.waits.on(name, name, timeout):
                answer = await link.ask(body, timeout, pause_s=left, at_most=at_most, at_least=at_least)
        except RequestTimeoutError as error:
            # A broker counts as silent only if it had time to answer.
            least_s = min(LOOK_S, self.config.request_timeout_s, self.config.connect_timeout_s)
            if broker_id in self._silent or (broker_id != ANY and time.monotonic() - began >= least_s):
                self._silent[broker_id] = time.monotonic(), error
            raise
        self._silent.pop(broker_id, None)
        return answer

    async def ask_any(self, body: Message, deadline: Deadline, *, at_most: int | None = None, at_least: int = 0) -> Any:
        """The response of any broker: the first that can be reached. The request may be sent several times.

        Args:
            deadline: of all attempts. `at_most`, `at_least`: as for `ask_broker`.

        Raises:
            ClientError: no broker answered in time; the error of the last attempt.
        """
        waits = backoffs(self.config)
        lost: Deadline | None = None
        while True:
            try:
                return await self.ask_broker(ANY, body, deadline, at_most=at_most, at_least=at_least)
            except ConnectError as error:
                # If no broker has ever answered, the addresses are wrong. Otherwise brokers may come back.
                lost = lost or deadline.within(self.config.connect_timeout_s)
                if not error.retriable or not self.brokers or not await lost.sleep(next(waits)):
                    raise

    async def highest(
        self, request: type[Message], deadline: Deadline, broker_id: int = ANY, *, at_most: int | None = None
    ) -> int:
        """The version in which `ask_broker` would send a request to a broker now; without a broker id, `ask_any`.
        `deadline`: for the connection, which is opened if there is none. `at_most`: the highest version to use."""
        link = await self.link(broker_id, deadline)
        return choose(request, link.connection.versions, at_most=at_most, address=link.connection.address)

    # Metadata ---------------------------------------------------------------------------------------------------------

    async def metadata(
        self, topics: Iterable[str] | None = None, *, deadline: Deadline | None = None, broker_id: int | None = None
    ) -> Metadata:
        """Brokers and partitions. `topics`: names; None for all topics, empty for none. `broker_id`: the broker to ask,
        by default any."""
        deadline = deadline or self.deadline()
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=topic) for topic in topics)
        body = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        if broker_id is None:
            answer = await self.ask_any(body, deadline, at_least=_METADATA)
        else:
            answer = await self.ask_broker(broker_id, body, deadline, at_least=_METADATA)
        brokers = {broker.node_id: Broker(broker.node_id, broker.host, broker.port) for broker in answer.brokers}
        if brokers:
            self.brokers = brokers
        errors: dict[str, ClientError] = {}
        partitions: dict[TopicPartition, PartitionInfo] = {}
        for topic in answer.topics:
            if topic.name is None:  # only in responses to requests that name topics by their ids
                raise ClientError("the broker's metadata has a topic without a name")
            if topic.error_code and not topic.partitions:
                subject = f"topic {topic.name}"
                errors[topic.name] = BrokerError.answering("Metadata", topic.error_code, subject, topic.name)
            for found in topic.partitions:
                place = TopicPartition(topic.name, found.partition_index)
                partitions[place] = PartitionInfo(
                    place,
                    found.leader_id if found.leader_id >= 0 else None,
                    found.leader_epoch,
                    found.replica_nodes,
                    found.offline_replicas,
                    found.isr_nodes,
                    topic.topic_id if topic.topic_id.int else None,
                )
        return Metadata(answer.cluster_id, brokers, dict(sorted(partitions.items())), errors)

    async def known_brokers(self, deadline: Deadline) -> dict[int, Broker]:
        """The brokers that the cluster has now."""
        return (await self.metadata((), deadline=deadline)).brokers

    # Connections ------------------------------------------------------------------------------------------------------

    def given_up(self, key: Hashable) -> bool:
        """Whether an earlier call gave up a partition without a leader, or a broker that could not be reached."""
        return key in self._given_up

    def remember(self, key: Hashable, *, lost: bool) -> None:
        """Notes whether a call gave up a partition or broker; the next call tries it once, without waiting."""
        self._given_up.pop(key, None)
        if lost:
            self._given_up[key] = None
            if len(self._given_up) > _MOST_GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]

    def _name(self, broker_id: int, link: Link | None = None) -> str:
        """A broker in a sentence: `broker 2 (kafka-2:9092)`."""
        broker = self.brokers.get(broker_id)
        if broker is not None:
            return f"broker {broker_id} ({address_of(broker.host, broker.port)})"
        return f"broker {broker_id}" if link is None else link.connection.address

    async def link(self, broker_id: int, deadline: Deadline) -> Link:
        """The connection to a broker, opened if there is none that can be used. What is asked on it directly is never
        sent on another one.

        Args:
            deadline: for opening it.

        Raises:
            ClientError: no broker with that id, or no connection.
        """
        asked = time.monotonic()
        lock = self._opening.setdefault(broker_id, asyncio.Lock())
        async with lock:
            link = self._links.get(broker_id)
            if link is not None and link.usable:
                return link
            if link is not None:
                await link.close()
            self._links.pop(broker_id, None)
            silent = self._silent.get(broker_id)
            if silent is not None and silent[0] >= asked:
                raise silent[1]  # another request has waited for it in the meantime
            if broker_id == ANY:
                opened = await self._bootstrap(deadline)
            elif silent is not None:
                opened = await self._look(broker_id, silent[1])
            else:
                opened = await self._broker(broker_id, deadline)
            self._links[broker_id] = opened
            return opened

    async def _look(self, broker_id: int, error: RequestTimeoutError) -> Link:
        """A connection to a broker that has not answered in time before. It is opened in the background with the usual
        limit, so that slow brokers are found, too; the caller waits for at most `LOOK_S`."""
        began, look = self._looks.get(broker_id, (0.0, None))
        if look is None or (look.done() and (look.cancelled() or look.exception() is not None)):
            began, look = (
                time.monotonic(),
                asyncio.create_task(self._broker(broker_id, Deadline(self.config.connect_timeout_s))),
            )
            self._looks[broker_id] = began, look
        await asyncio.wait({look}, timeout=max(0.0, began + LOOK_S - time.monotonic()))
        if not look.done():
            # `error` may be that of an earlier look.
            raise RequestTimeoutError(error.address, error.reason.removesuffix(_NOT_YET) + _NOT_YET)
        del self._looks[broker_id]
        return look.result()

    async def _broker(self, broker_id: int, deadline: Deadline) -> Link:
        if broker_id not in self.brokers:
            await self.known_brokers(deadline)
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise NoSuchBrokerError.of(broker_id, self.brokers)
        first = self._links.get(ANY)
        if first is not None and first.usable and first.connection.address == address_of(broker.host, broker.port):
            return first  # it is connected to this broker
        return await self._open(broker.host, broker.port, deadline, self._name(broker_id))

    async def _bootstrap(self, deadline: Deadline) -> Link:
        """A connection to the first address that answers. The next one is tried when the previous has failed, or has
        not answered for `_FIRST_GRACE_S`."""
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
                while done:
                    error = (task := done.pop()).exception()
                    if error is None:
                        waiting |= done
                        return task.result()
                    if not isinstance(error, ConnectError) or isinstance(error, AuthenticationError):
                        waiting |= done
                        raise error
                    errors.append(error)
        finally:
            for found in await _ended(waiting):
                await found.close()
        if len(errors) == 1:
            raise errors[0]
        worst = next((error for error in errors if not error.retriable), errors[-1])
        others = "; ".join(str(error) for error in errors if error is not worst)
        raise type(worst)(worst.address, f"{worst.reason} (and no other bootstrap server answers: {others})")

    async def _open(self, host: str, port: int, deadline: Deadline, name: str = "") -> Link:
        credentials = self.config.credentials
        if self.config.tokens is not None:
            token = await _token(self.config.tokens, min(deadline.left(), self.config.connect_timeout_s))
            credentials = Credentials(mechanism=OAUTHBEARER, token=token)
        text = f"{name or address_of(host, port)}: no connection yet, or no answer on it"
        limit_s = min(deadline.left(), self.config.connect_timeout_s)
        with self.waits.on(text, text, limit_s):
            return await connect(host, port, self.config, credentials, deadline.left(), self._context)


async def _token(source: TokenSource, limit_s: float) -> str:
    from kafkawire.client.transport.oauth import get_token

    try:
        async with asyncio.timeout(limit_s):  # an endpoint that sends byte after byte passes every limit of a socket
            return await asyncio.to_thread(get_token, source, limit_s)
    except TimeoutError:
        place = source.url or "sasl.login"
        raise AuthenticationError(place, f"no token came in {limit_s:.3g} s") from None


async def _ended(tasks: Iterable[asyncio.Task[Link]]) -> list[Link]:
    """Cancels attempts; returns the connections that had already been opened."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    return [found for found in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(found, Link)]

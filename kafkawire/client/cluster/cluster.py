"""`Cluster`: sends a request to the broker that is responsible, in a version that both know, repeats it by Kafka's
rules, and returns the typed response.

    async with Cluster(config) as cluster:
        listed = await cluster.ask(ListOffsetsRequest(...), topic="orders", partition=0)   # a ListOffsetsResponse

`request_driver` has the calls about many keys, each of which may have an error of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from kafkawire.client.cluster.brokers import ANY, Brokers
from kafkawire.client.cluster.deadline import Deadline, backoffs
from kafkawire.client.cluster.request_driver import RetriedCall, RetryLimit
from kafkawire.client.cluster.routing import coordinator_of, group_coordinator_of, leader_of
from kafkawire.client.errors import ApiTimeoutError, BrokerError, ClientError, ConnectError, OutcomeUnknownError
from kafkawire.client.results import TopicPartition
from kafkawire.client.transport.api_versions import choose
from kafkawire.client.transport.config import Config
from kafkawire.kafka_errors import RETRIABLE
from kafkawire.wire.message import Message, RequestOf

R = TypeVar("R", bound=Message)

#: What a request is about: kind, name, and number of a partition or broker.
_Target = tuple[str, str, int]
#: Answers that are remembered; beyond it the oldest is forgotten.
_MOST_ROUTES = 10_000


class Cluster(Brokers):
    """The brokers of a cluster, with one connection each, opened when it is needed. Use it in an `async with`, or
    `close` it.

    Attributes:
        brokers: of the newest metadata. `waits`: the current waits.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._routes: dict[_Target, int] = {}

    async def ask(
        self,
        request: RequestOf[R],
        *,
        broker: int | None = None,
        topic: str | None = None,
        partition: TopicPartition | int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        timeout_s: float | None = None,
        at_least: int = 0,
        at_most: int | None = None,
        again: bool = True,
    ) -> R:
        """The response of the broker that is responsible, of the type that answers the request.

        The version is the newest that both sides know and that carries all that the request states: one that names a
        topic is not sent in a version with topic ids. As Kafka's clients do, it repeats a request that was not
        answered, and one where all error codes of the response are temporary (`kafka_errors.RETRIABLE`), to the
        broker that is responsible then. A response in which anything succeeded, or failed with a permanent error, is
        returned unchanged.

        Args:
            request: any request of Kafka's protocol.
            broker: the id of the broker. By default any broker answers.
            topic: the leader of the topic's only partition, or of `partition`.
            partition: the leader of a partition: a `TopicPartition`, or its number beside `topic`.
            group: the coordinator of a consumer group.
            transactional_id: the coordinator of a transactional id.
            timeout_s: seconds for the whole call, by default `default.api.timeout.ms`.
            at_least, at_most: lowest and highest version to use.
            again: False sends a request once more only if it was certainly not carried out.

        Raises:
            ApiTimeoutError: there was no other answer than temporary errors in time; it names the last.
            OutcomeUnknownError: the request was sent and not answered, and `again` is False.
            ClientError: no such broker, topic or partition, no common version, no login.
            EncodeError: no common version carries a value.
            ValueError: the arguments name several brokers, or a partition without its topic.
        """
        target = _target(broker, topic, partition, group, transactional_id)
        if getattr(request, "acks", None) == 0:
            raise ValueError("a Produce with acks=0 has no response")
        deadline = self.deadline(timeout_s)
        waits = backoffs(self.config)
        call = RetriedCall(self, deadline)
        limit = RetryLimit(call, target)
        name = type(request).__name__.removesuffix("Request")
        while True:
            reached = False
            try:
                responsible = await self._responsible(target, deadline)
                version = await self._version(request, responsible, deadline, at_least, at_most)
                reached = True
                response: R = await self.ask_broker(
                    responsible, cast("Message", request), deadline, at_most=version, at_least=version
                )
                code = refusal(cast("Message", response))
                if code not in RETRIABLE:
                    self.remember(target, lost=False)
                    return response
                error: ClientError = BrokerError(code, name)
                error.retriable = True
            except ClientError as found:
                if reached and not again and isinstance(found, ConnectError):
                    raise OutcomeUnknownError(f"{name} was sent and not answered: {found}") from found
                error = found
            self._routes.pop(target, None)
            if not limit.allows(error):
                self.remember(target, lost=isinstance(error, ConnectError))
                raise error
            if not await call.sleep(next(waits), [target], {target: error}):
                raise ApiTimeoutError(f"{error} (after {deadline.seconds:.3g} s)") from error

    async def _responsible(self, target: _Target, deadline: Deadline) -> int:
        """The broker to ask; that of the last answer until a request fails there."""
        kind, name, number = target
        if kind in ("", "broker"):
            return number
        if target not in self._routes:
            if kind == "topic":
                number = await self._only_partition(name, deadline)
            if kind in ("topic", "partition"):
                found = await leader_of(self, TopicPartition(name, number), deadline)
            elif kind == "group":
                found = await group_coordinator_of(self, name, deadline)
            else:
                found = await coordinator_of(self, name, deadline)
            if len(self._routes) >= _MOST_ROUTES:
                del self._routes[next(iter(self._routes))]
            self._routes[target] = found
        return self._routes[target]

    async def _only_partition(self, topic: str, deadline: Deadline) -> int:
        metadata = await self.metadata([topic], deadline=deadline)
        if topic in metadata.errors:
            raise metadata.errors[topic]
        numbers = [one.partition for one in metadata.partitions]
        if len(numbers) != 1:
            raise ValueError(f"topic {topic} has {len(numbers)} partitions: say which one by partition=")
        return numbers[0]

    async def _version(
        self, request: Any, broker_id: int, deadline: Deadline, at_least: int, at_most: int | None
    ) -> int:
        """The newest common version that carries all that the request states; the newest where none does."""
        link = await self.link(broker_id, deadline)
        offered, address = link.connection.versions, link.connection.address
        highest = choose(type(request), offered, at_most=at_most, at_least=at_least, address=address)
        lowest = max(at_least, offered[request.spec.api_key][0], request.spec.valid_versions.start)
        fitting = (version for version in range(highest, lowest - 1, -1) if not request.unsupported(version))
        return next(fitting, highest)


def _target(
    broker: int | None,
    topic: str | None,
    partition: TopicPartition | int | None,
    group: str | None,
    transactional_id: str | None,
) -> _Target:
    if isinstance(partition, tuple):
        if topic is not None:
            raise ValueError("a TopicPartition has its topic: topic= is given, too")
        topic, partition = partition
    elif partition is not None and topic is None:
        raise ValueError(f"partition={partition} without topic=")
    found: list[_Target] = []
    if broker is not None:
        found.append(("broker", "", broker))
    if topic is not None:
        found.append(("topic", topic, 0) if partition is None else ("partition", topic, partition))
    if group is not None:
        found.append(("group", group, 0))
    if transactional_id is not None:
        found.append(("transactional_id", transactional_id, 0))
    if len(found) > 1:
        raise ValueError(f"one of them says which broker: {', '.join(kind for kind, _, _ in found)}")
    return found[0] if found else ("", "", ANY)


def refusal(response: Message) -> int:
    """The error code of a response in which nothing succeeded; 0 where anything did.

    If there are several codes, it is the first that is not temporary, or else the first.
    """
    codes = list(_outcomes(response))
    if 0 in codes:
        return 0
    return next((code for code in codes if code not in RETRIABLE), codes[0] if codes else 0)


def _outcomes(value: Any) -> Iterator[int]:
    """The error codes of what a response answers: a code at the top stands for all below, unless it is 0."""
    own: int | None = None
    inside: list[int] = []
    for field in value.spec.fields:
        held = getattr(value, field.attribute)
        if field.name in ("ErrorCode", "PartitionErrorCode"):
            own = held
        elif field.struct is not None and field.is_array and held:
            inside += (code for one in held for code in _outcomes(one))
    if own:
        yield own
    elif inside:
        yield from inside
    elif own is not None:
        yield own

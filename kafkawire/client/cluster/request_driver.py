"""Requests about many keys, each to the broker that is responsible for it.

It follows Kafka's AdminApiDriver: look up the responsible brokers, send each broker one request for all its keys (all
brokers concurrently), and start again with the keys whose errors are temporary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafkawire.client.cluster.brokers import Brokers
from kafkawire.client.cluster.current_waits import CurrentWait
from kafkawire.client.cluster.deadline import Deadline, backoffs
from kafkawire.client.errors import (
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
    ApiTimeoutError,
    BrokerError,
    ClientError,
    ConnectError,
)
from kafkawire.client.results import Results

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Keys in one request, as Kafka's own tool sends them.
BATCH = 500
#: Attempts for a topic that does not exist: it may be so new that a broker does not know it yet.
_UNKNOWN_TRIES = 3

Found = Mapping[K, V | ClientError]
Route = Callable[[Sequence[K]], Awaitable[Found[K, int]]]
Ask = Callable[[int, Sequence[K]], Awaitable[Found[K, V]]]


async def drive(
    cluster: Brokers, keys: Iterable[K], route: Route[K], ask: Ask[K, V], deadline: Deadline, *, again: bool = True
) -> Results[K, V]:
    """A value or an error for every key.

    Args:
        route: returns the broker that is responsible for each key, or the error.
        ask: returns a broker's answer for each key. A `ClientError` that it raises counts for all keys of the request.
        again: whether a request that may have reached a broker may be sent again.
    """
    order = list(dict.fromkeys(keys))
    open_ = list(order)
    call = RetriedCall(cluster, deadline)
    values: dict[K, V] = {}
    errors: dict[K, ClientError] = {}
    lost: set[K] = set()
    asked: dict[K, int] = {}
    patience: dict[K, RetryLimit] = {}
    waits = backoffs(cluster.config)
    while open_:
        routed = await _raised(route(open_), open_)
        by_broker: dict[int, list[K]] = {}
        answers: dict[K, V | ClientError] = {}
        for key in open_:
            where = routed.get(key, _silent(key))
            if isinstance(where, ClientError):
                answers[key] = where
            else:
                by_broker.setdefault(where, []).append(key)
                asked[key] = where
        unsent = set(answers)
        pieces = [(broker, own[i : i + BATCH]) for broker, own in by_broker.items() for i in range(0, len(own), BATCH)]
        for found in await asyncio.gather(*(_raised(ask(broker, piece), piece) for broker, piece in pieces)):
            answers.update(found)
        retry: list[K] = []
        for key in open_:
            answer = answers.get(key, _silent(key))
            lost.discard(key)
            if not isinstance(answer, ClientError):
                values[key] = answer
                continue
            errors[key] = answer
            if _is_lost(answer):
                lost.add(key)
            tries = patience.setdefault(key, RetryLimit(call, key, asked.get(key)))
            if tries.allows(answer) and (again or key in unsent):
                retry.append(key)
        open_ = retry
        if open_ and not await call.sleep(next(waits), open_, errors):
            for key in open_:
                errors[key] = ApiTimeoutError(f"{errors[key]} (after {deadline.seconds:.3g} s)")
            break
        for key in open_:
            del errors[key]
    for key in order:
        cluster.remember(key, lost=key in lost)
    answered = {broker for key, broker in asked.items() if key not in lost}
    for broker in set(asked.values()):
        cluster.remember(broker, lost=broker not in answered)
    return Results({k: values[k] for k in order if k in values}, {k: errors[k] for k in order if k in errors})


def _silent(key: object) -> ClientError:
    return ClientError(f"{key}: the broker's answer does not contain it")


async def _raised(asked: Awaitable[Found[K, V]], keys: Sequence[K]) -> Found[K, V]:
    try:
        return await asked
    except ClientError as error:
        return dict.fromkeys(keys, error)


async def every(
    cluster: Brokers, brokers: Iterable[int], ask: Callable[[int], Awaitable[V]], deadline: Deadline
) -> Results[int, V]:
    """A value or an error for each broker, where the keys are the brokers themselves. Their requests are sent
    concurrently.

    Args:
        ask: returns one broker's answer; it is called again where its `ClientError` is temporary.
        deadline: of all attempts.
    """

    async def one(broker_id: int) -> V | ClientError:
        waits = backoffs(cluster.config)
        call = RetriedCall(cluster, deadline)
        patience = RetryLimit(call, broker_id)
        while True:
            try:
                answer = await ask(broker_id)
            except ClientError as error:
                cluster.remember(broker_id, lost=_is_lost(error))
                if not patience.allows(error):
                    return error
                if not await call.sleep(next(waits), [broker_id], {broker_id: error}):
                    return ApiTimeoutError(f"{error} (after {deadline.seconds:.3g} s)")
            else:
                cluster.remember(broker_id, lost=False)
                return answer

    order = list(dict.fromkeys(brokers))
    found = list(zip(order, await asyncio.gather(*map(one, order)), strict=True))
    return Results(
        {key: value for key, value in found if not isinstance(value, ClientError)},
        {key: value for key, value in found if isinstance(value, ClientError)},
    )


class RetriedCall:
    """A call with its deadlines, and its waits between attempts."""

    def __init__(self, cluster: Brokers, deadline: Deadline) -> None:
        self.cluster = cluster
        self.deadline = deadline
        #: The deadline for brokers that cannot be reached and for partitions without a leader.
        self.lost = self.within()
        self._wait: CurrentWait | None = None

    def within(self) -> Deadline:
        return self.deadline.within(self.cluster.config.connect_timeout_s)

    async def sleep(self, seconds: float, keys: Sequence[K], errors: Mapping[K, ClientError]) -> bool:
        """`Deadline.sleep` before `keys` are tried again."""
        first = errors[keys[0]]
        more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
        limit = self.lost if _is_lost(first) else self.deadline
        text = f"broker {keys[0]}: {first}" if isinstance(keys[0], int) else f"{first}{more}"
        subject = first.address if isinstance(first, ConnectError) else f"{type(keys[0]).__name__} {keys[0]}"
        with self.cluster.waits.on(subject, text, limit.seconds, since=self._wait) as self._wait:
            return await self.deadline.sleep(seconds)


class RetryLimit:
    """Whether to try again: with temporary errors until the deadline; with an unreachable broker or a partition
    without a leader for less time, or once if an earlier call gave it up; with an unknown topic a few times."""

    def __init__(self, call: RetriedCall, *keys: Hashable) -> None:
        """`keys`: the key and the broker that is responsible for it."""
        self._call = call
        self._lost: Deadline | None = call.lost
        self._losses = 0
        self._least = 1 if any(map(call.cluster.given_up, keys)) else 2
        self._unknown = 0

    def allows(self, error: ClientError) -> bool:
        if isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION:
            self._unknown += 1
            return self._unknown < _UNKNOWN_TRIES
        if _is_lost(error):
            self._losses += 1
            self._lost = self._lost or self._call.within()
            waited = self._least == 1 or self._lost.over
            # If no broker has ever answered, the addresses are wrong.
            return error.retriable and bool(self._call.cluster.brokers) and (self._losses < self._least or not waited)
        self._lost = None
        return error.retriable


def _is_lost(error: ClientError) -> bool:
    """Whether a broker cannot be reached, or a partition has no leader."""
    return isinstance(error, ConnectError) or (isinstance(error, BrokerError) and error.code == LEADER_NOT_AVAILABLE)

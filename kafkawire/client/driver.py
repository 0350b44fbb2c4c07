"""Many keys, each to be asked of the broker that is responsible for it: leaders and coordinators move, brokers go.

Kafka's AdminApiDriver, in short: find out who is responsible, ask every broker for all its keys at once (and all
brokers side by side), and begin anew with the keys whose errors pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kafkawire.client.deadline import Deadline, backoffs
from kafkawire.client.errors import (
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
    ApiTimeoutError,
    BrokerError,
    ClientError,
    ConnectError,
)
from kafkawire.client.results import Results

if TYPE_CHECKING:
    from kafkawire.client.cluster import Cluster

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Keys in one request, as Kafka's own tool sends them.
BATCH = 500
#: What does not exist may only be so new that a broker has not heard of it: so often it is asked again.
_UNKNOWN_TRIES = 3

Found = Mapping[K, V | ClientError]
Route = Callable[[Sequence[K]], Awaitable[Found[K, int]]]
Ask = Callable[[int, Sequence[K]], Awaitable[Found[K, V]]]


async def drive(
    cluster: Cluster, keys: Iterable[K], route: Route[K], ask: Ask[K, V], deadline: Deadline, *, again: bool = True
) -> Results[K, V]:
    """A value or an error for every key.

    Args:
        route: the broker responsible for each key, or why there is none.
        ask: what that broker says of each key. A `ClientError` that it raises counts for all keys of the request.
        again: whether a request that may have reached a broker can be sent once more.
    """
    order = list(dict.fromkeys(keys))
    open_ = list(order)
    values: dict[K, V] = {}
    errors: dict[K, ClientError] = {}
    patience: dict[K, _Patience] = {}
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
        unsent = set(answers)
        pieces = [(broker, piece) for broker, mine in by_broker.items() for piece in batched(mine, BATCH)]
        for found in await asyncio.gather(*(_raised(ask(broker, piece), piece) for broker, piece in pieces)):
            answers.update(found)
        retry: list[K] = []
        for key in open_:
            answer = answers.get(key, _silent(key))
            if not isinstance(answer, ClientError):
                values[key] = answer
                continue
            errors[key] = answer
            tries = patience.setdefault(key, _Patience(cluster, deadline))
            if tries.worth(answer) and (again or key in unsent):
                retry.append(key)
        open_ = retry
        if open_ and not await deadline.sleep(next(waits)):
            for key in open_:
                errors[key] = ApiTimeoutError(f"{errors[key]} (after {deadline.seconds:.3g} s)")
            break
        for key in open_:
            del errors[key]
    return Results({k: values[k] for k in order if k in values}, {k: errors[k] for k in order if k in errors})


def _silent(key: object) -> ClientError:
    return ClientError(f"{key}: the broker's answer does not speak of it")


async def _raised(asked: Awaitable[Found[K, V]], keys: Sequence[K]) -> Found[K, V]:
    try:
        return await asked
    except ClientError as error:
        return dict.fromkeys(keys, error)


async def every(
    cluster: Cluster, brokers: Iterable[int], ask: Callable[[int], Awaitable[V]], deadline: Deadline
) -> Results[int, V]:
    """As `drive`, where the keys are brokers: each is asked for itself, all side by side, until it answers."""

    async def one(broker_id: int) -> V | ClientError:
        waits = backoffs(cluster.config)
        patience = _Patience(cluster, deadline)
        while True:
            try:
                return await ask(broker_id)
            except ClientError as error:
                if not patience.worth(error):
                    return error
                if not await deadline.sleep(next(waits)):
                    return ApiTimeoutError(f"{error} (after {deadline.seconds:.3g} s)")

    order = list(dict.fromkeys(brokers))
    found = dict(zip(order, await asyncio.gather(*map(one, order)), strict=True))
    return Results(
        {key: value for key, value in found.items() if not isinstance(value, ClientError)},
        {key: value for key, value in found.items() if isinstance(value, ClientError)},
    )


class _Patience:
    """For how long it is worth asking again: errors that pass do so until the deadline, but a broker that cannot be
    reached, or a partition without leader, is given up sooner, and what no broker has heard of after a few tries."""

    def __init__(self, cluster: Cluster, deadline: Deadline) -> None:
        self._cluster = cluster
        self._deadline = deadline
        self._lost: Deadline | None = None
        self._unknown = 0

    def worth(self, error: ClientError) -> bool:
        if isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION:
            self._unknown += 1
            return self._unknown < _UNKNOWN_TRIES
        if isinstance(error, ConnectError) or (isinstance(error, BrokerError) and error.code == LEADER_NOT_AVAILABLE):
            self._lost = self._lost or self._deadline.within(self._cluster.config.connect_timeout_s)
            # Where nobody has ever answered, the addresses are wrong.
            return error.retriable and bool(self._cluster.brokers) and not self._lost.over
        self._lost = None
        return error.retriable


def batched(items: Iterable[K], size: int) -> list[list[K]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    pieces = []
    while piece := list(islice(rest, size)):
        pieces.append(piece)
    return pieces

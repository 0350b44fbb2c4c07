"""Requests about transactional ids, to brokers as their coordinators: ListTransactions, DescribeTransactions and
InitProducerId. `Admin` documents their arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive, every
from kafkawire.client.cluster.routing import coordinators
from kafkawire.client.errors import ID_NOT_FOUND, BrokerError, ClientError, ConfigError
from kafkawire.client.results import (
    ProducerIdAndEpoch,
    Results,
    TopicPartition,
    TransactionDescription,
    TransactionListing,
)
from kafkawire.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from kafkawire.transactions.coordinator.coordinator_rules import IDLE, STATES

_DURATION, _PATTERN = 1, 2  # versions of ListTransactions that brought these filters
_MOST_MS = 60_000


async def list_transactions(
    cluster: Cluster,
    deadline: Deadline,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    duration_ms: int | None = None,
    pattern: str | None = None,
    broker_ids: Collection[int] | None = None,
) -> Results[int, tuple[TransactionListing, ...]]:
    """The transactional ids that brokers coordinate, by broker. `deadline`: for all brokers together. The other
    arguments are those of `Admin.list_transactions`."""
    if pattern == "":
        raise ConfigError("an empty pattern matches no transactional id: leave it out to list all of them")
    body = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
        duration_filter=-1 if duration_ms is None else duration_ms,
        transactional_id_pattern=pattern,
    )
    at_least = _PATTERN if pattern is not None else _DURATION if duration_ms is not None else 0

    async def ask(broker_id: int) -> tuple[TransactionListing, ...]:
        answer = await cluster.ask_broker(broker_id, body, deadline, at_least=at_least)
        if answer.error_code:
            raise BrokerError(answer.error_code, "ListTransactions")
        if answer.unknown_state_filters:
            unknown = ", ".join(sorted(answer.unknown_state_filters))
            raise ConfigError(f"no state of transactional ids is named {unknown}: {', '.join(STATES.values())}")
        return tuple(
            TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
            for one in answer.transaction_states
            if duration_ms is None or one.transaction_state not in IDLE
        )

    known = await cluster.known_brokers(deadline)
    return await every(cluster, sorted(known if broker_ids is None else set(broker_ids)), ask, deadline)


async def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str], deadline: Deadline
) -> Results[str, TransactionDescription]:
    """Each transactional id, as its coordinator describes it. `transactional_ids`: each has a description or an error.
    `deadline`: of the whole call, with its retries."""

    async def ask(broker: int, keys: Sequence[str]) -> dict[str, TransactionDescription | ClientError]:
        answer = await cluster.ask_broker(broker, DescribeTransactionsRequest(transactional_ids=tuple(keys)), deadline)
        return descriptions_in(answer, broker)

    return await drive(cluster, transactional_ids, coordinators(cluster, deadline), ask, deadline)


async def fence_producers(
    cluster: Cluster, transactional_ids: Iterable[str], deadline: Deadline
) -> Results[str, ProducerIdAndEpoch]:
    """Ends the open transaction of each id through its coordinator, and fences its producer (InitProducerId).

    Args:
        transactional_ids: each coordinator fences its own one after the other; one that does not exist is created.
        deadline: of the whole call, with its retries. Its seconds become the transaction timeout of the ids
            (`fence_request`).
    """

    async def ask(broker: int, keys: Sequence[str]) -> dict[str, ProducerIdAndEpoch | ClientError]:
        found: dict[str, ProducerIdAndEpoch | ClientError] = {}
        for place, key in enumerate(keys):
            try:
                answer = await cluster.ask_broker(broker, fence_request(key, deadline), deadline)
            except ClientError as error:  # those before it are fenced, and must not be fenced again
                return found | dict.fromkeys(keys[place:], error)
            found[key] = (
                fence_refusal(answer.error_code, key)
                if answer.error_code
                else ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            )
        return found

    return await drive(cluster, transactional_ids, coordinators(cluster, deadline, "InitProducerId"), ask, deadline)


def fence_request(transactional_id: str, deadline: Deadline) -> InitProducerIdRequest:
    """The request of `fence_producers`.

    As in Kafka's FenceProducersHandler, the id's transaction timeout becomes that of the call, because no producer uses
    the new epoch; a minute at most, because brokers refuse more than their transaction.max.timeout.ms.
    """
    timeout_ms = max(1, min(_MOST_MS, int(deadline.seconds * 1000)))
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)


def fence_refusal(code: int, transactional_id: str) -> BrokerError:
    """The error that a coordinator answers `fence_request` with."""
    return _error("InitProducerId", code, transactional_id)


def descriptions_in(
    answer: DescribeTransactionsResponse, broker: int
) -> dict[str, TransactionDescription | ClientError]:
    """The description of each id in the response of its coordinator, `broker`, or its error."""
    return {one.transactional_id: _description(one, broker) for one in answer.transaction_states}


def _description(one: Any, broker: int) -> TransactionDescription | ClientError:
    if one.error_code:
        return _error("DescribeTransactions", one.error_code, one.transactional_id)
    return TransactionDescription(
        transactional_id=one.transactional_id,
        coordinator=broker,
        state=one.transaction_state,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        timeout_ms=one.transaction_timeout_ms,
        start_time_ms=one.transaction_start_time_ms if one.transaction_start_time_ms >= 0 else None,
        partitions=tuple(sorted(TopicPartition(topic.topic, p) for topic in one.topics for p in topic.partitions)),
    )


def _error(api: str, code: int, transactional_id: str) -> BrokerError:
    detail = "no coordinator knows it" if code == ID_NOT_FOUND else ""
    return BrokerError.answering(api, code, f"transactional id {transactional_id}", transactional_id, detail)

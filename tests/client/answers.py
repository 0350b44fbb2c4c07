"""What scripted brokers answer in tests, and a client that does not wait long for it."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Coroutine
from typing import Any

from kafkawire.client import (
    Admin,
    TopicPartition,
)
from kafkawire.client.cluster.current_waits import CurrentWait, CurrentWaits
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsResponse,
    WriteTxnMarkersResponse,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.describe_transactions_response import TopicData, TransactionState
from kafkawire.messages.list_transactions_response import TransactionState as Listed
from kafkawire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)

P = TopicPartition("orders", 0)
#: Far more than any test takes; what ends sooner was ended by its own deadline or reason.
HANG_S = 20.0

FAST = {"request.timeout.ms": "400", "default.api.timeout.ms": "3000", "retry.backoff.ms": "10"}


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), HANG_S))


def scenario(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes a test of an asynchronous function; pytest passes it the arguments of that."""

    @functools.wraps(test)
    def runner(**arguments: Any) -> None:
        run(functools.partial(test, **arguments))

    return runner


def admin(*addresses: str, **properties: str) -> Admin:
    given = FAST | {name.replace("_", "."): value for name, value in properties.items()}
    return Admin.connect(",".join(addresses), given)


def requests_at_once(waits: CurrentWaits) -> set[frozenset[str]]:
    """The names of requests that wait for answers at the same time: filled while the client works."""
    found: set[frozenset[str]] = set()

    def ended(wait: CurrentWait) -> None:
        texts = " ".join(one.text for one in (wait, *waits.now))
        found.add(frozenset(re.findall(r"no answer to (\w+)", texts)))

    waits.ended = ended
    return found


#: A time of a client's batch that is long ago, and can be that of a write.
OLD = 1_700_000_000_000


def listing(*ids: str) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        transaction_states=tuple(
            Listed(transactional_id=one, producer_id=i, transaction_state="Ongoing") for i, one in enumerate(ids)
        )
    )


def describing(code: int = 0) -> Callable[[DescribeTransactionsRequest], DescribeTransactionsResponse]:
    def answer(request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=tuple(
                TransactionState(
                    error_code=code,
                    transactional_id=one,
                    transaction_state="Ongoing",
                    producer_id=7,
                    producer_epoch=3,
                    transaction_timeout_ms=1000,
                    transaction_start_time_ms=5,
                    topics=(TopicData(topic="orders", partitions=(1, 0)),),
                )
                for one in request.transactional_ids
            )
        )

    return answer


def producers(
    code: int = 0, start: int = 40, coordinator_epoch: int = -1, timestamp: int = OLD
) -> Callable[..., DescribeProducersResponse]:
    def answer(request: DescribeProducersRequest) -> DescribeProducersResponse:
        state = ProducerState(
            producer_id=7,
            producer_epoch=3,
            last_sequence=2,
            last_timestamp=timestamp,
            coordinator_epoch=coordinator_epoch,
            current_txn_start_offset=start,
        )
        return DescribeProducersResponse(
            topics=tuple(
                TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        PartitionResponse(partition_index=p, error_code=code, active_producers=() if code else (state,))
                        for p in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    return answer


def marked(code: int = 0) -> WriteTxnMarkersResponse:
    partition = WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)
    topic = WritableTxnMarkerTopicResult(name="orders", partitions=(partition,))
    return WriteTxnMarkersResponse(markers=(WritableTxnMarkerResult(producer_id=7, topics=(topic,)),))


def script(*answers: Any) -> Callable[[Any], Any]:
    """Answers one after the other; the last for ever."""
    left = list(answers)

    def answer(request: Any) -> Any:
        chosen = left.pop(0) if len(left) > 1 else left[0]
        return chosen(request) if callable(chosen) and chosen is not ... else chosen

    return answer

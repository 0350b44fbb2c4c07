"""A scripted broker with one old open transaction, and searches for hanging transactions on it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kafkawire.client import Search
from kafkawire.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kafkawire.rows import Audit
from tests.client.answers import admin, describing, listing, producers
from tests.client.scripted import ScriptedBroker

STATE = "__transaction_state"

SEARCH = Search(topics=("orders",), confirm_after_s=0.01, session_s=0.02)

HANGING = ("hanging", "no_transactional_id")


#: Its start, the epoch of 1970, is young with this limit: verdicts depend on the readings alone.
PATIENT = replace(SEARCH, max_timeout_ms=1 << 50)


def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    high = 40 if request.isolation_level else 90
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ListOffsetsPartitionResponse(
                        partition_index=one.partition_index, offset=0 if one.timestamp == -2 else high
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def ended(request: DescribeProducersRequest) -> DescribeProducersResponse:
    return producers(start=-1)(request)


def broker(**on: Any) -> ScriptedBroker:
    """A broker with one old open transaction in orders-0, no authorizer, and nothing listed."""
    made = ScriptedBroker({"orders": {0: 1}, STATE: {0: 1, 1: 1}})
    made.versions[29] = (1, 3)
    made.on |= {
        DescribeAclsRequest: lambda _: DescribeAclsResponse(error_code=54),
        DescribeProducersRequest: producers(),
        ListTransactionsRequest: lambda _: ListTransactionsResponse(),
        ListOffsetsRequest: offsets,
        DescribeTransactionsRequest: describing(),
    }
    return made


async def find(made: ScriptedBroker, search: Search = SEARCH) -> Audit:
    async with made.running(), admin(made.address) as client:
        return await client.find_hanging_transactions(search)


def verdicts(audit: Audit) -> list[tuple[str, str]]:
    return [(finding.verdict, finding.reason) for finding in audit.findings]


def preparing(state: str = "PrepareCommit", **more: Any) -> dict[type, Any]:
    """The id of the open transaction is listed, and its coordinator describes it in a Prepare state."""

    def listed(_: Any) -> ListTransactionsResponse:
        (first,) = listing("paying").transaction_states
        return ListTransactionsResponse(transaction_states=(replace(first, producer_id=7),))

    def described(request: DescribeTransactionsRequest) -> Any:
        answer = describing()(request)
        return replace(
            answer,
            transaction_states=tuple(
                replace(one, transaction_state=state, **more) for one in answer.transaction_states
            ),
        )

    return {ListTransactionsRequest: listed, DescribeTransactionsRequest: described}

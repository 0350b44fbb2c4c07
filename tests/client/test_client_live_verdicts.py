"""Verdicts on transactions that a coordinator holds, and on those whose data the log has deleted."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from kafkawire.client import TopicPartition
from kafkawire.client.diagnosis.hanging_search import observe
from kafkawire.messages import (
    ApiVersionsRequest,
    DescribeProducersRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkawire.rows import Finding
from tests.client.answers import admin, scenario
from tests.client.hanging_script import (
    SEARCH,
    broker,
    find,
    offsets,
    preparing,
    verdicts,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("timeout_ms", "begun_s", "reason", "action"),
    [
        (60_000, 0, "live", "its producer ends it, or the coordinator"),
        (60_000, -61, "late", "none on the partition: its coordinator must end it"),
        (2**31 - 1, -7 * 86_400, "two_phase_commit", "its owner must commit or abort it"),
    ],
)
@scenario
async def test_a_transaction_that_its_coordinator_holds_is_not_hanging(
    timeout_ms: int, begun_s: int, reason: str, action: str
) -> None:
    """However old its batches are. It is read once: nothing can hide what is there."""
    made = broker()
    begun = int(time.time() + begun_s) * 1000
    made.on |= preparing("Ongoing", transaction_timeout_ms=timeout_ms, transaction_start_time_ms=begun)
    audit = await find(made)
    assert verdicts(audit) == [("not_hanging", reason)]
    assert action in (audit.findings[0].action or "")
    assert made.count(DescribeProducersRequest) == 1


@scenario
async def test_a_late_transaction_has_a_cause_by_release_and_features() -> None:
    """Though it is read once. A search that is repeated asks for them once."""
    search = replace(SEARCH, impact=True)

    async def searched(begun_s: int) -> tuple[Finding, list[int]]:
        made = broker()
        begun = int(time.time() + begun_s) * 1000
        made.on |= preparing("Ongoing", transaction_timeout_ms=60_000, transaction_start_time_ms=begun)
        async with made.running(), admin(made.address) as client:
            (first,) = (await observe(client.cluster, search, {})).audit.findings
            counts = [made.count(ApiVersionsRequest)]
            earlier = {(TopicPartition("orders", 0), first.producer_id): first}
            (again,) = (await observe(client.cluster, search, earlier)).audit.findings
            counts.append(made.count(ApiVersionsRequest))
        assert again.cause == first.cause
        return first, counts

    live, few = await searched(0)
    late, more = await searched(-61)
    assert live.cause is None
    assert late.cause is not None
    assert few[0] == few[1] < more[0] == more[1]


@scenario
async def test_a_transaction_that_began_below_the_log_start_hangs_as_others_do() -> None:
    """DeleteRecords removed its first records; of the others a leader says nothing (4.4.0: readers waited for ever at
    two that were left, and it was a ghost, exit code 0)."""
    made = broker()
    made.on[ListOffsetsRequest] = lambda request: _from(offsets(request), 60)
    audit = await find(made, replace(SEARCH, address="h:1"))
    assert verdicts(audit) == [("hanging", "no_transactional_id")]
    (finding,) = audit.findings
    assert (finding.attention, finding.blocked) == ("hanging", True)
    assert "; the log starts at 60." in finding.evidence[0]
    assert finding.action == "kafkawire txn abort --bootstrap-server h:1 --topic orders --partition 0 --start-offset 40"


@scenario
async def test_a_transaction_that_began_below_the_log_start_and_is_held_is_left_to_its_coordinator() -> None:
    made = broker()
    made.on |= preparing("Ongoing", transaction_timeout_ms=60_000, transaction_start_time_ms=1)
    made.on[ListOffsetsRequest] = lambda request: _from(offsets(request), 60)
    (finding,) = (await find(made)).findings
    assert finding.reason == "late"
    assert "its coordinator must end it" in (finding.action or "")


@scenario
async def test_a_ghost_that_blocks_no_reader_needs_no_action() -> None:
    made = broker()
    made.on[ListOffsetsRequest] = lambda request: _from(offsets(request), 90)
    (finding,) = (await find(made)).findings
    assert (finding.reason, finding.blocked) == ("ghost", False)
    assert (finding.action or "").startswith("none: its data is deleted")


def _from(answer: ListOffsetsResponse, start: int) -> ListOffsetsResponse:

    return replace(
        answer,
        topics=tuple(
            replace(t, partitions=tuple(replace(p, offset=max(start, p.offset)) for p in t.partitions))
            for t in answer.topics
        ),
    )

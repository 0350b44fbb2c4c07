"""Offsets of a group in open transactions: which transactions they wait for, and what is not read of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import TopicPartition
from kafkawire.client.diagnosis.pending_offsets import PendingOffsets, read_pending
from kafkawire.messages import (
    DescribeProducersRequest,
    FetchRequest,
)
from tests.client.answers import admin
from tests.client.group_script import (
    GROUP,
    OFFSETS,
    OWN,
    GroupBroker,
    assigned,
    blocked_by,
    blocking,
    classic,
    hanging,
    run,
)
from tests.client.partition_script import SEARCH

IN_TRANSACTION = (
    "The transaction holds offsets of group 'shipments': fetching them fails for {} (UNSTABLE_OFFSET_COMMIT) until the "
    "transaction has ended."
)


def idle(**fields: Any) -> GroupBroker:
    """A group whose members are assigned both partitions of `orders`, in which no transaction is open."""
    broker = GroupBroker()
    broker.logs[0].start = -1
    broker.described = {"classic": classic(assigned(0, 1))}
    for name, value in fields.items():
        setattr(broker, name, value)
    return broker


@pytest.mark.parametrize("committed", [{}, {0: 40}], ids=["none committed", "one committed before"])
def test_names_every_partition_whose_offset_is_in_a_transaction(committed: dict[int, int]) -> None:
    """A request for all offsets is answered without the partitions that have no committed one (redpanda#6423)."""
    found = blocked_by(idle(committed=committed, unstable={0, 1}, pending=(0, 1)))
    (finding,) = found.audit.findings
    assert (finding.topic, finding.partition, finding.producer_id) == (OFFSETS, OWN, 9)
    assert finding.evidence[-1] == IN_TRANSACTION.format("orders-0, orders-1")
    assert found.behind == {(TopicPartition(OFFSETS, OWN), 9)}
    assert "2 with committed offsets (2 of them in an open transaction)" in (found.audit.read.scope or "")
    assert found.audit.read.gaps == ()


def test_group_without_members_is_named_by_the_records_of_the_transaction() -> None:
    """No broker lists its partitions: it has neither an assignment nor a committed offset."""
    found = blocked_by(idle(described={"classic": classic(state="Empty")}, pending=(1,)))
    (finding,) = found.audit.findings
    assert finding.evidence[-1] == IN_TRANSACTION.format("orders-1")
    found = blocked_by(idle(described={}, pending=(1,)))
    assert len(found.behind) == 1


def test_what_blocks_a_partition_that_only_these_records_name_is_found() -> None:
    broker = GroupBroker()
    broker.described = {"classic": classic(state="Empty")}
    broker.pending = (0,)
    found = blocked_by(broker)
    assert {(topic, partition) for topic, partition, _ in hanging(found.audit)} == {("orders", 0), (OFFSETS, OWN)}


def test_transaction_of_other_groups_is_not_what_it_waits_for() -> None:
    found = blocked_by(idle(committed={0: 40}, pending=()))
    (finding,) = found.audit.findings
    assert "shipments" not in " ".join(finding.evidence)
    assert found.behind == frozenset()
    assert found.audit.read.gaps == ()


def test_unstable_offset_without_an_open_transaction_is_a_gap() -> None:
    """The broker says that a transaction holds it, and none is open where it is kept."""
    audit = blocking(idle(unstable={1}))
    assert audit.findings == ()
    assert not audit.read.complete
    assert audit.read.gaps == (
        "offsets of group 'shipments' could not be fetched for orders-1 (UNSTABLE_OFFSET_COMMIT), and no open "
        "transaction with them was found in __consumer_offsets-1, where they are kept: the group cannot start there, "
        "and what it waits for is not known",
    )


def test_offset_that_is_stable_by_the_end_of_the_search_is_no_gap() -> None:
    broker = idle(unstable={1})
    answered = broker.on[DescribeProducersRequest]

    def end(request: Any) -> Any:
        broker.unstable = set()
        return answered(request)

    broker.on[DescribeProducersRequest] = end
    audit = blocking(broker)
    assert (audit.read.gaps, audit.read.complete) == ((), True)


def test_partition_of_offsets_that_is_not_fetched_leaves_each_open_transaction_in_doubt() -> None:
    found = blocked_by(idle(unstable={1}, pending=(1,)), replace(SEARCH, fetch_bytes=0))
    (finding,) = found.audit.findings
    assert finding.evidence[-1] == (
        "The transaction may hold offsets of group 'shipments' (__consumer_offsets-1 was not read: nothing is to be "
        "fetched): fetching them fails for orders-1 (UNSTABLE_OFFSET_COMMIT) until the transaction has ended."
    )
    assert len(found.behind) == 1


def test_partition_of_offsets_that_is_fetched_in_part_leaves_each_open_transaction_in_doubt() -> None:
    found = blocked_by(idle(unstable={1}, pending=(0,), behind=3), replace(SEARCH, fetch_bytes=1))
    (finding,) = found.audit.findings
    assert found.view is not None
    assert found.view.held == {9: frozenset({TopicPartition("orders", 0), TopicPartition("orders", 1)})}
    assert finding.evidence[-1] == IN_TRANSACTION.format("orders-0, orders-1")


@pytest.mark.parametrize(
    ("behind", "problem"), [(0, None), (3, "__consumer_offsets-1 was read up to offset 0 of 3")], ids=["all", "part"]
)
def test_no_more_of_the_partition_of_offsets_is_fetched_than_is_allowed(behind: int, problem: str | None) -> None:
    """What is there is taken, and that there may be more is reported, without another request."""
    broker = idle(pending=(0,), behind=behind)

    async def scenario() -> PendingOffsets:
        async with broker.running(), admin(broker.address) as client:
            own = TopicPartition(OFFSETS, OWN)
            return await read_pending(client.cluster, GROUP, own, replace(SEARCH, fetch_bytes=1))

    assert run(scenario()) == PendingOffsets({9: frozenset({TopicPartition("orders", 0)})}, problem)
    assert broker.count(FetchRequest) == 1


def test_offset_that_is_refused_is_a_gap() -> None:
    broker = idle(committed={0: 40})
    refusing = broker.offset
    broker.offset = lambda topic, number: replace(refusing(topic, number), error_code=29)  # type: ignore[method-assign]
    audit = blocking(broker)
    assert [gap.split(":")[0] for gap in audit.read.gaps] == [
        "the offset of group 'shipments' in orders-0 could not be read",
        "the offset of group 'shipments' in orders-1 could not be read",
    ]

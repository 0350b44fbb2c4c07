"""`kafkawire txn find-hanging` where not everything can be read: no all-clear, and what is missing is named."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.client import Admin, Search, TopicPartition
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.client.diagnosis.hanging_search import observe
from kafkawire.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafkawire.messages.describe_producers_response import PartitionResponse
from kafkawire.transactions.formatting import when
from tests.cli.runner import Result, Run
from tests.client.group_script import GROUP, GroupBroker, assigned, classic
from tests.client.partition_script import NAME, Coordinator, PartitionBroker, in_thread

pytestmark = pytest.mark.slow

HASTE = {"socket.connection.setup.timeout.ms": 200}
DENIED = "TOPIC_AUTHORIZATION_FAILED: the principal needs Read on topic orders"
Find = Callable[..., Result]


class Guarded(PartitionBroker):
    """A transaction hangs in orders-0. Partitions in `denied` may not be read."""

    def __init__(self, partitions: int, *denied: int) -> None:
        super().__init__(partitions)
        self.denied = denied
        for number in range(1, partitions):
            self.logs[number].start = -1

    def describe_producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        def shown(one: PartitionResponse) -> PartitionResponse:
            number = one.partition_index
            return PartitionResponse(partition_index=number, error_code=29) if number in self.denied else one

        answer = super().describe_producers(request)
        topics = (
            type(topic)(name=topic.name, partitions=tuple(map(shown, topic.partitions)))
            if topic.name == "orders"
            else topic
            for topic in answer.topics
        )
        return DescribeProducersResponse(topics=tuple(topics))


@pytest.fixture
def find(run: Run, tmp_path: Path) -> Find:
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in HASTE.items()))

    def ask(broker: PartitionBroker, *args: object, command: str = "find-hanging") -> Result:
        where = ("--bootstrap-server", broker.address, "--command-config", config, "--confirm-after", "0.01")
        return run("txn", command, *where, *args)

    return ask


def nothing_found(partitions: int, *denied: int) -> Guarded:
    broker = Guarded(partitions, *denied)
    broker.log.start = -1
    return broker


# Nothing found --------------------------------------------------------------------------------------------------------


def test_complete_answer_is_an_all_clear(find: Find) -> None:
    with in_thread(nothing_found(4)) as broker:
        result = find(broker, "--topic", "orders", "--format", "table")
    assert (result.code, result.err) == (0, "")
    assert result.text.startswith(
        "No transaction hangs.\n"
        "  - place: 4 partitions described by the leaders that this broker names, in the same leader epochs\n"
        "  - reach: 4 of 4 chosen partitions described; the topics were given; nothing is open, so that no "
        "transactional id can be missing\n"
        "  - time: no age is needed: no transaction is open\n"
        "  - soundness: no broker answered with an error\n\n"
        "4 partitions on 1 broker, as of "
    )


def test_incomplete_answer_is_no_all_clear(find: Find) -> None:
    """On standard output, beside the result: standard error gets lost."""
    with in_thread(nothing_found(4, 1, 3)) as broker:
        result = find(broker, "--topic", "orders", "--format", "table")
    assert result.code == 4
    assert "No transaction hangs" not in result.text
    assert result.text.startswith(
        "None found, but not everything was read:\n"
        f"  - orders-1, orders-3 were not read: {DENIED}\n\n"
        "2 of 4 partitions on 1 broker, as of "
    )
    assert result.err == f"incomplete: orders-1, orders-3 were not read: {DENIED}\n"


def test_unread_partitions_are_cut_after_the_first(find: Find) -> None:
    with in_thread(nothing_found(3000, *range(1, 3000))) as broker:
        text = find(broker, "--topic", "orders", "--format", "table").text
        full = json.loads(find(broker, "--topic", "orders", "--format", "json").text)
    assert f" orders-20 and 2,979 more were not read: {DENIED}\n\n1 of 3,000 partitions on 1 broker" in text
    assert len(text) < 1000
    assert [one["partition"] for one in full["unread"]] == list(range(1, 3000))


def test_reasons_are_cut_after_the_first(find: Find) -> None:
    broker = nothing_found(1)
    broker.topics |= {f"topic-{n}": {0: -1} for n in range(50)}
    with in_thread(broker):
        result = find(broker, "--format", "table")
    lines = result.text.splitlines()
    assert (result.code, lines[0]) == (4, "None found, but not everything was read:")
    assert [line for line in lines if "topic-0-0" in line]
    assert "  - and 30 more: --format json has all of them" in lines


def test_abort_of_all_gives_no_all_clear(find: Find) -> None:
    with in_thread(nothing_found(4, 2)) as broker:
        result = find(broker, "--topic", "orders", "--all-hanging", "--yes", "--format", "table", command="abort")
    assert result.code == 4
    assert result.text.startswith(f"None found, but not everything was read:\n  - orders-2 was not read: {DENIED}\n")


def test_abort_of_all_names_what_could_not_be_judged(find: Find) -> None:
    """An authorizer may hide ids: the transaction is not known to hang."""
    broker = Guarded(1)
    broker.on[DescribeAclsRequest] = lambda _: DescribeAclsResponse(error_code=31)
    with in_thread(broker):
        result = find(broker, "--topic", "orders", "--all-hanging", "--yes", "--format", "table", command="abort")
    assert result.code == 4
    assert result.text.startswith(
        "None found, but not everything was read or judged:\n  - orders-0, offset 40: could not be judged\n"
    )


def test_force_terminate_names_unread_partitions(find: Find) -> None:
    broker = Coordinator("Empty")
    broker.topics["headless"] = {0: -1}
    with in_thread(broker):
        result = find(broker, "--transactional-id", NAME, "--yes", "--format", "table", command="force-terminate")
    assert "Not everything was read:\n  - headless-0 was not read: LEADER_NOT_AVAILABLE" in result.text
    assert result.code == 5  # in orders-0, a transaction of the producer hangs


# Found ----------------------------------------------------------------------------------------------------------------


def test_exits_with_3_for_findings_in_complete_data(find: Find) -> None:
    with in_thread(Guarded(4)) as broker:
        result = find(broker, "--topic", "orders", "--format", "json")
    assert result.code == 3
    audit = json.loads(result.text)
    assert audit["outcome"] == {
        "kind": "outcome", "found": True, "hanging": 1, "stuck": 0, "blocked": 0, "complete": True, "missing": [],
    }  # fmt: skip
    assert (audit["unread"], audit["read"]["partitions_chosen"]) == ([], 4)


def test_exits_with_5_for_findings_in_incomplete_data(find: Find) -> None:
    missing = f"orders-1, orders-3 were not read: {DENIED}"
    unread = [{"kind": "unread", "topic": "orders", "partition": p, "broker_id": 1, "reason": DENIED} for p in (1, 3)]
    outcome = {
        "kind": "outcome", "found": True, "hanging": 1, "stuck": 0, "blocked": 0, "complete": False,
        "missing": [missing],
    }  # fmt: skip
    with in_thread(Guarded(4, 1, 3)) as broker:

        def asked(format: str) -> str:
            result = find(broker, "--topic", "orders", "--format", format)
            assert (result.code, result.err) == (5, f"incomplete: {missing}\n")
            return result.text

        audit = json.loads(asked("json"))
        assert (audit["outcome"], audit["unread"]) == (outcome, unread)
        assert (audit["read"]["partitions"], audit["read"]["partitions_chosen"]) == (2, 4)
        read, finding, *rest = map(json.loads, asked("jsonl").splitlines())
        assert (read["kind"], read["complete"], finding["kind"]) == ("read", False, "finding")
        assert rest == [*unread, outcome]
        (row,) = csv.DictReader(io.StringIO(asked("csv")))
        assert row["verdict"] == "hanging"
        table = asked("table")
    where = table.index("2 of 4 partitions on 1 broker")
    assert (
        where < table.index(f"Not everything was read:\n  - {missing}\n") < table.index("orders-0, offset 40: hanging")
    )


def test_watch_once_has_the_same_exit_codes(find: Find) -> None:
    def once(broker: Any) -> int:
        with in_thread(broker):
            return find(broker, "--topic", "orders", "--once", command="watch").code

    assert [once(broker) for broker in (nothing_found(2), Guarded(2), nothing_found(2, 1), Guarded(2, 1))] == [
        0,
        3,
        4,
        5,
    ]


# Blocked --------------------------------------------------------------------------------------------------------------

MINUTE_MS, BEGAN_MINUTES = 60_000, 6


@pytest.fixture
def busy() -> Coordinator:
    """An id whose transaction is live, and began six minutes ago by its coordinator."""
    broker = Coordinator()
    broker.timeout_ms = 50 * MINUTE_MS
    broker.log.timestamp = clock_ms()
    broker.began_ms = clock_ms() - BEGAN_MINUTES * MINUTE_MS
    return broker


def test_live_transaction_that_blocks_readers_for_too_long_is_found(find: Find, busy: Coordinator) -> None:
    """It was left out without --all: "No transaction hangs.", exit code 0."""
    with in_thread(busy):
        result = find(busy, "--topic", "orders", "--format", "table", "--wide")
        lines = map(json.loads, find(busy, "--topic", "orders", "--format", "jsonl").text.splitlines())
        (row,) = (line for line in lines if line["kind"] == "finding")
    began, ends = when(busy.began_ms), when(busy.began_ms + 50 * MINUTE_MS)
    assert result.code == 3
    assert "No transaction hangs" not in result.text
    assert result.text.startswith(
        "Found: 1 blocked, not hanging (yet).\n"
        f"  - orders-0, offset 40: since {began}, transactional id '{NAME}', Ongoing; waits for the producer of "
        f"'{NAME}'; live until {ends}\n"
    )
    assert "orders-0, offset 40: not_hanging, live" in result.text
    assert (row["verdict"], row["reason"], row["attention"]) == ("not_hanging", "live", "blocked")
    assert (row["blocked_since"], row["blocked_until"]) == (busy.began_ms, busy.began_ms + 50 * MINUTE_MS)


def test_running_transaction_that_blocks_readers_for_a_moment_is_clear(find: Find, busy: Coordinator) -> None:
    with in_thread(busy):
        result = find(busy, "--topic", "orders", "--format", "table", "--blocked-after", 10)
    assert (result.code, result.text.split("\n")[0]) == (0, "No transaction hangs.")


def test_repeated_searches_count_from_the_first_sight() -> None:
    """No coordinator knows when it began, and its client's stamp is of now."""
    broker = PartitionBroker()
    broker.log.timestamp = clock_ms()

    async def attention(since: int) -> str | None:
        async with broker.running(), Admin.connect(broker.address) as client:
            search = Search(topics=("orders",), confirm_after_s=0.01)
            (first,) = (await observe(client.cluster, search, {})).audit.findings
            assert first.attention is None
            key = TopicPartition("orders", 0), first.producer_id
            later = await observe(client.cluster, search, {key: first}, since={key: clock_ms() - since * MINUTE_MS})
            return later.audit.findings[0].attention

    assert asyncio.run(attention(4)) is None
    broker.brokers.clear()
    assert asyncio.run(attention(6)) == "blocked"


# Groups ---------------------------------------------------------------------------------------------------------------


def test_reports_the_partitions_of_a_group_without_commits(find: Find) -> None:
    """It was "No transaction hangs.", exit 0, where it had commits elsewhere, and an error where it had none."""
    broker = GroupBroker()
    broker.described = {"classic": classic(assigned(0, 1))}
    with in_thread(broker):
        result = find(broker, "--group", GROUP, "--format", "table")
    assert result.code == 3
    assert (
        "\nOf group 'shipments' (classic, Stable, 1 member) these partitions were looked at: 2 that its members are "
        "assigned; 0 with committed offsets; __consumer_offsets-1, where its offsets are kept.\n"
    ) in result.text


def test_transaction_with_offsets_of_the_group_is_printed_with_what_it_holds(find: Find) -> None:
    """Live or young for now, and the answer to the question."""
    broker = GroupBroker()
    broker.logs[0].start = -1
    broker.described = {"classic": classic(assigned(0, 1))}
    broker.unstable, broker.pending = {0, 1}, (0, 1)
    with in_thread(broker):
        result = find(broker, "--group", GROUP, "--format", "table")
    assert result.code == 0
    assert "No transaction hangs" not in result.text
    assert "\n__consumer_offsets-1, offset 0: not_hanging, young\n" in result.text
    assert "fetching them fails for orders-0, orders-1 (UNSTABLE_OFFSET_COMMIT)" in result.text


def test_group_without_members_is_no_all_clear(find: Find) -> None:
    broker = GroupBroker()
    broker.described = {"classic": classic(state="Empty")}
    broker.committed = {1: 42}
    with in_thread(broker):
        result = find(broker, "--group", GROUP, "--format", "table")
    assert result.code == 4
    assert result.text.startswith(
        "None found, but not everything was read:\n"
        "  - where group 'shipments' waits is not certain: it has no members now\n"
    )
    assert "; 1 with committed offsets; " in result.text

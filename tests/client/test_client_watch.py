"""`Watch` with scripted brokers: the requests, rows and timing of polls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import Admin, ClientError, Search, TlsError, TopicPartition, Watch
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
)
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.rows import Change, Poll
from kafkawire.testing import MockBroker
from tests.client.answers import admin, describing, listing, producers, scenario, script
from tests.client.hanging_script import STATE, broker, ended, offsets
from tests.client.scripted import ScriptedBroker, served, silence
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.slow

SEARCH = Search(topics=("orders",), confirm_after_s=0.01, session_s=0.02)
HANGING = {"hanging no_transactional_id": 1}
MANY = 1800  # partitions: more than one request for each broker


def watching(client: Admin, search: Search = SEARCH, **options: Any) -> Watch:
    return Watch(client, search, **({"interval_s": 0.01} | options))


async def polls(watch: Watch, count: int) -> list[list[Change | Poll]]:
    """The rows of the first polls of `run`."""
    found = []
    run_ = watch.run()
    async for rows in run_:
        found.append(rows)
        if len(found) == count:
            await run_.aclose()
            break
    return found


def changes(rows: list[Change | Poll]) -> list[str]:
    return [row.change for row in rows if isinstance(row, Change)]


def outcome(rows: list[Change | Poll]) -> Poll:
    assert isinstance(rows[-1], Poll)
    return rows[-1]


@scenario
async def test_reports_a_hanging_transaction_and_its_end() -> None:
    made = broker()
    made.on[DescribeProducersRequest] = script(ended, producers(), producers(), producers(), ended)
    async with made.running(), admin(made.address) as client:
        found = await polls(watching(client), 4)
    assert [changes(rows) for rows in found] == [[], ["appeared"], [], ["gone"]]
    assert [outcome(rows).poll for rows in found] == [1, 2, 3, 4]
    assert {outcome(rows).outcome for rows in found} == {"complete"}
    assert [outcome(rows).transactions for rows in found] == [{}, HANGING, HANGING, {}]
    appeared = found[1][0]
    assert isinstance(appeared, Change)
    assert appeared.subject == "orders-0, producer id 7, offset 40"


@scenario
async def test_does_not_confirm_again_what_is_confirmed() -> None:
    """Two readings of the partition when it is new, one from then on; again two when something is different."""
    made = broker()
    asked = []
    async with made.running(), admin(made.address) as client:
        watch = watching(client)
        for start in (40, 40, 40, 50, 50):
            made.on[DescribeProducersRequest] = producers(start=start)
            before = made.count(DescribeProducersRequest)
            found = await watch.poll()
            asked.append((made.count(DescribeProducersRequest) - before, changes(found)))
    assert asked == [(2, ["appeared"]), (1, []), (1, []), (2, ["gone", "appeared"]), (1, [])]
    (finding,) = watch.state.findings.values()
    assert finding.evidence[-1] == "An earlier search has confirmed it, and read the same."


@scenario
async def test_a_hanging_transaction_can_become_live() -> None:
    """Its coordinator describes it at each poll: its partition may be added to a transaction of the same epoch."""
    made = broker()
    made.topics["orders"] = {0: 1, 1: 1}
    async with made.running(), admin(made.address) as client:
        watch = watching(client)
        assert changes(await watch.poll()) == ["appeared", "appeared"]
        made.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse(
            transaction_states=tuple(one for one in listing(*"abcdefgh").transaction_states if one.producer_id == 7)
        )
        found = await watch.poll()
    assert changes(found) == ["changed", "changed"]
    assert [row.before for row in found if isinstance(row, Change)] == ["hanging no_transactional_id"] * 2
    assert {finding.verdict for finding in watch.state.findings.values()} == {"not_hanging"}


# What it costs --------------------------------------------------------------------------------------------------------


def three(partitions: int) -> list[ScriptedBroker]:
    """Three brokers that lead `partitions` in turn; transactions are open in all of them."""
    made = [broker() for _ in range(3)]
    topics = {"orders": {n: 1 + n % 3 for n in range(partitions - 3)}, STATE: {n: 1 + n % 3 for n in range(3)}}
    seven = ListTransactionsResponse(transaction_states=(listing(*"abcdefgh").transaction_states[7],))
    for node, one in enumerate(made, 1):
        one.node_id = one.coordinator = node
        one.topics = topics
        one.on[ListTransactionsRequest] = lambda _: seven
        one.on[DescribeTransactionsRequest] = describing()
    return made


#: For what has to be answered, however busy the machine is.
PATIENT = {"request_timeout_ms": "10000", "default_api_timeout_ms": "15000"}


@pytest.mark.parametrize("partitions", [6, MANY])
@scenario
async def test_requests_of_a_poll(partitions: int) -> None:
    """As README and help state it: some requests a poll, some a broker, one for 500 partitions that a broker leads."""
    made = three(partitions)
    async with made[0].running(), made[1].running(), made[2].running():
        ports = {one.node_id: one.port for one in made}
        for one in made:
            one.brokers = dict(ports)
        async with admin(made[0].address, **PATIENT) as client:
            watch = watching(client, replace(SEARCH, topics=None))
            outcomes = [outcome(await watch.poll()) for _ in range(2)]
            for one in made:
                one.requests.clear()
            outcomes.append(outcome(await watch.poll()))
    assert [one.outcome for one in outcomes] == ["complete"] * 3
    assert outcomes[-1].partitions == partitions
    total = Counter(type(request) for one in made for request in one.requests)
    requests = 3 * (1 + partitions // 3 // 501)
    clocks = 2  # of the coordinator by whose clock it is late
    assert total.pop(MetadataRequest) <= 11
    assert total.pop(DescribeAclsRequest) == 1
    assert total.pop(FindCoordinatorRequest) == 1
    assert total.pop(DescribeTransactionsRequest) == 1
    assert total.pop(ListTransactionsRequest) == 3
    assert total.pop(DescribeProducersRequest) == requests
    assert total.pop(ListOffsetsRequest) == 3 * requests + clocks
    assert not total
    assert [one.connections for one in made] == [1, 1, 1]


@scenario
async def test_reads_the_state_log_at_an_interval() -> None:
    """With an authorizer absence is proven by reading all of `__transaction_state`: not at each poll."""
    made = broker()
    made.topics["orders"] = {0: 1, 1: 1}
    made.versions |= {1: (4, 12), 35: (1, 4)}
    made.on |= {
        DescribeAclsRequest: lambda _: DescribeAclsResponse(),
        DescribeLogDirsRequest: lambda _: DescribeLogDirsResponse(),
        ListOffsetsRequest: lambda request: offsets(request),
        FetchRequest: lambda _: FetchResponse(responses=(_gone(),)),
    }
    async with made.running(), admin(made.address) as client:
        watch = watching(client, read_log_s=1000)
        asked, doubts = [], []
        for _ in range(3):
            before = made.count(FetchRequest)
            await watch.poll()
            asked.append(made.count(FetchRequest) > before)
            doubts += [" ".join(one.evidence) for one in watch.state.findings.values()][:1]
        assert asked == [True, False, False]
        assert "could not be read as a proof" in doubts[0]
        assert "was read as a proof a short while ago; it is read again later" in doubts[1]
        watch = watching(client, read_log_s=0)
        for _ in range(2):
            before = made.count(FetchRequest)
            await watch.poll()
            assert made.count(FetchRequest) > before


def _gone() -> FetchableTopicResponse:
    offset_out_of_range = 1
    return FetchableTopicResponse(
        topic=STATE, partitions=(PartitionData(partition_index=0, error_code=offset_out_of_range, high_watermark=9),)
    )


# Polls that fail ------------------------------------------------------------------------------------------------------


@scenario
async def test_a_broker_that_goes_and_comes_back() -> None:
    """Each poll has a row; findings are neither gone nor new in the meantime."""
    made = broker()
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="1000") as client:
        watch = watching(client)
        first = await watch.poll()
        metadata = made.on[MetadataRequest]
        made.on[MetadataRequest] = lambda _: None
        made.drop()
        lost = await watch.poll()
        made.on[MetadataRequest] = metadata
        back = await watch.poll()
    assert changes(first) == ["appeared"]
    (poll,) = lost
    assert outcome(lost) == poll
    assert (poll.poll, poll.outcome) == (2, "failed")
    assert poll.error is not None
    assert "closed" in poll.error
    assert (changes(back), outcome(back).transactions) == ([], HANGING)
    assert watch.state.outcomes == {"complete": 2, "incomplete": 0, "failed": 1}


@scenario
async def test_a_poll_that_hangs_is_given_up() -> None:
    made = broker()
    made.on[DescribeProducersRequest] = lambda _: ...
    async with made.running(), admin(made.address, request_timeout_ms="10000") as client:
        watch = watching(client, poll_timeout_s=2)
        (poll,) = await watch.poll()
    assert isinstance(poll, Poll)
    assert poll.outcome == "failed"
    assert "no answer to DescribeProducers in" in (poll.error or "")


@scenario
async def test_a_poll_of_many_slow_answers_is_given_up() -> None:
    """Each comes within the time of a call."""
    made = broker()
    given = made.on[MetadataRequest]

    async def slowly(request: Any) -> Any:
        await asyncio.sleep(0.2)
        return given(request)

    made.on[MetadataRequest] = slowly
    async with made.running(), admin(made.address, request_timeout_ms="10000") as client:
        watch = watching(client, poll_timeout_s=0.5)
        (poll,) = await watch.poll()
    assert isinstance(poll, Poll)
    assert (poll.outcome, poll.error) == ("failed", "the poll did not come to its end in 0.5 s")


@scenario
async def test_survives_malformed_answers() -> None:
    """Bytes that are no response fail a poll; the next poll is not affected."""
    made = broker()
    right = made.on[DescribeProducersRequest]
    made.on[DescribeProducersRequest] = lambda _: b"\x00\x00\x00\x05\xff\xff\xff\xff\x00"
    async with made.running(), admin(made.address) as client:
        watch = watching(client)
        (failed,) = await watch.poll()
        made.on[DescribeProducersRequest] = right
        assert outcome(await watch.poll()).outcome == "complete"
    assert isinstance(failed, Poll)
    assert failed.outcome == "failed"


@scenario
async def test_missed_polls_are_reported() -> None:
    """What was due while another was under way did not take place; numbers go on without a gap."""
    made = broker()
    made.on[DescribeProducersRequest] = ended
    metadata = made.on[MetadataRequest]
    slow = asyncio.Event()

    async def late(request: Any) -> Any:
        if not slow.is_set():
            slow.set()
            await asyncio.sleep(0.35)
        answer = metadata(request)
        return await answer if asyncio.iscoroutine(answer) else answer

    made.on[MetadataRequest] = late
    async with made.running(), admin(made.address) as client:
        found = [outcome(rows) for rows in await polls(watching(client, interval_s=0.1), 3)]
    assert [poll.poll for poll in found] == [1, 2, 3]
    assert found[0].missed == 0
    assert found[1].missed >= 3  # 0.1, 0.2 and 0.3 s
    assert sum(poll.missed for poll in found) >= 3


@scenario
async def test_permanent_error_of_the_first_poll_is_raised() -> None:
    """TLS where none is spoken. What may come is waited for: brokers start later than their watch."""
    made = broker()
    async with made.running(), admin(made.address, security_protocol="SSL") as client:
        with pytest.raises(TlsError):
            await polls(watching(client), 1)
    async with served(silence) as port:
        pass
    async with admin(f"127.0.0.1:{port}") as client:
        found = [outcome(rows) for rows in await polls(watching(client), 3)]
    assert [(poll.outcome, poll.error) for poll in found] == [
        ("failed", f"127.0.0.1:{port}: connection refused: nothing listens there")
    ] * 3


@scenario
async def test_reports_topics_that_are_lost_and_regained() -> None:
    made = broker()
    made.topics["headless"] = {0: -1}
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="1000") as client:
        watch = watching(client, replace(SEARCH, topics=("orders", "headless")))
        first = await watch.poll()
        made.topics["headless"] = {0: 1}
        second = await watch.poll()
    lost = first[-2]
    assert isinstance(lost, Change)
    assert (lost.change, lost.subject) == ("lost", "topic headless")
    assert lost.text is not None
    assert lost.text.startswith("headless-0 was not read: LEADER_NOT_AVAILABLE")
    assert outcome(first).failed_partitions == 1
    assert "regained" in changes(second)
    assert watch.error is None
    assert TopicPartition("headless", 0) in {place for place, _ in watch.state.seen}


@scenario
async def test_error_of_a_single_poll_is_kept() -> None:
    async with admin("127.0.0.1:1") as client:
        watch = watching(client)
        await watch.poll()
    assert isinstance(watch.error, ClientError)
    assert watch.observation is None


@scenario
async def test_a_poll_takes_no_longer_than_its_interval_and_a_call_half_of_it() -> None:
    """However long calls may take; with short intervals there are five seconds."""
    async with admin("127.0.0.1:1", default_api_timeout_ms="60000") as client:
        for interval_s, poll_s, call_s in ((60, 60, 30), (600, 600, 60), (1, 5, 2.5)):
            watch = watching(client, replace(SEARCH, timeout_s=None), interval_s=interval_s)
            assert (watch.poll_timeout_s, watch.search.timeout_s) == (poll_s, call_s)
        watch = watching(client, replace(SEARCH, timeout_s=2), interval_s=60)
        assert watch.search.timeout_s == 2


@scenario
async def test_pauses_before_suspects_are_read_again_are_no_part_of_a_poll_s_time() -> None:
    """A session of brokers can be longer than an interval."""
    made = broker()
    async with made.running(), admin(made.address) as client:
        search = replace(SEARCH, confirm_after_s=1.0)
        poll = outcome(await watching(client, search, poll_timeout_s=0.9).poll())
    assert (poll.outcome, poll.transactions) == ("complete", HANGING)


@scenario
async def test_a_partition_without_a_leader_costs_one_poll_its_wait() -> None:
    made = broker()
    made.topics["headless"] = {0: -1}
    made.on[DescribeProducersRequest] = ended
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="1000") as client:
        watch = watching(client, replace(SEARCH, topics=("orders", "headless")))
        asked = []
        for _ in range(3):
            before = made.count(MetadataRequest)
            assert outcome(await watch.poll()).failed_partitions == 1
            asked.append(made.count(MetadataRequest) - before)
    assert asked[0] > asked[1] + 2
    assert asked[1] == asked[2]


@scenario
async def test_a_broker_that_hangs_makes_polls_incomplete_and_no_poll_fails() -> None:
    made, other = broker(), ScriptedBroker(node_id=2)
    other.on[DescribeProducersRequest] = lambda _: ...
    async with other.running(), made.running():
        made.brokers = {1: made.port, 2: other.port}
        made.topics["orders"][1] = 2
        async with admin(made.address, socket_connection_setup_timeout_ms="500") as client:
            watch = watching(client)
            found = [outcome(await watch.poll()) for _ in range(3)]
    assert [(poll.outcome, poll.failed_partitions) for poll in found] == [("incomplete", 1)] * 3
    assert (watch.state.expected, watch.state.answered) == ({1, 2}, {1})


# Ages that count from first sight -------------------------------------------------------------------------------------

MINUTE_MS = 60_000


@scenario
async def test_a_stamp_that_is_no_time_is_judged_by_first_sight() -> None:
    """A whole run: its client stamps two hours ahead, and no coordinator knows it. Only this machine's clock moves. A
    watch that is started again has not seen it before."""
    began = clock_ms()
    now = began

    async def states(address: str, minutes: Iterable[int]) -> list[tuple[str, str, str | None]]:
        nonlocal now
        found = []
        async with Admin.connect(address) as client:
            watch = Watch(client, SEARCH, interval_s=0.01, clock=lambda: now)
            run = watch.run()
            for passed in minutes:
                now = began + passed * MINUTE_MS
                await anext(run)
                (finding,) = watch.state.findings.values()
                found.append((finding.verdict, finding.reason, finding.attention))
            await run.aclose()
        return found

    async with MockBroker({"orders": 1}) as made:
        await asyncio.to_thread(_open_ahead, made.address, began + 120 * MINUTE_MS)
        made.on(ListTransactionsRequest, lambda _: ListTransactionsResponse())
        unknown, hanging = ("unknown", "coverage_incomplete"), ("hanging", "no_transactional_id")
        assert await states(made.address, (0, 4, 6, 20, 21, 22)) == [
            (*unknown, None),
            (*unknown, None),
            (*unknown, "blocked"),
            (*unknown, "blocked"),
            (*hanging, "hanging"),
            (*hanging, "hanging"),
        ]
        assert await states(made.address, (23, 29)) == [(*unknown, None), (*unknown, "blocked")]


def _open_ahead(address: str, timestamp: int) -> None:
    """Opens a transaction in orders-0 whose batch has that time."""
    with RawCluster(address) as wire:
        producer = wire.init_producer("ahead")
        wire.add_partitions(producer, {"orders": [0]})
        wire.produce("orders", 0, [b"one"], producer, timestamp=timestamp)

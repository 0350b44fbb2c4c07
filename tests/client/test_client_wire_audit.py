"""The audit over the wire equals, on recorded clusters, that of their directories, but for declared blind spots."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import kafkawire
from kafkawire import logdir, records, rows, transactions
from kafkawire.client import Admin, ClientError, Search
from kafkawire.client.diagnosis import log_reading
from kafkawire.client.diagnosis.log_reading import Load, RateLimit
from kafkawire.client.diagnosis.reading_journal import Journal
from kafkawire.client.diagnosis.reading_plan import ReadingPlan
from kafkawire.client.diagnosis.wire_audit import BLIND, WireAudit, audit
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.partition_log import whole_batches
from kafkawire.kafka_errors import ErrorCode
from kafkawire.messages import FetchRequest, FetchResponse, MetadataRequest, MetadataResponse
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.testing import MockBroker
from kafkawire.transactions import Settings
from kafkawire.transactions.auditing.replica_facts import ReplicaMerge
from kafkawire.transactions.facts import TRANSACTION_STATE, Place
from kafkawire.transactions.parts.part_columns import PartColumns
from tests.client import real_cluster, setups
from tests.client.recorded import denied, leaders, serving
from tests.client.setups import ONE_OF_EACH, make
from tests.docs.guide import ROOT
from tools.broker import RunningCluster
from tools.recordings.archive import unpacked
from tools.recordings.raw_client import RawCluster

RECORDED = {
    "hanging-transactions": lambda: unpacked("hanging-transactions"),
    "kafka-3.9.1": lambda: unpacked("kafka-3.9.1") / "data",
    "kafka-2.8.2": lambda: unpacked("kafka-2.8.2") / "data",
    "three-nodes": lambda: ROOT / "examples" / "kafka-logs" / "three-nodes",
}
#: What copies have otherwise: checkpoints of offsets that lag behind; producers of batches below the log start offset.
OF_COPIES = {"lso", "producer_id_unique"}
FIELDS = (
    "verdict", "reason", "blocked", "topic", "partition", "producer_id", "producer_epoch", "start_offset",
    "last_timestamp", "age_ms", "coordinator_epoch", "transactional_id", "coordinator_state", "last_stable_offset",
    "high_watermark", "log_start_offset", "marker_timestamp", "transaction_start_timestamp", "transaction_timeout_ms",
)  # fmt: skip
LATER: int = json.loads((RECORDED["hanging-transactions"]() / "truth.json").read_text("utf-8"))["later"]


def of_disks(path: Path, partitions: int, as_of: int | None = None) -> rows.Audit:
    """The audit of the leaders' replicas, without `__cluster_metadata`, and of the brokers' other files, which show a
    clean stop."""
    of_brokers = [file for file in logdir.open(path).files if file.topic is None]
    directory = logdir.LogDirectory([*of_brokers, *(file for one in leaders(path) for file in one.files)])
    return transactions.audit(directory, Settings(as_of=as_of, transaction_state_partitions=partitions))


@cache
def recorded(name: str) -> tuple[Path, rows.Audit]:
    path = RECORDED[name]()
    partitions = sum(one.topic == TRANSACTION_STATE for one in leaders(path))
    return path, of_disks(path, partitions, LATER if name == "hanging-transactions" else None)


def over_the_wire(broker: MockBroker, as_of: int | None, since: int | None = 0, **options: Any) -> rows.Audit:
    async def run() -> rows.Audit:
        async with broker, Admin.connect(broker.address) as admin:
            callbacks = {name: options.pop(name) for name in ("announce", "progress") if name in options}
            wanted = WireAudit(search=Search(as_of=as_of, confirm_after_s=0), since_ms=since, **options)
            return await audit(admin.cluster, wanted, **callbacks)

    return asyncio.run(run())


def findings(found: rows.Audit, fields: tuple[str, ...] = FIELDS) -> set[tuple[Any, ...]]:
    """An age by a client's stamp after the clock is none."""
    plain = (replace(one, age_ms=None) if (one.age_ms or 0) < 0 else one for one in found.findings)
    return {tuple(getattr(finding, name) for name in fields) for finding in plain}


def answers(found: rows.Audit) -> dict[str, rows.CheckAnswer]:
    return {one.check: one for one in found.answers if one.check not in BLIND and one.check not in OF_COPIES}


def violations(found: rows.Audit) -> set[tuple[Any, ...]]:
    fields = "check", "topic", "partition", "offset", "producer_id", "transactional_id"
    return {tuple(getattr(one, name) for name in fields) for one in found.violations if one.check not in BLIND}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_equals_the_audit_of_the_disks(name: str) -> None:
    path, disks = recorded(name)
    wire = over_the_wire(serving(path), disks.as_of)
    assert findings(wire) == findings(disks)
    assert answers(wire) == answers(disks)
    assert violations(wire) == violations(disks)
    assert wire.damage == disks.damage == ()
    assert wire.read.complete
    below_log_start = 1 if name == "hanging-transactions" else 0  # a batch that the copied segment still has
    assert wire.read.batches == disks.read.batches - below_log_start
    blind = {one.check: one for one in wire.answers if one.check in BLIND}
    assert {check: (one.answer, one.lacked) for check, one in blind.items()} == {
        check: ("not_checkable", (why,)) for check, why in BLIND.items()
    }


@pytest.mark.slow
def test_small_pieces_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "_LEAST", 300)
    path, disks = recorded("hanging-transactions")
    broker = serving(path)
    wire = over_the_wire(broker, LATER, load=Load(bytes_per_s=300, side_by_side=40), **in_no_time(monkeypatch))
    assert findings(wire) == findings(disks)
    assert answers(wire) == answers(disks)
    assert violations(wire) == violations(disks)
    asked = [one.body for one in broker.requests if isinstance(one.body, FetchRequest)]
    assert {body.max_bytes for body in asked} == {300}
    assert wire.read.scope is None
    assert len(asked) > 60


def in_no_time(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    async def wait_after(self: RateLimit, size: int) -> None: ...

    monkeypatch.setattr(RateLimit, "wait_after", wait_after)
    return {}


@pytest.mark.slow
def test_reads_from_the_oldest_open_transactions_by_default() -> None:
    path, disks = recorded("hanging-transactions")
    broker = serving(path)
    plans: list[ReadingPlan] = []
    wire = over_the_wire(broker, LATER, since=None, announce=plans.append)
    shown = tuple(name for name in FIELDS if name != "marker_timestamp")  # of a marker before what was read
    assert findings(wire, shown) == findings(disks, shown)
    assert wire.read.complete
    assert "was not read (--since)" in (wire.read.scope or "")
    oldest: dict[tuple[str, int], int] = {}
    for finding in disks.findings:
        place, start = (finding.topic, finding.partition), max(finding.start_offset or 0, finding.log_start_offset or 0)
        oldest[place] = min(start, oldest.get(place, start))
    first: dict[tuple[str, int], int] = {}
    for request in broker.requests:
        if isinstance(request.body, FetchRequest):
            for topic in request.body.topics:
                for one in topic.partitions:
                    first.setdefault((topic.topic, one.partition), one.fetch_offset)
    assert {place: at for place, at in first.items() if place[0] != TRANSACTION_STATE} == oldest
    lacked = {one.check: one.lacked for one in wire.answers}
    assert any("was not read (--since)" in why for why in lacked["sequence_contiguous"])
    assert str(plans[0]).startswith(f"reads {len(oldest)} of 32 partitions and {TRANSACTION_STATE}: ")
    assert "4 side by side, at most 10.0 MB a second" in str(plans[0])


@pytest.mark.slow
def test_without_the_coordinators_log_findings_are_proven_and_rules_of_ids_are_not_checkable() -> None:
    path, disks = recorded("hanging-transactions")
    wire = over_the_wire(serving(path, hidden=TRANSACTION_STATE), LATER)
    fields = "verdict", "reason", "topic", "partition", "producer_id", "start_offset", "transactional_id"
    assert findings(wire, fields) == findings(disks, fields)
    found = {one.check: one for one in wire.answers}
    for check in ("legal_transition", "one_outcome", "prepare_completed", "id_in_its_partition"):
        assert found[check].answer == "not_checkable"
        assert any(why.startswith(f"{TRANSACTION_STATE} could not be read: ") for why in found[check].lacked)
    assert answers(wire)["sequence_contiguous"] == answers(disks)["sequence_contiguous"]
    assert not wire.read.complete
    assert any(TRANSACTION_STATE in gap for gap in wire.read.gaps)


def test_a_cluster_without_transactions_needs_no_coordinators_log() -> None:
    """`__transaction_state` does not exist before the first transaction begins."""
    broker = MockBroker({"plain": 1}, auto_create_partitions=0)
    broker.append("plain", 0, [records.Record(b"k")])
    wire = over_the_wire(broker, None)
    assert (wire.read.complete, wire.read.gaps, wire.read.batches) == (True, (), 1)


def test_a_coordinators_log_that_may_not_be_described_is_a_gap() -> None:
    broker = MockBroker({"plain": 1}, auto_create_partitions=0)

    def answer(request: MetadataRequest) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
        plain = MetadataResponseTopic(name="plain", partitions=(partition,))
        denied = MetadataResponseTopic(name=TRANSACTION_STATE, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        host, port = broker.address.split(":")
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host=host, port=int(port)),),
            topics=tuple(denied if one.name == TRANSACTION_STATE else plain for one in request.topics or (plain,)),
        )

    broker.answer(MetadataRequest, answer, times=None)
    wire = over_the_wire(broker, None)
    assert not wire.read.complete
    assert [gap for gap in wire.read.gaps if TRANSACTION_STATE in gap]


class Interrupted(Exception):
    pass


HEADER = f'{{"format":5,"cluster":"kafkawire-mock","since":0,"kafkawire":"{kafkawire.__version__}"}}'


@pytest.mark.slow
@pytest.mark.parametrize("same_leaders", [True, False])
def test_an_interrupted_reading_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_leaders: bool) -> None:
    """Where partitions have new leaders, which may have truncated their logs, all is read again."""
    path = RECORDED["hanging-transactions"]()
    journal = tmp_path / "journal"
    in_no_time(monkeypatch)
    pieces = []

    def interrupt(size: int) -> None:
        pieces.append(size)
        if len(pieces) == 20:
            raise Interrupted

    load = Load(side_by_side=1)
    with pytest.raises(Interrupted):
        over_the_wire(serving(path), LATER, load=load, journal=str(journal), progress=interrupt)
    with journal.open("ab") as file:
        file.write(b'{"topic":"torn')  # the process was killed while it wrote
    broker = serving(path)
    if not same_leaders:
        for topic, count in broker.topics.items():
            for partition in range(count):
                broker.move_leader(topic, partition, 1)
    sizes: list[int] = []
    wire = over_the_wire(broker, LATER, load=load, journal=str(journal), progress=sizes.append)
    alone: list[int] = []
    whole = over_the_wire(serving(path), LATER, load=load, progress=alone.append)
    assert len(sizes) == len(alone) - 20 * same_leaders > 0
    assert findings(wire) == findings(whole)
    assert answers(wire) == answers(whole)
    assert not journal.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"format":1,"cluster":"another","since":0}\n', "of another cluster, or with another --since"),
        ("no json\n", "no journal of an audit"),
        (f'{HEADER}\n{{"topic":7}}\n', f"at byte {len(HEADER) + 1}: no journal of an audit"),
    ],
)
def test_refuses_a_file_that_is_no_journal_of_this_reading(tmp_path: Path, text: str, reason: str) -> None:
    journal = tmp_path / "journal"
    journal.write_text(text)
    with pytest.raises(ClientError, match=reason):
        over_the_wire(MockBroker({"orders": 1}), None, journal=str(journal))
    assert journal.read_text() == text


@pytest.mark.slow
def test_goes_on_where_retention_has_deleted_the_log_meanwhile() -> None:
    path, _ = recorded("hanging-transactions")
    broker = serving(path)
    log = broker._log("late-batch", 0)
    began = log.start

    def deleted(request: Any) -> FetchResponse:
        log.start = 2
        parts = (PartitionData(partition_index=0, error_code=1, high_watermark=-1, records=b""),)
        return FetchResponse(responses=(FetchableTopicResponse(topic="late-batch", partitions=parts),))

    broker.answer(FetchRequest, deleted)
    wanted = Search(as_of=LATER, confirm_after_s=0, topics=("late-batch",))

    async def run() -> rows.Audit:
        async with broker, Admin.connect(broker.address) as admin:
            return await audit(admin.cluster, WireAudit(search=wanted, since_ms=0))

    wire = asyncio.run(run())
    assert (began, log.start) == (0, 2)
    assert {(one.verdict, one.reason) for one in wire.findings} == {("hanging", "transaction_ended")}
    assert wire.read.complete


@pytest.mark.slow
def test_a_damaged_batch_is_reported_and_what_follows_is_read() -> None:
    path, disks = recorded("hanging-transactions")
    broker = serving(path)
    log = broker._log("late-batch", 0)
    stored = log.batches[1]
    log.batches[1] = stored._replace(data=stored.data[:-1] + bytes([stored.data[-1] ^ 1]))
    wire = over_the_wire(broker, LATER)
    assert [(row.file, row.topic, row.partition) for row in wire.damage] == [
        ("HOST:PORT/late-batch-0", "late-batch", 0)
    ]
    assert wire.damage[0].resumed_at is not None
    assert wire.read.batches == disks.read.batches - 2
    assert {one.check for one in wire.violations} >= {one.check for one in disks.violations} - BLIND.keys()


@pytest.mark.slow
def test_a_partition_that_may_not_be_fetched_is_a_gap() -> None:
    path, disks = recorded("hanging-transactions")
    broker = serving(path)
    broker.answer(FetchRequest, denied)
    wire = over_the_wire(broker, LATER, load=Load(side_by_side=1))
    (unread,) = wire.unread
    assert f"the principal needs Read on topic {unread.topic}" in unread.reason
    assert any(unread.topic in gap and "Read on topic" in gap for gap in wire.read.gaps)
    lacked = {one.check: one.lacked for one in wire.answers}
    assert any(f"{unread.topic} could not be read" in why for why in lacked["marker_shape"])
    assert len(wire.findings) == len(disks.findings)


def test_a_response_is_cut_at_its_last_whole_batch() -> None:
    one, two = (records.build([records.Record(value=b"v" * size)]) for size in (10, 20))
    for size in range(len(two)):
        assert whole_batches(one + two[:size]) == len(one)
    assert whole_batches(one + two) == len(one + two)
    assert whole_batches(one[:8] + b"\xff" * 60) == 68  # a length of -1 is damage, and no end
    assert whole_batches(b"") == 0


def test_bytes_are_spread_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(log_reading.time, "monotonic", lambda: now[0])

    async def sleep(seconds: float) -> None:
        now[0] += max(0.0, seconds)

    monkeypatch.setattr(log_reading.asyncio, "sleep", sleep)

    async def run() -> None:
        pace = RateLimit(1000)
        for size in (500, 1500, 8000):
            await pace.wait_after(size)

    asyncio.run(run())
    assert now[0] == pytest.approx(110.0)


@pytest.mark.broker
def test_equals_the_audit_of_a_real_brokers_disks(broker: RunningCluster, tmp_path: Path) -> None:
    topic = "wire-audit"

    async def create() -> None:
        async with Admin.connect(broker.bootstrap) as admin:
            await real_cluster.create_topics(admin, {topic: setups.size(ONE_OF_EACH)})

    asyncio.run(create())
    with RawCluster(broker.bootstrap) as wire:
        expected = make(wire, topic, int(time.time() * 1000) - 3 * 3_600_000, ONE_OF_EACH)

    async def run() -> rows.Audit:
        async with Admin.connect(broker.bootstrap) as admin:
            search = Search(topics=(topic,), confirm_after_s=0.5, address="h:1")
            return await audit(admin.cluster, WireAudit(search=search, since_ms=0))

    found = asyncio.run(run())
    assert {one.partition: (one.verdict, one.reason) for one in found.findings} == expected
    assert found.read.complete, found.read.gaps
    assert {setting.source for setting in found.read.settings} == {
        "the configuration of broker 1 in h:1", "the partitions of the topic in h:1"
    }  # fmt: skip
    for folder in broker.log_dirs[1].iterdir():
        if folder.name.startswith((f"{topic}-", f"{TRANSACTION_STATE}-")):
            shutil.copytree(folder, tmp_path / folder.name)
    disks = of_disks(tmp_path, 4, found.as_of)
    mine = [one for one in disks.violations if one.topic == topic]
    assert violations(found) >= violations(replace(disks, violations=tuple(mine)))
    fields = "partition", "producer_id", "producer_epoch", "start_offset", "last_offset"
    assert findings(found, fields) == findings(disks, fields)
    # Files that were copied one by one from a running broker may not show what its answers do.
    of_copies = {one for one in findings(disks, ("verdict", "reason", *fields)) if one[0] != "unknown"}
    assert of_copies <= findings(found, ("verdict", "reason", *fields))
    lacking = {
        premise.name
        for one in disks.findings
        if one.verdict == "unknown"
        for premise in one.premises
        if not premise.holds
    }
    assert lacking <= {"reach"}
    compared: Callable[[rows.Audit], dict[str, tuple[int, ...]]] = lambda audited: {  # noqa: E731
        check: (one.held, one.violated, one.noted)
        for check, one in answers(audited).items()
        if check
        in ("sequence_contiguous", "epoch_not_backwards", "marker_shape", "marker_without_data", "mixed_batches")
    }
    assert compared(found) == compared(disks)


def of_plain_batches(monkeypatch: pytest.MonkeyPatch) -> MockBroker:
    """Four batches in each of two partitions, and each response has one."""
    monkeypatch.setattr(log_reading, "_LEAST", 300)
    in_no_time(monkeypatch)
    broker = MockBroker({"orders": 2})
    for number in range(8):
        broker.append("orders", number % 2, [records.Record(value=b"%d" % number * 200)])
    return broker


SMALL = Load(bytes_per_s=300, side_by_side=1)


def test_nothing_of_a_partition_counts_after_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor the pieces that were read before."""
    take, taken = ReplicaMerge.take, []

    def raising(self: ReplicaMerge, *args: Any) -> None:
        if self._place.partition == 1:
            taken.append(args)
            if len(taken) == 3:
                raise IndexError("out of range")
        take(self, *args)

    monkeypatch.setattr(ReplicaMerge, "take", raising)
    found = over_the_wire(of_plain_batches(monkeypatch), None, load=SMALL)
    assert (len(taken), found.read.batches) == (3, 4)
    assert any("orders-1" in gap and "unexpected IndexError: out of range" in gap for gap in found.read.gaps)


def test_pieces_of_a_journal_that_do_not_follow_each_other_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins where the first did: offsets go back. The partition is read anew, without its pieces."""
    add, pieces = Journal.add, []

    def repeated(self: Journal, place: TopicPartition, first: int, following: int, part: PartColumns | None) -> None:
        pieces.append(part)
        if len(pieces) == 4:
            raise Interrupted  # which keeps the journal
        add(self, place, first, following, pieces[0])

    journal = tmp_path / "journal"
    broker = of_plain_batches(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", repeated)
        over_the_wire(broker, None, load=SMALL, journal=str(journal))
    again = over_the_wire(of_plain_batches(monkeypatch), None, load=SMALL, journal=str(journal))
    assert (again.read.batches, again.read.complete, again.damage) == (8, True, ())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["take", "facts"])
def test_an_unexpected_error_costs_the_partition_that_it_is_raised_in(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The answers on the others are given, and the error is named with the partition."""
    path = RECORDED["hanging-transactions"]()
    in_no_time(monkeypatch)
    sound = over_the_wire(serving(path), LATER)
    bad = Place("", *sorted((one.topic, one.partition) for one in sound.findings)[0])
    original, raised = getattr(ReplicaMerge, method), []

    def raising(self: ReplicaMerge, *args: Any) -> Any:
        place = self._place
        if (place.topic, place.partition) == (bad.topic, bad.partition) and not raised:
            raised.append(place)
            raise IndexError("out of range")
        return original(self, *args)

    broker = serving(path)
    monkeypatch.setattr(ReplicaMerge, method, raising)
    found = over_the_wire(broker, LATER)
    assert len(raised) == 1
    assert not found.read.complete
    assert any(bad.topic in gap and "unexpected IndexError: out of range" in gap for gap in found.read.gaps), (
        found.read.gaps
    )
    others = {one for one in findings(sound) if (bad.topic, bad.partition) != (one[3], one[4])}
    assert others <= findings(found)

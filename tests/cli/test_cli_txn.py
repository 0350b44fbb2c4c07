"""`kafkawire txn` on a real cluster, beside what Kafka's own tool prints of the same."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, NamedTuple

import pytest

from kafkawire import rows as rows_of
from kafkawire.cli import txn_find_hanging, txn_list
from kafkawire.client import Admin
from tests.cli.harmless import harmless
from tests.cli.runner import Run
from tests.cli.stock import kafka, rows
from tests.client import real_cluster
from tests.golden import check
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster

HOUR_MS = 3_600_000
TOPIC = "txn-cli"
NASTY = "nasty\x1b[31m[red]\nid"


class Made(NamedTuple):
    """The cluster, and offsets at which transactions began in `TOPIC`."""

    cluster: RunningCluster
    hanging: int
    live: int


@pytest.fixture(scope="module")
def made(broker: RunningCluster) -> Made:
    """Partition 0 hangs, 1 is live with an old timestamp, 2 is empty; one id has a name that acts on terminals."""
    old = int(time.time() * 1000) - 3 * HOUR_MS

    async def topics() -> None:
        async with Admin.connect(broker.bootstrap) as admin:
            await real_cluster.create_topics(admin, {TOPIC: 3})

    asyncio.run(topics())
    with RawCluster(broker.bootstrap) as wire:
        lost = wire.init_producer("txn-cli-hang")
        hanging = wire.produce(TOPIC, 0, [b"x"], lost, timestamp=old)
        alive = wire.init_producer("txn-cli-live")
        wire.add_partitions(alive, {TOPIC: [1]})
        begun = wire.produce(TOPIC, 1, [b"x"], alive, timestamp=old)
        wire.init_producer(NASTY)
    return Made(broker, hanging, begun)


@pytest.fixture
def txn(run: Run, made: Made) -> Any:
    def runner(command: str, *args: object) -> Any:
        return run("txn", command, "--bootstrap-server", made.cluster.bootstrap, *args)

    return runner


def test_list_prints_a_row_for_each_transactional_id(txn: Any, made: Made) -> None:
    result = txn("list", "--transactional-id-pattern", "txn-cli-.*", "--format", "csv")
    assert result.code == 0
    found = rows(result.text)
    assert [row["TransactionalId"] for row in found] == ["txn-cli-hang", "txn-cli-live"]
    theirs = kafka(made.cluster.bootstrap, "list", "--transactional-id-pattern", "txn-cli-.*")
    assert list(found[0]) == list(theirs[0])
    assert sorted(map(str, found)) == sorted(map(str, theirs))


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (["--state", "Ongoing"], ["txn-cli-live"]),
        (["--state", "Ongoing", "--state", "Empty"], ["txn-cli-hang", "txn-cli-live"]),
        (["--state", "ongoing, EMPTY"], ["txn-cli-hang", "txn-cli-live"]),
        (["--state", "Ongoing", "--duration-filter", "86400000"], []),
        (["--broker-id", "1"], ["txn-cli-hang", "txn-cli-live"]),
        (["--producer-id", "999999999"], []),
    ],
)
def test_list_filters(txn: Any, filters: list[str], ids: list[str]) -> None:
    result = txn("list", "--transactional-id-pattern", "txn-cli-.*", *filters, "--format", "json")
    assert (result.code, [row["TransactionalId"] for row in json.loads(result.text)]) == (0, ids)


def test_states_in_any_case_and_in_lists() -> None:
    """Names that this release does not know are left to the brokers."""
    given = ["ongoing", " preparecommit ,EMPTY,,", "Ongoing", "Suspended"]
    assert txn_list.state_names(given) == ["Ongoing", "PrepareCommit", "Empty", "Suspended"]


def test_list_rejects_an_unknown_broker(txn: Any) -> None:
    result = txn("list", "--broker-id", 9)
    assert (result.code, result.text) == (1, "")
    assert "no broker 9 now; its brokers are 1" in result.err
    result = txn("list", "--broker-id", 9, "--broker-id", 1)
    assert result.code == 4
    assert result.text
    assert result.err.startswith("incomplete: broker 9: ")


def test_names_are_harmless_on_terminals(txn: Any) -> None:
    for format in ("table", "json", "jsonl", "csv"):
        text = txn("list", "--state", "Empty", "--format", format).text
        assert "[red]" in text
        assert harmless(text)


def test_describe_prints_state_and_partitions(txn: Any, made: Made) -> None:
    result = txn("describe", "--transactional-id", "txn-cli-live", "--format", "csv")
    (mine,), (theirs,) = (
        rows(result.text),
        kafka(made.cluster.bootstrap, "describe", "--transactional-id", "txn-cli-live"),
    )
    assert list(mine) == list(theirs)
    assert int(mine.pop("TransactionDurationMs")) <= int(theirs.pop("TransactionDurationMs"))  # theirs is later
    assert mine == theirs
    assert mine["TopicPartitions"] == "txn-cli-1"


def test_describe_reports_unknown_ids(txn: Any) -> None:
    result = txn("describe", "--transactional-id", "nobody", "--transactional-id", "txn-cli-hang", "--format", "json")
    assert result.code == 4
    (row,) = json.loads(result.text)
    assert (row["TransactionState"], row["TransactionDurationMs"], row["TopicPartitions"]) == ("Empty", None, "")
    assert result.err == "incomplete: transactional id nobody: TRANSACTIONAL_ID_NOT_FOUND (no coordinator knows it)\n"
    assert txn("describe", "--transactional-id", "nobody").code == 1


def test_describe_prints_open_transactions_of_topics(txn: Any, made: Made) -> None:
    """As the draft of KIP-664 has it: `--describe --topic foo --partition 0`."""
    result = txn("describe", "--topic", TOPIC, "--format", "json")
    assert [row["CurrentTransactionStartOffset"] for row in json.loads(result.text)] == [made.hanging, made.live]
    result = txn("describe", "--topic", TOPIC, "--partition", 2, "--format", "json")
    assert (result.code, json.loads(result.text)) == (0, [])
    assert txn("describe").code == 2
    assert txn("describe", "--topic", TOPIC, "--transactional-id", "a").code == 2
    assert txn("describe", "--partition", 1, "--transactional-id", "a").code == 2


def test_describe_producers_prints_a_row_for_each_producer(txn: Any, made: Made) -> None:
    arguments = ("--topic", TOPIC, "--partition", "0")
    result = txn("describe-producers", *arguments, "--format", "csv")
    (mine,), (theirs,) = rows(result.text), kafka(made.cluster.bootstrap, "describe-producers", *arguments)
    assert {name: mine[name] for name in theirs} == theirs
    assert (mine["Topic"], mine["Partition"], mine["BrokerId"]) == (TOPIC, "0", "1")
    assert int(mine["CurrentTransactionStartOffset"]) == made.hanging
    assert int(mine["Duration(min)"]) >= 180


def test_table_is_followed_by_a_note_on_coordinator_epoch_minus_1(txn: Any) -> None:
    arguments = ("--topic", TOPIC, "--partition", "0")
    note = "LatestCoordinatorEpoch -1: the partition has seen no marker of the producer id; txn abort sends 0."
    for command in ("describe", "describe-producers"):
        assert txn(command, *arguments, "--format", "table").text.splitlines()[-1] == note
        assert note not in txn(command, *arguments, "--format", "jsonl").text


def test_describe_producers_reads_many_partitions(txn: Any) -> None:
    both = txn("describe-producers", "--topic", TOPIC, "--all-replicas", "--format", "json")
    assert [row["Partition"] for row in json.loads(both.text)] == [0, 1]
    result = txn("describe-producers", "--topic", TOPIC, "--topic", "nowhere", "--partition", 1, "--partition", 7)
    assert result.code == 4
    assert "nowhere" in result.err
    assert "(and 1 more)" in result.err
    assert txn("describe-producers", "--topic", TOPIC, "--all-replicas", "--broker-id", 1).code == 2


def test_find_hanging_prints_findings_with_actions(txn: Any, made: Made) -> None:
    result = txn("find-hanging", "--topic", TOPIC, "--confirm-after", "0.05", "--format", "json")
    assert result.code == 3
    audit = json.loads(result.text)
    (finding,) = audit["findings"]
    assert (finding["verdict"], finding["reason"]) == ("hanging", "partition_not_in_transaction")
    assert (finding["topic"], finding["partition"], finding["start_offset"]) == (TOPIC, 0, made.hanging)
    assert (finding["transactional_id"], finding["coordinator_state"]) == ("txn-cli-hang", "Empty")
    assert (audit["read"]["partitions"], audit["read"]["complete"]) == (3, True)


def test_find_hanging_has_the_columns_of_kafkas_tool(txn: Any, made: Made) -> None:
    result = txn("find-hanging", "--topic", TOPIC, "--confirm-after", "0.05", "--format", "table")
    (theirs,) = kafka(made.cluster.bootstrap, "find-hanging", "--topic", TOPIC)
    head, _, line, *_ = result.text.splitlines()
    for name, value in theirs.items():
        assert name in head.split()
        if name not in ("LastTimestamp", "Duration(min)"):
            assert value in line.split()
    assert f"=> kafkawire txn abort --bootstrap-server {made.cluster.bootstrap} --topic" in result.text
    assert "1 transaction more live or too young" in result.text


def test_find_hanging_selects_what_blocks_a_group(txn: Any, made: Made) -> None:
    """Partitions where it waits, and the transaction that its own offsets are in."""
    group = "txn-cli-group"

    async def commit() -> None:
        async with Admin.connect(made.cluster.bootstrap) as admin:
            await real_cluster.commit_offsets(admin, group, TOPIC, {0: made.hanging, 1: made.live, 2: 0})

    asyncio.run(commit())
    result = txn("find-hanging", "--group", group, "--all", "--confirm-after", "0.05", "--format", "json")
    assert result.code == 5  # the group has no members: what they would be assigned is not known
    audit = json.loads(result.text)
    assert audit["read"]["partitions"] == 4  # three, and that of its offsets
    waits = f"Group '{group}', if it reads committed, waits at offset "
    assert [(f["partition"], f["evidence"][-1].startswith(waits)) for f in audit["findings"]] == [(0, True), (1, True)]

    async def in_transaction() -> None:
        async with Admin.connect(made.cluster.bootstrap) as admin:
            await real_cluster.commit_offsets_in_transaction(admin, group, producer, TOPIC, 2)

    with RawCluster(made.cluster.bootstrap) as wire:
        producer = wire.init_producer("group-offsets")
        asyncio.run(in_transaction())
        result = txn("find-hanging", "--group", group, "--all", "--confirm-after", "0.05", "--format", "json")
        assert wire.end(producer, committed=False) == 0
    (own,) = [f for f in json.loads(result.text)["findings"] if f["topic"] == "__consumer_offsets"]
    assert (own["reason"], own["transactional_id"]) == ("live", "group-offsets")
    assert f"fetching them fails for {TOPIC}-2 (UNSTABLE_OFFSET_COMMIT)" in own["evidence"][-1]

    result = txn("find-hanging", "--group", "nobody")
    assert (result.code, result.text) == (1, "")
    assert "group nobody does not exist: it has no members and no committed offsets" in result.err
    assert txn("find-hanging", "--group", group, "--topic", TOPIC).code == 2


def test_a_live_transaction_that_blocks_for_longer_is_found(txn: Any, made: Made) -> None:
    """Counted from its start at the real coordinator; its client's stamp is three hours old."""
    where = ("--topic", TOPIC, "--partition", 1, "--blocked-after", 0)
    result = txn("find-hanging", *where, "--format", "json")
    assert result.code == 3
    answer = json.loads(result.text)
    (finding,) = answer["findings"]
    assert (finding["verdict"], finding["reason"], finding["attention"]) == ("not_hanging", "live", "blocked")
    assert (finding["start_offset"], finding["transactional_id"]) == (made.live, "txn-cli-live")
    assert answer["as_of"] - HOUR_MS < finding["blocked_since"] <= answer["as_of"]
    assert finding["blocked_until"] == finding["blocked_since"] + finding["transaction_timeout_ms"]
    assert (answer["outcome"]["blocked"], answer["outcome"]["complete"]) == (1, True)
    assert [(one["name"], one["holds"]) for one in answer["read"]["premises"]] == [
        ("place", True), ("reach", True), ("time", True), ("soundness", True),
    ]  # fmt: skip
    text = txn("find-hanging", *where, "--format", "table").text
    assert text.startswith("Found: 1 blocked, not hanging (yet).\n")
    assert "transactional id 'txn-cli-live', Ongoing; waits for the producer of 'txn-cli-live'; live until 20" in text


def test_find_hanging_exits_with_0_when_none_hangs(txn: Any) -> None:
    result = txn("find-hanging", "--topic", TOPIC, "--partition", 1, "--partition", 2, "--format", "table")
    assert (result.code, result.text.splitlines()[0]) == (0, "No transaction hangs.")
    result = txn("find-hanging", "--topic", TOPIC, "--partition", 1, "--all", "--format", "jsonl")
    read, finding, outcome = map(json.loads, result.text.splitlines())
    assert outcome == {
        "kind": "outcome", "found": False, "hanging": 0, "stuck": 0, "blocked": 0, "complete": True, "missing": [],
    }  # fmt: skip
    assert (read["kind"], read["partitions"]) == ("read", 1)
    assert (finding["kind"], finding["reason"]) == ("finding", "live")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--broker-id", 9], 1, "no broker 9 now; its brokers are 1"),
        (["--topic", "nowhere"], 1, "topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"),
        (["--topic", TOPIC, "--partition", 77], 1, f"topic {TOPIC} has no partition 77"),
        (["--partition", 1], 2, "--partition needs --topic"),
    ],
)
def test_find_hanging_rejects_invalid_options(txn: Any, arguments: list[object], code: int, text: str) -> None:
    """Kafka's tool waits a minute, or gives a false all-clear."""
    result = txn("find-hanging", *arguments)
    assert (result.code, result.text) == (code, "")
    assert text in result.err
    assert result.err.count("\n") == 1


# Without a cluster ----------------------------------------------------------------------------------------------------


def test_refused_connection_exits_with_1(run: Run) -> None:
    for command in (["list"], ["find-hanging"], ["describe", "--transactional-id", "a"]):
        result = run("txn", *command, "--bootstrap-server", "127.0.0.1:1")
        assert (result.code, result.err) == (1, "error: 127.0.0.1:1: connection refused: nothing listens there\n")


def test_invalid_options_are_usage_errors(run: Run, tmp_path: Any) -> None:
    assert run("txn").code == 2
    assert run("txn", "list").code == 2
    result = run("txn", "list", "--bootstrap-server", "nowhere")
    assert (result.code, result.err) == (1, "error: bootstrap server 'nowhere' is not of the form HOST:PORT\n")
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n")
    result = run("txn", "list", "--bootstrap-server", "127.0.0.1:1", "--command-config", config)
    assert result.code == 1
    assert "Kerberos (GSSAPI) is not supported" in result.err


def test_find_hanging_matches_golden_files(capsysbinary: Any) -> None:
    """Reviewed by eye: the table, what blocks whom, why, and the command to run."""
    finding = rows_of.Finding(
        verdict="hanging",
        reason="no_transactional_id",
        blocked=True,
        topic="orders",
        partition=3,
        producer_id=4001,
        producer_epoch=7,
        start_offset=550,
        last_timestamp=1_700_000_000_000,
        age_ms=3 * HOUR_MS,
        last_stable_offset=550,
        high_watermark=700,
        evidence=("First sentence.", "Second \x1b[31msentence."),
        action="kafka-transactions.sh abort",
    )
    read = rows_of.Coverage(brokers=(1, 2), partitions=12, clock="this machine's clock", complete=True)
    txn_find_hanging.print_table(rows_of.Audit(as_of=1_700_010_800_000, read=read, findings=(finding,)), 2, wide=False)
    check("txn/find_hanging.txt", capsysbinary.readouterr().out.decode())

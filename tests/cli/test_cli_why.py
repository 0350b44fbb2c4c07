"""`why` and `lag` on copies of log directories, and on lines of logs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kafkawire import logdir, records
from kafkawire.messages import BrokerRegistrationChangeRecord
from kafkawire.offsets.copied_lag import copied_lags
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.records import Record, build
from kafkawire.transactions.blocking.blocker_text import LINES, WIDTH
from kafkawire.transactions.blocking.blockers import GroupView
from kafkawire.wire.message import Message
from tests.cli.runner import Result, Run
from tests.docs.guide import parse
from tests.golden import check
from tests.recorded_clusters import Copy
from tools.recordings.archive import unpacked

pytestmark = pytest.mark.slow

EXAMPLE = "examples/kafka-logs/three-nodes"


def table(run: Run, *args: object) -> Result:
    result = run("why", *args, "--format", "table")
    blocks = [block for block in result.text.split("\n\n") if block[:1].isdigit()]
    if "--evidence" not in args:
        assert all(len(block.splitlines()) <= LINES for block in blocks), result.text
    assert all(len(line) <= WIDTH for line in result.text.splitlines() if "/" not in line), result.text
    return result


def test_blocks_of_copies(run: Run) -> None:
    """Reviewed by eye."""
    result = table(run, EXAMPLE, "--topic", "payments")
    assert result.code == 3
    check("why/copies.txt", result.text, "--topic payments")
    found = table(run, EXAMPLE, "--topic", "payments", "--partition", 0, "--evidence")
    assert found.code == 3
    check("why/copies.txt", found.text, "--topic payments --partition 0 --evidence")
    for topic, code in (("ledger", 3), ("audit-trail", 0), ("orders", 3), ("__consumer_offsets", 0)):
        found = table(run, EXAMPLE, "--topic", topic)
        assert found.code == code
        check("why/copies.txt", found.text, f"--topic {topic}")


@pytest.mark.parametrize("subject", [("--transactional-id", "audit-service"), ("--producer-id", 1005)])
def test_id_and_producer_are_found_in_all_partitions(run: Run, subject: tuple[str, object]) -> None:
    found = json.loads(run("why", EXAMPLE, *subject, "--format", "json").out)
    assert [(one["cause"], one["waits"][0]["topic"], one["waits"][0]["partition"]) for one in found["blockers"]] == [
        ("hanging", "payments", 1),
        ("live", "audit-trail", 0),
    ]


def test_every_open_transaction_of_recorded_clusters_is_a_blocker_of_its_topic(run: Run) -> None:
    """The verdicts are those of the audit: the truth of the recordings names what was left open on purpose."""
    copy = Copy("cluster-three", "stopped")
    for verdict in ("hanging", "not_hanging"):
        for (topic, partition, producer_id, start), _reason in copy.left_open(verdict).items():
            result = run(
                "why", copy.path, "--topic", topic, "--partition", partition, "--format", "json", *copy.options
            )
            found = json.loads(result.out)
            mine = [one for one in found["blockers"] if one["producer_id"] == producer_id]
            assert [one["waits"][0]["offset"] for one in mine] == [start]
            assert (mine[0]["cause"] == "hanging") == (verdict == "hanging")
            assert result.code == (3 if verdict == "hanging" else 0)


def test_damage_blocks_a_partition_and_is_no_all_clear(run: Run, tmp_path: Path) -> None:
    shutil.copytree(unpacked("cluster-three") / "stopped", tmp_path / "copies")
    for segment in (tmp_path / "copies").glob("node-*/plain-0/*.log"):
        data = bytearray(segment.read_bytes())
        data[-1] ^= 1  # in the records of the last batch
        segment.write_bytes(data)
    result = run("why", tmp_path / "copies", "--topic", "plain", "--format", "json")
    found = json.loads(result.out)
    assert [(one["cause"], one["waits"][0]["topic"]) for one in found["blockers"]] == [("damage", "plain")]
    assert result.code == 5
    other = run("why", tmp_path / "copies", "--topic", "orders", "--format", "json")
    assert json.loads(other.out)["blockers"] == []


def appended(segment: Path, message: Message) -> int:
    """Appends a record to a metadata log; returns its offset."""
    data = segment.read_bytes()
    *_, last = (item for item in records.read(data) if isinstance(item, records.Batch))
    body = message.encode(version=0)
    value = bytes((1, message.spec.api_key or 0, 0)) + body
    record = Record(value=value, timestamp=last.max_timestamp)
    offset = last.last_offset + 1
    segment.write_bytes(data[: last.position + last.size] + build([record], base_offset=offset))
    return offset


def test_record_of_the_metadata_log_that_brokers_cannot_replay(run: Run, tmp_path: Path) -> None:
    """bitnami/containers#80381: the offset, and why."""
    copies = tmp_path / "copies"
    shutil.copytree(Copy("cluster-three", "stopped").path, copies)
    clear = run("why", copies, "--topic", "__cluster_metadata", "--format", "json")
    assert json.loads(clear.out)["blockers"] == []
    offsets = set()
    for segment in copies.glob("*/__cluster_metadata-0/*.log"):
        offsets.add(appended(segment, BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1)))
    result = run("why", copies, "--topic", "__cluster_metadata", "--format", "json")
    (blocker,) = json.loads(result.out)["blockers"]
    assert result.code in (3, 5)
    assert (blocker["cause"], blocker["waits"][0]["offset"]) == ("unreplayable_record", max(offsets))
    assert f"offset {max(offsets)}: BrokerRegistrationChangeRecord: tried to change" in blocker["on"]
    dumped = run(*blocker["command"].split()[1:], "--format", "jsonl")
    assert '"name":"BrokerRegistrationChangeRecord"' in dumped.text


def test_subjects_that_are_not_there(run: Run, tmp_path: Path) -> None:
    for subject in (("--group", "nobody"), ("--topic", "nothing"), ("--topic", "payments", "--partition", 99)):
        result = run("why", EXAMPLE, *subject)
        assert (result.code, result.out) == (1, b""), subject
        assert result.err.startswith("error: no copy of ")
    of_id = run("why", EXAMPLE, "--transactional-id", "nope")
    assert (of_id.code, of_id.out) == (1, b"")
    assert of_id.err == "error: no copy of __transaction_state names transactional id nope\n"
    of_producer = run("why", EXAMPLE, "--producer-id", 987654)
    assert (of_producer.code, of_producer.out) == (1, b"")
    assert "was not handed out" in of_producer.err
    nothing = run("why", tmp_path, "--topic", "payments")
    assert nothing.code == 1


def test_id_that_may_be_in_a_copy_that_is_not_here(run: Run, tmp_path: Path) -> None:
    """Absence from the partitions that are here proves nothing: the answer is incomplete, not `no such id`."""
    shutil.copytree(EXAMPLE, tmp_path / "copies")
    for folder in (tmp_path / "copies").glob("broker-*/__transaction_state-*"):
        shutil.rmtree(folder)
    result = run("why", tmp_path / "copies", "--transactional-id", "nope", "--format", "json")
    assert result.code == 4
    missing = json.loads(result.out)["outcome"]["missing"]
    assert any(one.startswith("whether there is a transactional id 'nope' is not known: ") for one in missing)


def test_group_without_members_is_no_all_clear(run: Run) -> None:
    """As of a cluster: a group whose members are gone may have waited in partitions without an offset."""
    found = json.loads(
        run("why", Copy("cluster-three", "stopped").path, "--group", "shipments", "--format", "json").out
    )
    doubt = "where group 'shipments' waits is not certain: it has no members now"
    assert doubt in found["outcome"]["missing"]


@pytest.mark.parametrize(
    "args",
    [
        (),
        (EXAMPLE,),
        (EXAMPLE, "--topic", "a", "--group", "b"),
        (EXAMPLE, "--partition", 1),
        (EXAMPLE, "--topic", "payments", "--timeout", 3),
        (EXAMPLE, "--topic", "payments", "--fetch-bytes", 3),
        (EXAMPLE, "--topic", "payments", "--bootstrap-server", "127.0.0.1:1"),
        ("--topic", "payments", "--bootstrap-server", "127.0.0.1:1", "--as-of", 1_700_000_000_000),
        ("--topic", "payments"),
    ],
)
def test_options_that_do_not_fit_are_refused(run: Run, args: tuple[object, ...]) -> None:
    assert run("why", *args).code == 2


def test_words_of_a_log(run: Run) -> None:
    """Reviewed by eye."""
    line = (
        "Out of order sequence number for producer 29003 at offset 1187 in partition orders-3: "
        "158 (incoming seq. number), 155 (current end sequence number)"
    )
    result = run("why", line, "--format", "table")
    assert result.code == 0
    check("why/words.txt", result.text)
    rows = json.loads(run("why", line, "--format", "jsonl").out)
    for command in rows["commands"]:
        parse(command.split()[1:])
    unknown = run("why", "all is well")
    assert (unknown.code, unknown.out) == (1, b"")


# Lag ------------------------------------------------------------------------------------------------------------------


def test_lag_options_that_do_not_fit_are_refused(run: Run) -> None:
    for args in ((), ("--group", "g"), (EXAMPLE, "--group", "g", "--fetch-bytes", 0),
                 (EXAMPLE, "--group", "g", "--bootstrap-server", "127.0.0.1:1")):  # fmt: skip
        assert run("lag", *args).code == 2, args
    assert run("lag", EXAMPLE, "--group", "nobody").code == 1


def test_lag_of_recorded_groups(run: Run) -> None:
    """Reviewed by eye: what `consumed` of the recording has from the committed offsets on."""
    copy = Copy("cluster-three", "stopped")
    consumed = copy.consumed("read_committed")
    rows = json.loads(run("lag", copy.path, "--group", "shipments", "--format", "json").out)
    assert len(rows) == 2
    for row in rows:
        offsets = consumed[row["topic"], row["partition"]]
        assert row["read_committed"]["least"] == sum(offset >= row["committed_offset"] for offset in offsets)
    only = json.loads(run("lag", copy.path, "--group", "shipments", "--topic", "nothing", "--format", "json").out)
    assert only == []


def test_lag_of_copies_names_what_holds_the_difference(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    data = build([Record(value=b"a")])
    data += build([Record(value=b"b")] * 2, base_offset=1, producer_id=7, producer_epoch=0, base_sequence=0,
                  transactional=True)  # fmt: skip
    (folder / f"{0:020}.log").write_bytes(data)
    replicas = LeadingReplicas(logdir.open(str(tmp_path)))
    view = GroupView(group="g", committed={("orders", 0): 0}, partitions=frozenset({("orders", 0)}))
    (lag,) = copied_lags(replicas, view, None)
    assert lag.held_by == ("producer 7 (open) from offset 1",)


# History --------------------------------------------------------------------------------------------------------------


def test_story_of_a_group_and_of_an_id_that_was_fenced(run: Run) -> None:
    """confluent-kafka-python#1125: an id fenced by another. Reviewed by eye."""
    path = Copy("cluster-three", "stopped").path
    for subject in (("--group", "shipments"), ("--transactional-id", "bumped"), ("--transactional-id", "late-batch")):
        result = run("why", path, *subject, "--history", "--format", "table")
        assert result.code == 0
        check("why/history.txt", result.text, " ".join(subject))
    rows = [
        json.loads(line) for line in run("why", path, "--transactional-id", "bumped", "--history").text.splitlines()
    ]
    assert rows[-1]["what"] == "epoch 1 fenced epoch 0: a new instance of the producer began"


def test_story_of_a_share_group_has_names(run: Run) -> None:
    """Reviewed by eye: of topics and of states, in place of ids and numbers."""
    result = run("why", "docs/share-groups/broker-1", "--group", "workers", "--history", "--format", "table")
    assert result.code == 4  # there is no __consumer_offsets
    check("why/history.txt", result.text, "--group workers, a share group")


def test_history_refuses_what_does_not_fit(run: Run) -> None:
    path = Copy("cluster-three", "stopped").path
    assert run("why", path, "--topic", "orders", "--history").code == 2
    assert run("why", path, "--group", "shipments", "--history", "--evidence").code == 2
    nobody = run("why", path, "--group", "nobody", "--history")
    assert (nobody.code, nobody.out) == (1, b"")

"""examples/: what is written about the bytes is in the bytes; and `tools.recordings examples` makes them again.

The first half reads the files with a few lines of `struct`, without kafkawire: it is what tests of kafkawire's readers
may rely on.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkawire import records
from kafkawire.messages import TransactionLogKey, TransactionLogValue
from tests.broker_fixture import StartCluster
from tools.broker import RunningCluster
from tools.broker.jars import TOOLS_VERSION
from tools.broker.kafka_tools import run_tool
from tools.recordings import RecordingError, broker_answers, example_folder, log_copies, tcpdump, transaction_recipes
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
EXPECTED: dict[str, Any] = json.loads((EXAMPLES / "expected.json").read_text())
LOGS = sorted(EXPECTED["kafka-logs"])
BATCH = struct.Struct(">qiibIhiqqqhii")
TRANSACTIONAL, CONTROL = 16, 32
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


class Batch(NamedTuple):
    offset: int
    last_offset: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int


def batches(partition: Path) -> Iterator[Batch]:
    for segment in sorted(partition.glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at < len(data):
            offset, length, _, magic, _, attributes, delta, _, latest, producer, epoch, _, _ = BATCH.unpack_from(
                data, at
            )
            assert magic == 2
            yield Batch(offset, offset + delta, attributes, latest, producer, epoch)
            at += 12 + length
        assert at == len(data)


def replicas(name: str) -> list[Path]:
    return sorted((EXAMPLES / "kafka-logs" / name).glob("broker-*"))


def test_files_are_small_and_none_is_ignored() -> None:
    files = [path for path in EXAMPLES.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    assert sum(path.stat().st_size for path in files) < example_folder.MAX_BYTES
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ignored.stdout == "", "a file that .gitignore hides is not in the repository"


def test_each_folder_states_how_it_was_made() -> None:
    for folder in ["", "capture", *(f"kafka-logs/{name}" for name in LOGS)]:
        assert "python -m tools.recordings examples" in (EXAMPLES / folder / "README.md").read_text()


def test_each_reason_of_a_verdict_is_present() -> None:
    kinds = {name: {o["reason"] for o in EXPECTED["kafka-logs"][name]["open"]} for name in LOGS}
    assert kinds["one-node"] == {"no_transactional_id", "transaction_ended", "live", "young"}
    more = {"partition_not_in_transaction", "epoch_bumped", "stuck_prepare"}
    assert kinds["three-nodes"] == kinds["one-node"] | more
    for name in LOGS:
        for found in EXPECTED["kafka-logs"][name]["open"]:
            assert (found["verdict"] == "hanging") == (found["reason"] not in ("live", "young", "stuck_prepare"))


@pytest.mark.parametrize("name", LOGS)
def test_open_transactions_in_the_logs_equal_the_brokers_answers(name: str) -> None:
    expected = EXPECTED["kafka-logs"][name]
    described = {(o["topic"], o["partition"], o["producer_id"]): o for o in expected["open"]}
    for broker in replicas(name):
        found = {}
        for offsets in expected["offsets"]:
            topic, partition = offsets["topic"], offsets["partition"]
            start: dict[int, int] = {}
            latest: dict[int, Batch] = {}
            end = 0
            for batch in batches(broker / f"{topic}-{partition}"):
                end = batch.last_offset + 1
                if batch.attributes & CONTROL:
                    start.pop(batch.producer_id, None)
                elif batch.attributes & TRANSACTIONAL:
                    start.setdefault(batch.producer_id, batch.offset)
                    latest[batch.producer_id] = batch
            assert end == offsets["high_watermark"]
            assert min(start.values(), default=end) == offsets["last_stable_offset"]
            for producer, offset in start.items():
                last = latest[producer]
                found[topic, partition, producer] = offset, last.producer_epoch, last.max_timestamp
        assert found == {
            place: (o["start_offset"], o["producer_epoch"], o["last_timestamp"]) for place, o in described.items()
        }


@pytest.mark.parametrize("name", LOGS)
def test_first_open_transaction_holds_the_last_stable_offset(name: str) -> None:
    expected = EXPECTED["kafka-logs"][name]
    stable = {(o["topic"], o["partition"]): o["last_stable_offset"] for o in expected["offsets"]}
    for found in expected["open"]:
        assert found["blocked"] == (found["start_offset"] == stable[found["topic"], found["partition"]])


@pytest.mark.parametrize("name", LOGS)
def test_log_of_coordinators_equals_their_answers(name: str) -> None:
    for broker in replicas(name):
        states: dict[str, tuple[int, int, str, set[tuple[str, int]]]] = {}
        for partition in broker.glob("__transaction_state-*"):
            for segment in sorted(partition.glob("*.log")):
                for batch in records.read(segment.read_bytes()):
                    for record in batch.records:
                        assert record.key is not None
                        assert record.value is not None
                        key, _ = TransactionLogKey.decode_prefixed(record.key)
                        value, _ = TransactionLogValue.decode_prefixed(record.value)
                        listed = {(t.topic, p) for t in value.transaction_partitions or () for p in t.partition_ids}
                        states[key.transactional_id] = (
                            value.producer_id,
                            value.producer_epoch,
                            STATES[value.transaction_status],
                            listed,
                        )
        assert states == {
            t["transactional_id"]: (
                t["producer_id"],
                t["producer_epoch"],
                t["state"],
                {(topic, partition) for topic, partition in t["partitions"]},
            )
            for t in EXPECTED["kafka-logs"][name]["transactions"]
        }


@pytest.mark.parametrize("name", LOGS)
def test_directories_are_complete_and_closed_cleanly(name: str) -> None:
    expected = EXPECTED["kafka-logs"][name]
    for number, broker in enumerate(replicas(name), 1):
        assert f"node.id={number}\n" in (broker / "meta.properties").read_text()
        assert (broker / ".kafka_cleanshutdown").exists()
        for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            lines = (broker / checkpoint).read_text().splitlines()
            assert lines[0] == "0"
            assert int(lines[1]) == len(lines) - 2 > 0
        ends = dict(line.rsplit(" ", 1) for line in lines[2:])
        for offsets in expected["offsets"]:
            end = int(ends[f"{offsets['topic']} {offsets['partition']}"])
            assert end == offsets["high_watermark"] or (end < offsets["high_watermark"] and number != offsets["leader"])
        assert list(broker.glob("__cluster_metadata-0/*.log"))
        aborted = list(broker.glob("orders-0/*.txnindex"))
        assert [path.stat().st_size for path in aborted] == [2 * 34], "two aborted transactions"


class Packet(NamedTuple):
    source: int
    target: int
    sequence: int
    payload: bytes


def packets(path: Path) -> Iterator[Packet]:
    data = path.read_bytes()
    magic, *_, link_type = struct.unpack_from("<IHHiIII", data)
    assert (magic, link_type) == (0xA1B2C3D4, 1), "classic pcap, little endian, Ethernet"
    at = 24
    while at < len(data):
        captured, length = struct.unpack_from("<II", data, at + 8)
        assert captured == length, "packets are whole"
        ip = data[at + 16 + 14 : at + 16 + captured]
        at += 16 + captured
        tcp = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4], "big")]
        source, target, sequence = struct.unpack_from(">HHI", tcp)
        yield Packet(source, target, sequence, tcp[(tcp[12] >> 4) * 4 :])


def streams() -> dict[tuple[int, int], bytes]:
    """The bytes of each direction of each connection. Loopback keeps them in order; a segment may come twice."""
    joined: dict[tuple[int, int], bytes] = defaultdict(bytes)
    following: dict[tuple[int, int], int] = {}
    for packet in packets(EXAMPLES / "capture" / example_folder.CAPTURE):
        way = packet.source, packet.target
        if packet.payload and packet.sequence >= following.get(way, packet.sequence):
            assert following.get(way, packet.sequence) == packet.sequence
            following[way] = packet.sequence + len(packet.payload) & 0xFFFFFFFF
            joined[way] += packet.payload
    return joined


def frames(stream: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(stream):
        size = int.from_bytes(stream[at : at + 4], "big")
        found.append(stream[at + 4 : at + 4 + size])
        at += 4 + size
    assert at == len(stream)
    return found


def test_capture_contains_each_exchange_that_was_made_by_hand() -> None:
    expected = EXPECTED["capture"][example_folder.CAPTURE]
    by_port: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for exchange in expected["exchanges_by_hand"]:
        by_port[exchange["client_port"]].append(exchange)
    joined = streams()
    for port, exchanges in by_port.items():
        requests, responses = frames(joined[port, expected["port"]]), frames(joined[expected["port"], port])
        assert [(*struct.unpack_from(">hhi", request), len(request)) for request in requests] == [
            (e["api_key"], e["version"], e["correlation_id"], e["request_bytes"]) for e in exchanges
        ]
        assert [(int.from_bytes(response[:4], "big"), len(response)) for response in responses] == [
            (e["correlation_id"], e["response_bytes"]) for e in exchanges
        ]


def test_capture_contains_the_requests_of_transactions() -> None:
    port = EXPECTED["capture"][example_folder.CAPTURE]["port"]
    keys = {int.from_bytes(f[:2], "big") for (_, to), data in streams().items() if to == port for f in frames(data)}
    # Produce, Fetch, FindCoordinator, ApiVersions, InitProducerId to TxnOffsetCommit, DescribeProducers,
    # DescribeTransactions, ListTransactions
    assert keys >= {0, 1, 10, 18, 22, 24, 25, 26, 27, 28, 61, 65, 66}


def test_hanging_transactions_of_the_capture_were_aborted() -> None:
    expected = EXPECTED["capture"][example_folder.CAPTURE]
    assert [abort["by"] for abort in expected["aborts"]] == ["kafka-transactions.sh abort", "WriteTxnMarkers v1"]
    for abort in expected["aborts"]:
        assert abort["last_stable_offset_before"] == abort["start_offset"] < abort["last_stable_offset_after"]
    assert {state["current_txn_start_offset"] for state in expected["producers"]} == {-1}


# --- the tool


def test_copies_of_the_metadata_log_keep_entries_and_cut_zeros(tmp_path: Path) -> None:
    entry, timed = struct.pack(">ii", 256, 0), struct.pack(">qi", 1 << 40, 7)
    for name in ("__cluster_metadata-0", "orders-0"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "0.index").write_bytes(entry + bytes(80))
        (tmp_path / "data" / name / "1.index").write_bytes(bytes(80))
        (tmp_path / "data" / name / "0.timeindex").write_bytes(timed + bytes(24))
    (tmp_path / "data" / ".lock").touch()
    log_copies.copy_log_directory(tmp_path / "data", tmp_path / "copy", metadata_index_bytes=0)
    # The zero position of the entry belongs to it.
    found = {path.name: path.read_bytes() for path in (tmp_path / "copy" / "__cluster_metadata-0").iterdir()}
    assert found == {"0.index": entry, "1.index": b"", "0.timeindex": timed}
    assert (tmp_path / "copy" / "orders-0" / "1.index").read_bytes() == bytes(80)
    assert not (tmp_path / "copy" / ".lock").exists()


def test_brokers_are_queried_until_the_last_marker_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(start: int, state: str) -> broker_answers.Truth:
        producer = broker_answers.DescribedProducer(
            topic="orders", partition=0, leader=1, producer_id=0, producer_epoch=1, last_sequence=2,
            last_timestamp=0, coordinator_epoch=0, current_txn_start_offset=start,
        )  # fmt: skip
        transaction = broker_answers.DescribedTransaction(
            transactional_id="orders-service", coordinator=1, producer_id=0, producer_epoch=1, state=state,
            timeout_ms=60_000, start_time_ms=0, partitions=[],
        )  # fmt: skip
        return broker_answers.Truth(asked_at=0, producers=[producer], transactions=[transaction], offsets=[])

    answers = [
        answer(18, "PrepareCommit"),
        answer(-1, "PrepareCommit"),
        answer(-1, "CompleteCommit"),
        answer(18, "never"),
    ]
    left = iter(answers)
    monkeypatch.setattr(broker_answers, "ask", lambda wire, topics, **_: next(left))
    settled = transaction_recipes.settled_answers(
        transaction_recipes.TransactionScene(running=None, wire=None), {"orders": 1}
    )
    assert settled is answers[2]


def test_missing_tcpdump_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RecordingError, match="no tcpdump in PATH: install it"), tcpdump.recorded(tmp_path / "x", 9092):
        pass


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'lo: You do not have permission to capture' >&2; exit 1", "needs root or the capability.*permission"),
        (
            "trap 'echo 3 packets dropped by kernel >&2; exit 0' INT; echo listening on lo >&2\n"
            "while :; do sleep 0.1; done",
            "(?s)not complete.*3 packets dropped",
        ),
    ],
)
def test_failing_capture_is_an_error(
    script: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tcpdump").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "tcpdump").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(tcpdump, "_LAST_TIMEOUT_S", 0.1)
    with pytest.raises(RecordingError, match=message), tcpdump.recorded(tmp_path / "x.pcap", 9092):
        pass


def test_paths_of_the_machine_are_refused(tmp_path: Path) -> None:
    (tmp_path / "fine").write_text("nothing to see")
    example_folder.refuse_paths(tmp_path)
    (tmp_path / "local").write_bytes(b"\0" + str(Path.cwd()).encode() + b"/x")
    with pytest.raises(RecordingError, match="local contains the path"):
        example_folder.refuse_paths(tmp_path)


def test_missing_program_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.recordings", "examples", "--output", str(tmp_path / "out")],
        cwd=ROOT, env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: no ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.broker
def test_requests_that_are_refused_are_errors(broker: RunningCluster) -> None:
    with RawCluster(broker.bootstrap) as wire:
        producer = wire.init_producer("test-examples")
        assert wire.end(producer, committed=True) == 48
        with pytest.raises(RecordingError, match="AddPartitionsToTxn answers error 29"):
            wire.add_partitions(producer, {"__transaction_state": [0]})
        without_id = wire.init_producer(None)
        with pytest.raises(RecordingError, match=f"producer id {without_id.producer_id} has no transactional id"):
            wire.end(without_id, committed=True)


@pytest.mark.broker
def test_recipe_makes_equal_log_directories(
    start_cluster: StartCluster, broker: RunningCluster, tmp_path: Path
) -> None:
    del broker  # Kafka's jars are here, else this test is skipped
    (recipe,) = (r for r in transaction_recipes.RECIPES if r.name == "one-node")
    made = transaction_recipes.make(recipe, tmp_path / "made")
    committed = EXPECTED["kafka-logs"]["one-node"]

    def shape(truth: dict[str, Any]) -> list[tuple[Any, ...]]:
        names = ("topic", "partition", "verdict", "reason", "blocked", "transactional_id", "coordinator_state", "story")
        return [tuple(found[name] for name in names) for found in truth["open"]]

    assert shape(made) == shape(committed)
    assert made.keys() == committed.keys()

    # Kafka's own reader finds the transaction at the place of the brokers' answer.
    hang = next(found for found in made["open"] if found["verdict"] == "hanging")
    segment = tmp_path / "made" / "broker-1" / f"{hang['topic']}-{hang['partition']}" / f"{0:020}.log"
    dumped = run_tool("DumpLogSegments", "--files", str(segment), version=TOOLS_VERSION)
    (line,) = (line for line in dumped.splitlines() if line.startswith(f"baseOffset: {hang['start_offset']} "))
    assert f"producerId: {hang['producer_id']} producerEpoch: {hang['producer_epoch']}" in line
    assert "isTransactional: true" in line

"""`kafkawire dump`."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkawire.messages import AbortedTxn, TransactionLogKey, TransactionLogValue
from kafkawire.records import Header, Record, build, build_marker
from tests.audit_logs import PartitionLog
from tests.cli.harmless import harmless
from tests.cli.runner import Run
from tests.consumed import LEVELS, REPLICAS, Replicas
from tests.shortened import cut_when_read
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

DATA = [
    Record(key=b"k\x1b[31m", value=b"[bold]=cmd", timestamp=5, headers=(Header("h", b"\xff"), Header("g", None))),
    Record(key=None, value=b"\xfe\xff", timestamp=6),
]
BATCHES = build(DATA, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True, codec="lz4") + build_marker(
    "ABORT", offset=2, timestamp=9, producer_id=7, producer_epoch=1, coordinator_epoch=3
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory: a partition with an aborted transaction, a good part of `__transaction_state`, checkpoints."""
    root = tmp_path / "logs"
    data, state = root / "orders-1", root / "__transaction_state-0"
    for folder in (data, state):
        folder.mkdir(parents=True)
    (data / f"{0:020}.log").write_bytes(BATCHES)
    (data / f"{0:020}.txnindex").write_bytes(AbortedTxn(producer_id=7, last_offset=2).encode_prefixed(0))
    (data / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    key = TransactionLogKey(transactional_id="tx").encode_prefixed(0)
    value = TransactionLogValue(producer_id=7, transaction_status=1).encode_prefixed(1)
    (state / f"{0:020}.log").write_bytes(build([Record(key=key, value=value, timestamp=1)]))
    (root / "replication-offset-checkpoint").write_text("0\n1\norders 1 3\n")
    return root


def rows(run: Run, *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    result = run("dump", *arguments)
    assert result.code == code
    return [json.loads(line) for line in result.out.splitlines()]


def of_kind(rows: list[dict[str, Any]], kind: str, *fields: str) -> list[Any]:
    return [tuple(row[field] for field in fields) for row in rows if row["kind"] == kind]


def test_prints_batches_and_small_files(run: Run, logs: Path) -> None:
    found = rows(run, logs)
    assert of_kind(found, "batch", "topic", "partition", "base_offset", "last_offset", "codec", "control") == [
        ("__transaction_state", 0, 0, 0, "none", None),
        ("orders", 1, 0, 1, "lz4", None),
        ("orders", 1, 2, 2, "none", "ABORT"),
    ]
    assert of_kind(found, "txnindex", "producer_id", "first_offset", "last_offset") == [(7, 0, 2)]
    assert of_kind(found, "epoch", "epoch", "start_offset") == [(4, 0)]
    assert of_kind(found, "checkpoint", "topic", "partition", "offset") == [("orders", 1, 3)]
    assert not of_kind(found, "record")


def test_deep_no_payloads_omits_payloads(run: Run, logs: Path) -> None:
    for flags in (["--deep-iteration"], ["--print-data-log", "--no-payloads"]):
        found = rows(run, logs / "orders-1", *flags)
        assert of_kind(found, "record", "offset", "control", "key_size", "value_size", "timestamp") == [
            (0, None, 6, 10, 5),
            (1, None, None, 2, 6),
            (2, "ABORT", 4, 6, 9),
        ]
        assert not any("value" in row or "decoded" in row or "headers" in row for row in found)


def test_deep_prints_payloads(run: Run, logs: Path) -> None:
    found = rows(run, logs, "--print-data-log")
    assert of_kind(found, "record", "topic", "key", "value", "value_base64")[1:3] == [
        ("orders", "k\x1b[31m", "[bold]=cmd", None),
        ("orders", None, None, "/v8="),
    ]
    assert [row["headers"] for row in found if row["kind"] == "record"][1] == [
        {"key": "h", "value": None, "value_base64": "/w=="},
        {"key": "g", "value": None, "value_base64": None},
    ]
    decoded = next(row["decoded"] for row in found if row["kind"] == "record")
    assert (decoded["key"]["data"], decoded["value"]["name"], decoded["value"]["version"]) == (
        {"transactionalId": "tx"}, "TransactionLogValue", 1,
    )  # fmt: skip


@pytest.mark.parametrize("format", ["table", "csv", "json", "jsonl"])
def test_every_format_is_harmless(run: Run, logs: Path, format: str) -> None:
    result = run("dump", logs, "--print-data-log", "--format", format)
    assert result.code == 0
    assert harmless(result.text)
    assert r"k\x1b[31m" in result.text or r"k\u001b[31m" in result.text


@pytest.mark.slow
def test_csv_has_the_columns_of_the_options(run: Run, logs: Path) -> None:
    def columns(*flags: str) -> set[str]:
        lines = list(csv.DictReader(io.StringIO(run("dump", logs, "--format", "csv", *flags).text)))
        assert all(None not in line and None not in line.values() for line in lines)
        return set(lines[0])

    assert {"base_offset", "epoch", "detail"} <= columns()
    assert not columns() & {"key_size", "value"}
    assert "key_size" in columns("--deep-iteration")
    assert "value" not in columns("--deep-iteration")
    assert {"value", "headers", "decoded"} <= columns("--print-data-log")


def test_writes_an_output_file(run: Run, logs: Path, tmp_path: Path) -> None:
    assert run("dump", logs, "-o", tmp_path / "x.jsonl").out == b""
    assert (tmp_path / "x.jsonl").read_bytes() == run("dump", logs).out


def test_reads_several_paths_and_single_files(run: Run, logs: Path) -> None:
    file = logs / "orders-1" / f"{0:020}.log"
    assert len(rows(run, file)) == 2
    assert len(rows(run, file, logs / "orders-1/leader-epoch-checkpoint")) == 3


def test_damage_is_a_row_and_exits_with_4(run: Run, logs: Path) -> None:
    path = logs / "orders-1" / f"{0:020}.log"
    path.write_bytes(BATCHES[:60] + b"\xff" * 30 + BATCHES)
    result = run("dump", logs)
    assert result.code == 4
    found = [json.loads(line) for line in result.out.splitlines()]
    assert of_kind(found, "damage", "file", "position", "resumed_at") == [(str(path), 0, 90)]
    assert len(of_kind(found, "batch")) == 3
    assert result.err.startswith(f"incomplete: {path}: at byte 0: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["--print-data-log"], ["--stats"], ["--deep-iteration", "--format", "jsonl"]])
def test_reports_a_log_that_is_truncated_while_it_is_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """As a follower's is; also where a batch ends, or nothing is left."""
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    batches = [build([Record(b"k", b"v")], base_offset=offset) for offset in range(10)]
    for kept, code in ((3, 4), (0, 1)):
        log.write_bytes(b"".join(batches))
        size, cut = log.stat().st_size, len(b"".join(batches[:kept]))
        with monkeypatch.context() as patched:
            cut_when_read(patched, log, cut)
            result = run("dump", log, *options)
        assert result.code == code, "1 where nothing could be read"
        assert f"ended at {cut}, was {size} when opened" in result.text
        assert "preallocated" not in result.text


def test_preallocated_tail_is_no_damage(run: Run, logs: Path) -> None:
    path = logs / "orders-1" / f"{0:020}.log"
    path.write_bytes(BATCHES + bytes(4096))
    assert len(of_kind(rows(run, path), "batch")) == 2


def test_exits_with_1_when_nothing_can_be_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"\xff" * 200)
    result = run("dump", path)
    assert result.code == 1
    assert result.err.startswith(f"error: {path}: at byte 0: ")
    assert [json.loads(line)["kind"] for line in result.out.splitlines()] == ["damage"]


def test_rejects_missing_paths(run: Run, tmp_path: Path) -> None:
    assert run("dump", tmp_path / "none").err == f"error: {tmp_path / 'none'}: No such file or directory\n"
    (tmp_path / "notes.txt").write_text("x")
    for path in (tmp_path, tmp_path / "notes.txt"):
        assert run("dump", path).err.startswith(f"error: {path}: neither a log directory nor a file of one")
    assert run("dump").code == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_reports_files_without_permission(run: Run, logs: Path) -> None:
    path = logs / "orders-1" / f"{0:020}.log"
    path.chmod(0)
    found = rows(run, logs, code=4)
    assert of_kind(found, "damage", "file", "reason") == [(str(path), "unreadable")]


def test_reports_files_that_cannot_be_opened(run: Run, logs: Path) -> None:
    path = logs / "orders-1" / f"{5:020}.log"
    path.symlink_to(logs / "gone")
    found = rows(run, logs, code=4)
    assert of_kind(found, "damage", "file", "reason", "detail") == [
        (str(path), "unreadable", "No such file or directory")
    ]
    assert len(of_kind(found, "batch")) == 3


def test_reads_uris(run: Run) -> None:
    """Directories in other stores are named by URIs; file:// is one that is here."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    broker = Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node"
    uri = broker.as_uri()
    assert run("dump", uri).out.replace(b"file://", b"") == run("dump", broker).out
    assert run("dump", f"{uri}/broker-[0-9]").out == run("dump", f"{uri}/broker-1").out
    assert "/broker-[2-9] matches nothing" in run("dump", f"{uri}/broker-[2-9]").err
    done = run("dump", f"{uri}/nothing")
    assert (done.code, done.out) == (1, b"")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1


def test_rejects_a_message_size_out_of_range(run: Run, logs: Path) -> None:
    for number in (str(1 << 31), "9" * 30, "9" * 5000):
        result = run("dump", logs, f"--max-message-size={number}")
        assert (result.code, "unexpected" in result.err) == (2, False)


CONSUMED = json.loads((unpacked("read-committed") / "consumed.json").read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("name", sorted(CONSUMED))
def test_committed_records_are_those_that_a_consumer_got(run: Run, tmp_path: Path, name: str, format: str) -> None:
    directory = unpacked("read-committed") / name
    options = ["--isolation-level", "read_committed", "--print-data-log", "--format", format]
    if format == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        assert run("dump", directory, *options, "-o", tmp_path / "out.parquet").code == 0
        listed = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    else:
        out = run("dump", directory, *options).out
        listed = list(
            map(json.loads, out.splitlines()) if format == "jsonl" else csv.DictReader(io.StringIO(out.decode()))
        )
    found: dict[str, list[Any]] = {topic: [] for topic in CONSUMED[name]["records"]}
    for row in listed:
        assert row["kind"] in ("batch", "record")
        if row["kind"] == "record":
            found[row["topic"]].append([int(row["offset"]), row["key"] or None, row["value"]])
    assert found == CONSUMED[name]["records"]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("replicas", [one for one in REPLICAS if one.node == 1], ids=str)
def test_records_are_those_of_a_java_consumer(
    run: Run, tmp_path: Path, replicas: Replicas, level: str, format: str
) -> None:
    options = [replicas.path, "--isolation-level", level, "--print-data-log", "--transaction"]
    if format == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        assert run("dump", *options, "-o", tmp_path / "out.parquet").code == 0
        listed = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    else:
        listed = rows(run, *options)
    found: dict[str, list[Any]] = {topic: [] for topic in replicas.consumed(level)}
    states = set()
    for row in listed:
        if row["kind"] == "record":
            found[row["topic"]].append([row["offset"], row["key"], row["value"]])
            states.add(row["transaction"])
    assert found == replicas.records(level)
    assert states == {"none", "committed", *(("aborted", "open") if level == "read_uncommitted" else ())}


@pytest.mark.parametrize("cluster", LOG_DIRECTORIES)
def test_uncommitted_records_are_those_that_a_consumer_got(run: Run, cluster: str) -> None:
    """Up to the high watermark, which a running broker has not written for some seconds."""
    consumed = json.loads((unpacked(cluster) / "expected.json").read_text("utf-8"))["records"]
    found: dict[str, list[int]] = {place: [] for place in consumed}
    options = ["--isolation-level", "read_uncommitted", "--deep-iteration"]
    for row in rows(run, *(unpacked(cluster) / "data" / place for place in consumed), *options):
        if row["kind"] == "record":
            found[f"{row['topic']}-{row['partition']}"].append(row["offset"])
    for place, records in consumed.items():
        expected = [record["offset"] for record in records]
        if cluster.endswith("running"):
            assert found[place]
            expected = expected[: len(found[place])]
        assert found[place] == expected, place


def test_a_field_shows_the_states_of_transactions(run: Run, logs: Path) -> None:
    found = rows(run, logs / "orders-1", "--transaction", "--deep-iteration")
    assert of_kind(found, "batch", "control", "transaction") == [(None, "aborted"), ("ABORT", "aborted")]
    assert of_kind(found, "record", "offset", "transaction") == [(0, "aborted"), (1, "aborted"), (2, "aborted")]
    assert "transaction" not in rows(run, logs / "orders-1")[0]
    assert rows(run, logs / "orders-1", "--isolation-level", "read_committed") == []


def test_states_of_transactions_hide_no_damage(run: Run, logs: Path) -> None:
    path = logs / "orders-1" / f"{0:020}.log"
    garbled = bytearray(path.read_bytes())
    garbled[80] ^= 1
    path.write_bytes(garbled)
    damage = of_kind(rows(run, path, code=4), "damage", "reason", "position")
    assert damage == of_kind(rows(run, path, "--transaction", code=4), "damage", "reason", "position") != []


def test_records_with_an_unknown_outcome_are_damage(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders-1").mkdir()
    data = build(DATA, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    (tmp_path / "orders-1" / f"{0:020}.log").write_bytes(data + build(DATA, base_offset=4))
    found = rows(run, tmp_path, "--isolation-level", "read_committed", code=4)
    assert of_kind(found, "damage", "reason", "position") == [("unknown_outcome", 0)]
    assert of_kind(found, "batch", "base_offset") == []  # the transaction may be open, and consumers may stop at 0
    PartitionLog(tmp_path / "orders-1").snapshot(offset=6)
    found = rows(run, tmp_path, "--isolation-level", "read_committed", code=4)
    assert of_kind(found, "damage", "reason", "position") == [("unknown_outcome", 0)]
    assert of_kind(found, "batch", "base_offset") == [(4,)]


@pytest.mark.parametrize("option", ["--stats", "--verify-index-only", "--index-sanity-check"])
def test_rejects_isolation_levels_for_rows_that_are_not_of_segments(run: Run, logs: Path, option: str) -> None:
    result = run("dump", logs, option, "--isolation-level", "read_committed")
    assert result.code == 2
    assert "--isolation-level and --transaction are for the rows of segments" in result.err


@pytest.mark.slow
@pytest.mark.parametrize("node", ["node-1", "node-2"])
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_a_replica_and_its_tier_have_the_records_that_a_consumer_got(run: Run, node: str, level: str) -> None:
    folder = unpacked("tiered-storage")
    consumed = json.loads((folder / "consumed.json").read_text("utf-8"))[level]
    found = rows(run, folder / node, folder / "tier", "--print-data-log", "--isolation-level", level)
    of_orders = [row for row in found if row["kind"] == "record" and row["topic"] == "orders"]
    expected = [(record["offset"], record["key"], record["value"]) for record in consumed]
    assert [(row["offset"], row["key"], row["value"]) for row in of_orders] == expected


@pytest.mark.slow
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_a_replica_and_its_encrypted_tier_have_the_records_that_a_consumer_got(run: Run, level: str) -> None:
    folder, objects = unpacked("tiered-storage"), unpacked("tier-objects")
    consumed = json.loads((folder / "consumed.json").read_text("utf-8"))[level]
    options = ("--print-data-log", "--isolation-level", level, "--tier-key", objects / "private.pem")
    found = rows(run, folder / "node-2", objects / "encrypted-zstd", *options)
    of_orders = [row for row in found if row["kind"] == "record" and row["topic"] == "orders"]
    assert [(row["offset"], row["key"], row["value"]) for row in of_orders] == [
        (record["offset"], record["key"], record["value"]) for record in consumed
    ]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_isolation_levels_have_the_damage_of_the_files_that_they_rest_on(run: Run, tmp_path: Path, level: str) -> None:
    """Once, whatever the number of segments."""
    root = shutil.copytree(unpacked("tiered-storage"), tmp_path / "copy")
    asked = (root / "node-1", root / "tier", "--isolation-level", level)
    whole = rows(run, *asked)
    epochs = root / "node-1" / "orders-0" / "leader-epoch-checkpoint"
    marks = root / "node-1" / "replication-offset-checkpoint"
    epochs.write_text(epochs.read_text() + "x\n")
    marks.write_text(marks.read_text().replace("orders 0", "orders x"))
    found = rows(run, *asked, code=4)
    assert [(row["file"], row["reason"]) for row in found if row["kind"] == "damage"] == [
        (str(marks), "bad_line"), (str(epochs), "bad_line"), (str(epochs), "truncated"),
    ]  # fmt: skip
    assert len(found) >= len(whole)


def test_names_the_key_that_an_encrypted_tier_needs(run: Run, tmp_path: Path) -> None:
    objects = unpacked("tier-objects")
    found = rows(run, objects / "encrypted", "--offset", "30..40", code=1)
    details = {row["detail"] for row in found if row["kind"] == "damage"}
    why = "encrypted; its data key is wrapped with the key pair 'pair-1': no private key was given"
    assert details == {why, f"the log beside it: {why}: no entry was checked"}
    (tmp_path / "key.pem").write_text("no key")
    result = run("dump", objects / "encrypted", "--tier-key", tmp_path / "key.pem")
    assert result.code == 1
    assert "key.pem: no private key in PEM without a password" in result.err

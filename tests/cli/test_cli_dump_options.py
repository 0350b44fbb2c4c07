"""What `kafkawire dump` is asked for: filters, decoders, checks, statistics, formats; with what a reader sees."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from kafkawire._installation import install_command
from kafkawire.messages import (
    ConfigRecord,
    DelegationTokenRecord,
    TransactionLogKey,
    TransactionLogValue,
    UserScramCredentialRecord,
)
from kafkawire.records import Record, build, build_marker
from kafkawire.wire import backend
from kafkawire.wire.write import uvarint
from tests import golden
from tests.cli.runner import Run
from tests.cli.terminal import on_a_terminal

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real broker's log directory, in the current directory: paths in what is printed are short."""
    monkeypatch.chdir(tmp_path)
    copytree(EXAMPLES / "one-node" / "broker-1", "logs")
    return Path("logs")


def lines(run: Run, *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    result = run("dump", *arguments)
    assert result.code == code, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def kinds(rows: list[dict[str, Any]]) -> set[str]:
    return {row["kind"] for row in rows}


# What a reader sees --------------------------------------------------------------------------------------------------

SEEN = {
    "batches": ["logs/orders-0"],
    "records": ["logs/orders-0", "--print-data-log"],
    "payloads": ["logs/orders-0", "--skip-record-metadata", "--offset", "4..9"],
    "transactions": ["logs/__transaction_state-0", "--print-data-log"],
    "broker": ["logs/meta.properties", "logs/replication-offset-checkpoint", "logs/.kafka_cleanshutdown"],
    "stats": ["logs", "--stats"],
    "verified": ["logs/orders-*", "--verify-index-only"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("format", ["table", "jsonl", "csv"])
def test_tables_match_golden_files(run: Run, broker: Path, name: str, format: str) -> None:
    result = run("dump", *SEEN[name], "--format", format)
    assert result.code == 0
    golden.check(f"cli/dump/{name}.txt", result.text, format)


def test_tables_of_damage_match_golden_files(run: Run, broker: Path) -> None:
    log = broker / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[400:420] = b"\x1b[31m" * 4
    log.write_bytes(data[:-10])
    (broker / "orders-0" / f"{0:020}.timeindex").write_bytes(bytes.fromhex("000001a1fe000000" + "00000005") + b"\1")
    result = run("dump", "logs/orders-0", "--format", "table")
    assert result.code == 4
    golden.check("cli/dump/damage.txt", result.text + result.err)


# Filters -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_filters_select_rows(run: Run, broker: Path) -> None:
    def offsets(*arguments: str) -> list[int]:
        found = lines(run, "logs/orders-0", "--deep-iteration", *arguments)
        return [row["offset"] for row in found if row["kind"] == "record"]

    everything = offsets()
    assert everything == list(range(23))
    assert offsets("--offset", "3..7") == [3, 4, 5, 6]
    assert offsets("--offset", "21..") == [21, 22]
    assert offsets("--offset", "..2") == [0, 1]
    assert offsets("--offset", "5") == [5]
    assert offsets("--offset", "100..200") == []
    control = offsets("--control")
    assert sorted(control + offsets("--no-control")) == everything
    assert offsets("--producer-id", "7") == [20, 21, 22]
    assert offsets("--key", "100") == offsets("--key", "hex:313030") == [7]
    assert offsets("--time", "1795241506736..1795241506737") == [6]
    assert offsets("--time", "2026-11-21T06:11:46.736Z..2026-11-21T06:11:46.737") == [6]
    assert offsets("--time", "1795241506736..", "--offset", "..8", "--no-control") == [6, 7]


def test_rows_without_the_filtered_field_are_left_out(run: Run, broker: Path) -> None:
    assert kinds(lines(run, "logs")) >= {"batch", "checkpoint", "metadata", "epoch", "snapshot", "txnindex"}
    assert kinds(lines(run, "logs", "--producer-id", "0")) == {"batch", "snapshot", "txnindex"}
    assert kinds(lines(run, "logs", "--offset", "0..5")) == {"batch", "timeindex", "txnindex"}
    assert kinds(lines(run, "logs", "--control")) == {"batch"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--offset", "x"], ["--offset", "5..5"], ["--offset", "9..3"], ["--offset", "1..2..3"], ["--time", "now"],
        ["--time", "2026-13-01..", "--stats"], ["--time", "5"], ["--key", "hex:0"], ["--producer-id", "x"],
        ["--offsets-decoder", "--transaction-log-decoder"], ["--stats", "--verify-index-only"],
        ["--max-bytes", "-1"], ["--format", "parquet"], ["logs/no-*"],
    ],
)  # fmt: skip
def test_invalid_options_are_usage_errors(run: Run, broker: Path, arguments: list[str]) -> None:
    result = run("dump", "logs", *arguments)
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert result.out == b""


def test_accepts_globs_and_lists_of_paths(run: Run, broker: Path) -> None:
    by_glob = lines(run, "logs/orders-*/*.log")
    assert {row["partition"] for row in by_glob} == {0, 1}
    files = sorted(str(path) for path in broker.glob("orders-*/*.log"))
    assert lines(run, "--files", ",".join(files)) == by_glob
    assert lines(run, *files) == by_glob
    odd = broker / "[0]"
    (broker / "orders-0").rename(odd)
    assert len(lines(run, odd)) > 1  # a path that is there is no glob


# Decoders ------------------------------------------------------------------------------------------------------------


def test_decoder_option_decodes_a_file_outside_its_topic(run: Run, broker: Path, tmp_path: Path) -> None:
    moved = tmp_path / f"{0:020}.log"
    (broker / "__transaction_state-0" / f"{0:020}.log").rename(moved)
    plain = [row for row in lines(run, moved, "--print-data-log") if row["kind"] == "record"]
    assert all(row["decoded"] is None for row in plain)
    found = [row for row in lines(run, moved, "--transaction-log-decoder") if row["kind"] == "record"]
    assert {row["decoded"]["value"]["name"] for row in found} == {"TransactionLogValue"}
    assert found[0]["decoded"]["value"]["data"].keys() >= {"previousProducerId", "transactionTimeoutMs"}


def framed(message: Any) -> bytes:
    return b"".join(map(uvarint, (1, message.spec.api_key, 0))) + message.encode(version=0)


def test_hides_secrets_by_default(run: Run, tmp_path: Path) -> None:
    hidden = [
        UserScramCredentialRecord(name="alice", mechanism=1, salt=b"SALT!", stored_key=b"STORED", server_key=b"SERVER"),
        DelegationTokenRecord(owner="User:alice", token_id="TOKENID"),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.keystore.password", value="HUNTER2"),
    ]
    shown = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="86400000")
    values = [framed(message) for message in (*hidden, shown)]
    values.append(b"\1\x0b\x63" + b"HUNTER3")  # a credential of a version that is not known
    log = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(build([Record(None, value) for value in values]))
    for flags in ([], ["--offsets-decoder"], ["--format", "csv"], ["--format", "table"], ["--skip-record-metadata"]):
        out = run("dump", log, "--print-data-log", *flags).text
        for secret in (b"SALT!", b"STORED", b"SERVER", b"TOKENID", b"HUNTER2", b"HUNTER3"):
            assert secret.decode() not in out
            assert not any(piece in out for piece in in_base64(secret)), secret
        assert "86400000" in out
    found = lines(run, log, "--print-data-log")
    data = [row["decoded"]["value"]["data"] for row in found if row["kind"] == "record"]
    assert (data[0]["name"], data[0]["salt"], data[0]["storedKey"]) == ("alice", "[redacted]", "[redacted]")
    assert (data[2]["name"], data[2]["value"]) == ("ssl.keystore.password", "[redacted]")
    clear = lines(run, log, "--print-data-log", "--show-secrets")
    assert [row["decoded"]["value"]["data"] for row in clear if row["kind"] == "record"][2]["value"] == "HUNTER2"
    assert "[redacted]" not in run("dump", log, "--print-data-log", "--show-secrets").text


def in_base64(secret: bytes) -> list[str]:
    """What base64 shows of bytes, at any place in the encoded bytes."""
    from base64 import b64encode

    return [b64encode(bytes(shift) + secret).decode()[(shift * 4 + 2) // 3 : -4] for shift in range(3)]


def test_keeps_bytes_of_tombstones_and_unknown_versions(run: Run, tmp_path: Path) -> None:
    key = TransactionLogKey(transactional_id="t").encode_prefixed(0)
    value = TransactionLogValue(producer_id=1).encode_prefixed(1)
    log = tmp_path / "__transaction_state-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(build([Record(key, None), Record(key, b"\0\x09" + value[2:])]))
    gone, newer = [row for row in lines(run, log, "--print-data-log") if row["kind"] == "record"]
    assert (gone["decoded"]["value"], gone["value"], gone["value_size"]) == (None, None, None)
    assert newer["decoded"]["value"]["data"] is None
    assert "has no version 9" in newer["decoded"]["value"]["problem"]
    assert newer["value_base64"] or newer["value"]


# Checks, statistics --------------------------------------------------------------------------------------------------


def test_checks_indexes(run: Run, broker: Path) -> None:
    found = lines(run, "logs", "--index-sanity-check")
    assert kinds(found) == {"check"}
    assert all(row["passed"] for row in found)
    index = broker / "__cluster_metadata-0" / f"{0:020}.index"
    index.write_bytes(index.read_bytes()[:4] + b"\0\0\0\1")
    assert all(row["passed"] for row in lines(run, "logs", "--index-sanity-check"))
    wrong = lines(run, "logs", "--verify-index-only", code=4)
    assert [(row["kind"], row.get("reason"), row.get("passed")) for row in wrong if row["file"] == str(index)] == [
        ("damage", "index_mismatch", None),
        ("check", None, False),
    ]


def test_stats_prints_a_row_for_each_partition(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "t-3"
    folder.mkdir()
    data = build(
        [Record(b"k", b"v" * 1000, timestamp=5 + i) for i in range(4)], codec="gzip", producer_id=1, producer_epoch=0
    )
    data += build([Record(b"k", offset=12)], base_offset=10, last_offset=14, base_timestamp=9)
    (folder / f"{0:020}.log").write_bytes(data)
    more = build_marker("COMMIT", offset=20, timestamp=99, producer_id=1, producer_epoch=0, coordinator_epoch=0)
    (folder / f"{20:020}.log").write_bytes(more + b"\xff" * 70)
    (folder / f"{0:020}.log.deleted").write_bytes(data)
    damage, stats = lines(run, folder, "--stats", code=4)
    assert (damage["kind"], damage["reason"], damage["position"]) == ("damage", "unknown_magic", len(more))
    assert stats["compressed_bytes"] < stats["uncompressed_bytes"]
    assert stats["compression_ratio"] == round(stats["uncompressed_bytes"] / stats["compressed_bytes"], 3)
    del stats["compressed_bytes"], stats["uncompressed_bytes"], stats["compression_ratio"]
    assert stats == {
        "kind": "stats", "file": str(tmp_path), "topic": "t", "partition": 3, "state": "", "segments": 2, "batches": 3,
        "records": 6, "bytes": len(data) + len(more), "first_offset": 0, "last_offset": 20, "first_timestamp": 8,
        "last_timestamp": 99, "magics": {"2": 3}, "codecs": {"gzip": 1, "none": 2}, "producers": 1,
        "control_batches": 1, "transactional_batches": 1, "gaps": 3, "missing_offsets": 6 + 4 + 5, "damaged": 1,
    }  # fmt: skip


# Limits, formats, progress -------------------------------------------------------------------------------------------


def test_max_message_size_and_max_bytes_limit_reading(run: Run, broker: Path) -> None:
    log = broker / "orders-0" / f"{0:020}.log"
    first = lines(run, log)[0]
    assert lines(run, log, "--max-bytes", first["size"]) == [first]
    found = lines(run, log, "--max-message-size", "200", code=4)
    assert {row["reason"] for row in found if row["kind"] == "damage"} == {"too_large"}
    assert [row for row in found if row["kind"] == "batch" and row["size"] > 212] == []


@pytest.mark.slow
def test_writes_parquet(run: Run, broker: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("dump", "logs", "--print-data-log", "-o", "rows.parquet").out == b""
    table = parquet.read_table("rows.parquet")
    rows = lines(run, "logs", "--print-data-log")
    assert table.num_rows == len(rows)
    for read, row in zip(table.to_pylist(), rows, strict=True):
        for name, value in row.items():
            expected = json.loads(read[name]) if name == "decoded" and read[name] else read[name]
            assert expected == value, name
    assert {str(table.schema.field(name).type) for name in ("offset", "timestamp", "producer_id")} == {"int64"}


def test_parquet_without_pyarrow_names_the_extra(run: Run, broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("dump", "logs", "-o", "rows.parquet")
    assert result.code == 1
    assert result.err == f'error: Parquet needs the "arrow" extra: {install_command("arrow")}\n'


def test_damage_in_parquet_output_exits_with_4(run: Run, broker: Path) -> None:
    pytest.importorskip("pyarrow")
    log = broker / "orders-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert run("dump", "logs", "--format", "parquet", "-o", "x").code == 4
    assert Path("x").read_bytes().startswith(b"PAR1")


def test_progress_sums_to_the_total(run: Run, broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However rows go by, the bar ends where the files do."""
    from contextlib import contextmanager

    from kafkawire.cli import dump

    advances: list[int] = []
    totals: list[int] = []

    @contextmanager
    def counting(total: int, *, shown: bool) -> Any:
        totals.append(total)
        yield advances.append

    monkeypatch.setattr(dump, "progress", counting)
    lines(run, "logs", "--deep-iteration")
    size = sum(path.stat().st_size for path in broker.rglob("*") if path.is_file())
    assert totals == [sum(advances)] == [size]


def test_leaves_files_unchanged(run: Run, broker: Path) -> None:
    def state() -> dict[Path, tuple[int, bytes]]:
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in broker.rglob("*") if path.is_file()}

    before = state()
    for flags in (["--print-data-log"], ["--stats"], ["--verify-index-only"], ["--index-sanity-check"]):
        lines(run, "logs", *flags)
    assert state() == before


# What is damaged or long ---------------------------------------------------------------------------------------------


def test_table_counts_repeated_escapes(run: Run, broker: Path) -> None:
    checkpoint = broker / "orders-1" / "leader-epoch-checkpoint"
    checkpoint.write_bytes(b"0\n1\n" + b"\x00" * 470 + b"\n")
    result = run("dump", checkpoint)
    assert result.err == rf"error: {checkpoint}: at byte 4: cannot be read: '\x00{{100 times}}'" + "\n"
    assert json.loads(result.out)["detail"].count(r"\x00") == 100, "rows for tools are complete"


@pytest.mark.slow
def test_shortens_a_long_key_on_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batch = build([Record(offset=0, timestamp=0, key=b"k" * (1 << 20), value=b"v")])
    (folder / "00000000000000000000.log").write_bytes(batch)
    shown = on_a_terminal("dump", str(folder), "--print-data-log", "--offset", "0")
    assert len(shown) < 100_000
    assert "(1,048,576characters)" in "".join(shown.split())
    whole = on_a_terminal("dump", str(folder), "--print-data-log", "--offset", "0", "--no-cut")
    assert whole.count("k") >= 1 << 20


def test_threads_print_what_one_prints(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batches = [build([Record(b"k", bytes(40))] * 50, base_offset=50 * number, codec="lz4") for number in range(900)]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    for form in ("jsonl", "csv"):
        outputs = {
            run("dump", str(folder), "--print-data-log", "--format", form, *jobs).out
            for jobs in ((), ("--jobs", "1"), ("--jobs", "3"))
        }
        assert len(outputs) == 1
        assert len(outputs.pop().splitlines()) >= 45_900


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--jobs", "0"), "must be at least 1"),
        (("--jobs", "65"), "65 is more than 64 threads"),
        (("--jobs", "2", "--stats"), "threads are for rows that are printed as lines"),
        (("--jobs", "2", "--verify-index-only"), "threads are for rows that are printed as lines"),
        (("--jobs", "2", "-o", "rows.parquet"), "threads are for rows that are printed as lines"),
    ],
)
def test_threads_that_would_do_nothing_are_refused(options: tuple[str, ...], message: str, run: Run) -> None:
    found = run("dump", "examples/kafka-logs/one-node/broker-1", *options)
    assert found.code == 2
    assert message in found.err


def test_pure_python_has_no_threads(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "native", None)
    found = run("dump", "examples/kafka-logs/one-node/broker-1", "--jobs", "2")
    assert found.code == 2
    assert "--jobs: threads are for the native engine" in found.err

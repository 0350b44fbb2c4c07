"""`kafkawire audit`."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkawire import rows
from kafkawire._installation import install_command
from kafkawire.records import Record, build
from kafkawire.transactions.checks.check_names import CHECKS
from kafkawire.transactions.cluster.cluster_metadata import MOST_PARTITIONS
from tests.audit_logs import HOUR, NOON, LogDirectory
from tests.cli.harmless import harmless
from tests.cli.runner import Run
from tests.shortened import cut_when_read

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"
OLD = NOON - 3 * HOUR


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    """A broker with one transaction that has ended and one that has not."""
    logs = LogDirectory(tmp_path / "logs")
    orders = logs.partition("orders")
    orders.data(1, at=OLD)
    orders.marker("COMMIT", 1, 1, at=OLD)
    logs.id("other", "CompleteCommit", 1, 1, at=NOON)
    return logs


def hanging(logs: LogDirectory) -> LogDirectory:
    logs.partition("orders").data(7, 3, at=OLD)
    logs.id("pay", "CompleteCommit", 7, 4, at=NOON)
    return logs


def arguments(logs: LogDirectory, *more: object) -> list[object]:
    return ["audit", logs.write(), "--txn-partitions", logs.ids, *more]


# Exit codes ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_exits_with_0_when_nothing_is_open(run: Run, logs: LogDirectory) -> None:
    assert run(*arguments(logs)).code == 0


@pytest.mark.slow
def test_exits_with_0_for_a_live_transaction(run: Run, logs: LogDirectory) -> None:
    logs.partition("orders").data(7, at=OLD)
    logs.id("pay", "Ongoing", 7, 0, ("orders", 0), at=NOON)
    assert run(*arguments(logs)).code == 0


def test_exits_with_3_for_a_hanging_transaction(run: Run, logs: LogDirectory) -> None:
    assert run(*arguments(hanging(logs))).code == 3


def test_exits_with_3_for_a_stuck_transaction(run: Run, logs: LogDirectory) -> None:
    logs.partition("orders").data(7, at=OLD)
    logs.id("pay", "PrepareCommit", 7, 1, ("orders", 0), at=OLD)
    assert run(*arguments(logs)).code == 3


def test_exits_with_5_for_a_finding_in_incomplete_data(run: Run, logs: LogDirectory) -> None:
    result = run("audit", hanging(logs).write())
    assert result.code == 5
    outcome = json.loads(result.text.splitlines()[-1])
    assert (outcome["kind"], outcome["found"], outcome["complete"]) == ("outcome", True, False)
    assert outcome["missing"] == ["47 of 50 partitions of __transaction_state were not read: 3-49"]
    assert result.err == "incomplete: 47 of 50 partitions of __transaction_state were not read: 3-49\n"


def test_exits_with_4_for_an_unknown_verdict(run: Run, logs: LogDirectory) -> None:
    logs.partition("orders").data(7, at=OLD)
    result = run("audit", logs.write())
    assert result.code == 4
    assert result.err.startswith("incomplete: 47 of 50 partitions of __transaction_state were not read: 3-49 (and 1")


def test_exits_with_4_for_an_incomplete_coordinator_log(run: Run, logs: LogDirectory) -> None:
    assert run("audit", logs.write()).code == 4


def test_exits_with_4_for_damage(run: Run, logs: LogDirectory) -> None:
    logs.partition("orders").plain()
    path = Path(logs.write()) / "orders-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    result = run("audit", logs.root, "--txn-partitions", 3)
    assert result.code == 4
    assert result.err.startswith(f"incomplete: {path}: at byte ")
    assert len(result.err.splitlines()) == 1


def test_exits_with_1_for_a_missing_path(run: Run, tmp_path: Path) -> None:
    result = run("audit", tmp_path / "gone")
    assert (result.code, result.err) == (1, f"error: {tmp_path}/gone: No such file or directory\n")


def test_exits_with_1_for_a_folder_without_logs(run: Run, tmp_path: Path) -> None:
    result = run("audit", tmp_path)
    assert (result.code, result.err) == (
        1,
        f"error: {tmp_path}: no partition's log is here: give log directories, or folders that hold some\n",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        ("--engine", "flink"),
        ("--as-of", "noon"),
        ("--as-of", "1795288900"),  # seconds
        ("--txn-partitions", "0"),
        ("--format", "xml"),
        ("--max-transaction-timeout", "900000"),  # milliseconds
        ("--producer-id-expiration", "86400000"),
        ("--transactional-id-expiration", "604800000"),
    ],
)
def test_exits_with_2_for_wrong_options(run: Run, logs: LogDirectory, wrong: tuple[str, str]) -> None:
    assert run(*arguments(logs, *wrong)).code == 2


# Formats -------------------------------------------------------------------------------------------------------------


def test_json_prints_one_object(run: Run, logs: LogDirectory) -> None:
    audit = json.loads(run(*arguments(hanging(logs), "--format", "json")).out)
    assert list(audit) == [
        "as_of",
        "read",
        "findings",
        "violations",
        "damage",
        "answers",
        "unread",
        "omitted",
        "outcome",
    ]
    assert audit["outcome"] == {
        "kind": "outcome", "found": True, "hanging": 1, "stuck": 0, "blocked": 0, "complete": True, "missing": [],
    }  # fmt: skip
    assert audit["as_of"] == NOON
    (finding,) = audit["findings"]
    assert list(finding) == list(rows.field_names(rows.Finding))
    assert (finding["verdict"], finding["reason"]) == ("hanging", "transaction_ended")


def test_jsonl_lines_have_a_kind(run: Run, logs: LogDirectory) -> None:
    path = Path(hanging(logs).write()) / "orders-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + b"torn")
    lines = [json.loads(line) for line in run("audit", logs.root, "--txn-partitions", 3).out.splitlines()]
    assert [line["kind"] for line in lines] == [
        "read", "finding", "damage", *["answer"] * len(lines[0]["checks"]), "outcome",
    ]  # fmt: skip
    missing = lines[-1]["missing"]
    assert lines[-1] == {
        "kind": "outcome", "found": False, "hanging": 0, "stuck": 0, "blocked": 0, "complete": False,
        "missing": missing,
    }  # fmt: skip
    assert missing[0].startswith(f"{path}: at byte ")
    assert missing[1:] == ["orders-0, offset 2: could not be judged"]
    assert lines[0]["checks"] == list(CHECKS)
    assert lines[0]["as_of"] == NOON


def test_csv_prints_the_findings_alone(run: Run, logs: LogDirectory) -> None:
    out = run(*arguments(hanging(logs), "--format", "csv")).out.decode()
    (row,) = csv.DictReader(io.StringIO(out, newline=""))
    assert (row["topic"], row["producer_id"], row["transactional_id"]) == ("orders", "7", "pay")


def test_table_is_followed_by_the_suggested_action(run: Run, logs: LogDirectory) -> None:
    out = run(*arguments(hanging(logs), "--format", "table")).out.decode()
    table, rest = out.split("\n\n", 1)
    header, _, row = table.splitlines()
    assert header.split() == [
        "topic", "partition", "producer_id", "epoch", "start_offset", "last_timestamp", "age", "transactional_id",
        "coordinator_state", "blocks_readers", "verdict", "reason",
    ]  # fmt: skip
    assert row.split() == [
        "orders", "0", "7", "3", "2", "2025-06-16T09:00:00.000Z", "3", "h", "pay", "CompleteCommit", "yes",
        "hanging", "transaction_ended",
    ]  # fmt: skip
    assert rest.startswith(
        "Found: 1 hanging.\nAges as of 2025-06-16 12:00:00 UTC (newest time that a broker wrote, in "
    )
    checked = rest.splitlines()[2]
    assert (
        checked == f"Checked: {len(CHECKS)} rules of transactions. "
        "Violated: transaction_unknown_to_coordinator (1, listed above)."
    )
    assert "\norders-0, offset 2: hanging, transaction_ended\n  - " in rest
    assert rest.splitlines()[-1] == (
        "  => kafkawire txn abort --bootstrap-server HOST:PORT --topic orders --partition 0 --start-offset 2"
    )


def test_suggested_commands_judge_with_the_limit_that_was_given(run: Run, logs: LogDirectory) -> None:
    """With another transaction.max.timeout.ms a command would give another verdict, and refuse."""
    (finding,) = json.loads(run(*arguments(hanging(logs), "--max-transaction-timeout", 60, "--format", "json")).out)[
        "findings"
    ]
    words = shlex.split(finding["action"])
    assert words[:3] == ["kafkawire", "txn", "abort"]
    assert words[words.index("--max-transaction-timeout") + 1] == "60"
    asked = run(*words[1:], "--yes")
    assert (asked.code, asked.err) == (1, "error: bootstrap server 'HOST:PORT' is not of the form HOST:PORT\n")


def test_prints_a_sentence_instead_of_an_empty_table(run: Run, logs: LogDirectory) -> None:
    out = run(*arguments(logs, "--format", "table")).out.decode()
    assert out.startswith(
        "No transaction is open.\n"
        "  - reach: all partitions that the checkpoints and metadata logs name were read to their high watermarks (4 "
        "replicas)\n"
        "  - soundness: nothing that was read is damaged\n\n"
        "Ages as of 2025-06-16 12:00:00 UTC ("
    )


def test_incomplete_answer_is_not_headed_nothing_open(run: Run, logs: LogDirectory) -> None:
    result = run("audit", logs.write(), "--format", "table")
    assert result.code == 4
    assert result.text.startswith(
        "No open transaction was found, but not everything was read:\n"
        "  - 47 of 50 partitions of __transaction_state were not read: 3-49\n\nAges as of "
    )


def test_unread_parts_are_printed_next_to_findings(run: Run, logs: LogDirectory) -> None:
    out = run("audit", hanging(logs).write(), "--format", "table").text
    missing = "\nNot everything was read:\n  - 47 of 50 partitions of __transaction_state were not read: 3-49\n"
    assert out.index("  hanging  ") < out.index(missing) < out.index("hanging, transaction_ended")


def test_rows_that_are_not_listed_are_counted(run: Run, logs: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkawire.cli import audit as command

    more = (
        rows.Omitted(rows="finding", verdict="unknown", reason="coverage_incomplete", count=1200),
        rows.Omitted(rows="damage", reason="crc_mismatch", harmless=False, count=33),
    )
    local = command._local
    monkeypatch.setattr(command, "_local", lambda *given: replace(local(*given), omitted=more))
    table = run(*arguments(logs, "--format", "table"))
    assert table.code == 4
    assert (
        "Not listed: 1,200 unknown (coverage_incomplete).\nNot listed: 33 more damaged places.\n" in table.out.decode()
    )
    lines = map(json.loads, run(*arguments(logs)).out.splitlines())
    assert [line["count"] for line in lines if line["kind"] == "omitted"] == [1200, 33]
    assert "Not listed: 33 more damaged places." in run(*arguments(logs, "--format", "csv")).err


def test_as_of_sets_the_clock(run: Run, logs: LogDirectory) -> None:
    result = run(*arguments(hanging(logs), "--as-of", OLD + 1, "--format", "json"))
    assert result.code == 0
    assert json.loads(result.out)["findings"][0]["reason"] == "young"


def test_max_transaction_timeout_sets_the_limit(run: Run, logs: LogDirectory) -> None:
    """What is below it does not hang; three hours by a client's stamp, it is no all-clear either."""
    result = run(*arguments(hanging(logs), "--max-transaction-timeout", 300))
    (finding,) = (row for row in map(json.loads, result.out.splitlines()) if row["kind"] == "finding")
    assert (result.code, finding["verdict"], finding["reason"]) == (4, "not_hanging", "young")


def test_settings_are_printed_with_their_source(run: Run, logs: LogDirectory) -> None:
    out = run(*arguments(logs, "--producer-id-expiration", 60, "--format", "table")).out.decode()
    assert (
        "\nSettings: transaction.max.timeout.ms 900000, transactional.id.expiration.ms 604800000 (Kafka's default); "
        "producer.id.expiration.ms 3600000, transaction.state.log.num.partitions 3 (given).\n"
    ) in out
    read = json.loads(run(*arguments(logs, "--transactional-id-expiration", 1, "--format", "json")).out)["read"]
    assert {setting["name"]: setting["value"] for setting in read["settings"]} == {
        "transaction.max.timeout.ms": 900_000,
        "producer.id.expiration.ms": 86_400_000,
        "transactional.id.expiration.ms": 60_000,
        "transaction.state.log.num.partitions": 3,
    }


@pytest.mark.slow
def test_hostile_names_are_escaped(run: Run, logs: LogDirectory) -> None:
    topic = os.fsdecode(b"\x1b[2J\xffred")
    logs.partition(topic).data(7, at=OLD)
    logs.id("=cmd()\x1b[31m\u202e", "CompleteCommit", 7, 1, at=NOON)
    for format in ("table", "json", "jsonl", "csv"):
        result = run(*arguments(logs, "--format", format))
        assert result.code == 3
        assert format == "csv" or harmless(result.out.decode())
    assert "\n  - \\x1b[2J\\udcffred-0: " in run(*arguments(logs, "--format", "table")).out.decode()


# The report ----------------------------------------------------------------------------------------------------------


def test_writes_the_report_and_prints_its_path(run: Run, logs: LogDirectory, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    result = run(*arguments(hanging(logs), "--report", path, "--format", "table"))
    assert result.out.decode().endswith(f"\n\nReport: {path}\n")
    assert "<h1>1 hanging transaction</h1>" in path.read_text("utf-8")


def test_writes_the_report_to_standard_output(run: Run, logs: LogDirectory) -> None:
    result = run(*arguments(logs, "--report", "-"))
    assert result.out.startswith(b"<!doctype html>")
    assert result.code == 0


def test_exits_with_1_when_the_report_cannot_be_written(run: Run, logs: LogDirectory, tmp_path: Path) -> None:
    result = run(*arguments(hanging(logs), "--report", tmp_path / "no" / "folder"))
    assert (result.code, result.err) == (1, f"error: {tmp_path}/no/folder: No such file or directory\n")


# Real logs and Spark -------------------------------------------------------------------------------------------------


def test_finds_the_hanging_transactions_of_real_logs(run: Run) -> None:
    result = run("audit", EXAMPLES / "one-node", "--format", "json")
    assert result.code == 3
    assert json.loads(result.out)["read"]["complete"]


def test_rejects_master_without_spark(run: Run) -> None:
    result = run("audit", EXAMPLES / "one-node", "--master", "local[1]")
    assert result.code == 2
    assert "--master needs --engine spark" in result.err


@pytest.mark.spark
def test_missing_java_is_reported_with_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from pyspark.sql import SparkSession

    from kafkawire.errors import MissingExtraError
    from kafkawire.spark.session import sessions

    def missing() -> str:
        raise MissingExtraError("Spark", "spark-jre")

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "java_home", missing)
    result = run("audit", EXAMPLES / "one-node", "--engine", "spark")
    assert result.code == 1
    assert result.err == f'error: Spark needs the "spark-jre" extra: {install_command("spark-jre")}\n'


def test_exits_with_4_for_a_log_truncated_while_read(
    run: Run, logs: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction has ended, and the marker is in the lost part: it is not hanging by that."""
    orders = logs.partition("orders")
    (_, data) = orders.segments[0]
    size = len(data)
    given = arguments(logs)
    cut = len(build([Record(key=b"k", value=b"v0", timestamp=OLD)], transactional=True, producer_id=1))
    cut_when_read(monkeypatch, orders.directory / f"{0:020}.log", cut)
    result = run(*given, "--format", "json")
    assert result.code == 4
    found = json.loads(result.out)
    assert [(one["verdict"], one["reason"]) for one in found["findings"]] == [("unknown", "coverage_incomplete")]
    assert [one["detail"] for one in found["damage"]] == [f"ended at {cut}, was {size} when opened"]


@pytest.mark.slow
@pytest.mark.parametrize("number", ["9" * 5000, "9" * 500, "9" * 30, str(1 << 63)])
@pytest.mark.parametrize(
    "option",
    [
        "--as-of",
        "--max-transaction-timeout",
        "--producer-id-expiration",
        "--transactional-id-expiration",
        "--txn-partitions",
    ],
)
def test_exits_with_2_for_numbers_out_of_range(run: Run, logs: LogDirectory, option: str, number: str) -> None:
    result = run("audit", logs.write(), f"{option}={number}")
    assert result.code == 2
    assert "unexpected" not in result.err


def test_accepts_the_largest_partition_count(run: Run, logs: LogDirectory) -> None:
    result = run("audit", logs.write(), "--txn-partitions", str(MOST_PARTITIONS))
    assert "99997 of 100000 partitions of __transaction_state were not read: 3-99999" in result.err
    assert run("audit", logs.write(), "--txn-partitions", str(MOST_PARTITIONS + 1)).code == 2


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 30, "2147483648"])
def test_invalid_node_id_is_damage_of_its_file(run: Run, logs: LogDirectory, number: str) -> None:
    given = arguments(logs)
    (logs.root / "meta.properties").write_text(f"version=1\nnode.id={number}\n")
    result = run(*given)
    assert result.code == 4
    assert "node.id is no broker's id" in result.err


def test_reads_with_as_many_processes_as_asked_for(run: Run, logs: LogDirectory) -> None:
    expected = run(*arguments(logs)).out
    assert run(*arguments(logs, "--jobs", 1)).out == expected
    assert run(*arguments(logs, "--jobs", 2)).out == expected
    assert run(*arguments(logs, "--jobs", 0)).code == 2
    refused = run(*arguments(logs, "--jobs", 2, "--engine", "spark"))
    assert refused.code == 2
    assert "--jobs needs --engine local" in refused.err


@pytest.mark.slow
def test_all_shipped_log_directories_are_whole(run: Run) -> None:
    done = run("audit", "examples", "--format", "json")
    assert done.code == 3
    assert json.loads(done.text)["read"]["gaps"] == []

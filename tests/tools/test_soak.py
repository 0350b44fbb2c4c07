"""tools.soak: every loss is counted, every growth is seen, and a short run beside a real broker is clear."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import golden

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import pyarrow as pa
from msgspec.structs import replace

from tools.broker import RunningCluster
from tools.polling import until
from tools.recordings import RecordingError
from tools.recordings.tcpdump import recording
from tools.soak import __main__ as command
from tools.soak.capture_process import CaptureProcess
from tools.soak.child_process import SoakError, child
from tools.soak.comparison import capture_counts, stream_counts, watch_counts
from tools.soak.hang_maker import HangingTransaction, HangingTransactions, TransactionKey, WatchProcess
from tools.soak.memory_samples import descendants, on_disk, series_of, state_of
from tools.soak.producer_load import KEY, ProducerTotals, RequestTotals
from tools.soak.soak_results import FLAT_BYTES, ComparedCounts, Figure, MemorySeries, SoakResults, markdown
from tools.soak.soak_run import SoakPlan, SoakState, recording_failures, soak

pytestmark = pytest.mark.slow

MIB = 1 << 20
HUNG = HangingTransaction(TransactionKey("soak", 0, 77), offset=4, records=1)


def wrong(counts: list[ComparedCounts]) -> set[str]:
    return {count.what.partition(": ")[2] for count in counts if not count.agrees}


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "flat"),
    [
        (lambda second: 50 * MIB, True),
        (lambda second: 50 * MIB + (second % 7) * MIB, True),  # goes up and down
        (lambda second: min(second, 300) * MIB / 3, True),  # builds something up, and has it then
        (lambda second: 50 * MIB + second * 1800, True),  # less than 2 MiB
        (lambda second: 50 * MIB + second * 4000, False),
        (lambda second: 50 * MIB + (second % 7) * MIB + second * 8000, False),
        (lambda second: 500 * MIB + second * 4000, True),  # less than 3 %
        (lambda second: 500 * MIB + second * 40_000, False),
        (lambda second: 500 * MIB - second * 40_000, True),
    ],
)
def test_growth_is_the_slope_of_the_samples(size: Callable[[int], float], flat: bool) -> None:
    series = series_of("x", [(second, size(second)) for second in range(3, 1200, 5)])
    assert series.flat == flat
    assert series.judged
    assert series.most == max(size(second) for second in range(3, 1200, 5))


def test_line_ignores_samples_of_the_warm_up() -> None:
    series = series_of("x", [(second, 1000.0 if second < 300 else 20 * second) for second in range(0, 901, 100)])
    assert series.slope == pytest.approx(20 * 60)
    assert series.rise == pytest.approx(20 * 600)
    assert series.mean == pytest.approx(20 * 600)
    assert series.flat == (series.rise <= FLAT_BYTES)


def test_samples_processes_of_this_machine() -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc")
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.pid in descendants(os.getpid())
        resident, threads, files = state_of(process.pid) or (0, 0, 0)
        assert resident > MIB
        assert threads == 1
        assert files >= 3
        process.communicate(b"\n")
    assert state_of(process.pid) is None


def test_measures_bytes_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(os.urandom(3 * MIB))
    assert 3 * MIB <= on_disk(tmp_path) < 4 * MIB


# What librdkafka sent -------------------------------------------------------------------------------------------------


def statistics(**brokers: tuple[int, int, int]) -> str:
    """By broker: Produce requests, responses, what it waits for."""
    return json.dumps(
        {
            "brokers": {
                name: {"req": {"Produce": sent, "Fetch": 0}, "tx": sent, "rx": got, "outbuf_cnt": 0, "waitresp_cnt": n}
                for name, (sent, got, n) in brokers.items()
            }
        }
    )


def test_counters_continue_over_restarts_of_brokers() -> None:
    sent = RequestTotals()
    for text in (
        statistics(a=(3, 3, 0), b=(5, 4, 1)),
        statistics(a=(4, 4, 0)),
        statistics(a=(6, 6, 0), b=(1, 1, 0)),
        statistics(a=(2, 1, 1), b=(1, 1, 0)),
    ):
        sent.take(text)
    assert sent.quiet == 0
    sent.take(statistics(a=(2, 2, 0), b=(1, 1, 0)))
    sent.take(statistics(a=(2, 2, 0), b=(1, 1, 0)))
    assert sent.quiet == 1
    sent.end()
    assert sent.requests == {"Produce": 6 + 5 + 2 + 1}
    assert sent.responses == 6 + 4 + 2 + 1


# What the stream read -------------------------------------------------------------------------------------------------

#: Of one partition: offset, control, key, error.
ROWS: list[tuple[int | None, str | None, bytes | None, str | None]] = [
    (0, None, KEY.pack(100), None),
    (1, None, KEY.pack(101), None),
    (2, "COMMIT", b"\0\0\0\1", None),
    (3, None, KEY.pack(102), None),
    (4, None, b"0", None),
    (5, "ABORT", b"\0\0\0\0", None),
    (6, "ABORT", b"\0\0\0\0", None),
]
#: A record whose producer did not learn of its fate.
IN_DOUBT = 999


def wrote() -> ProducerTotals:
    return ProducerTotals(
        offsets={0: array("q", [0, 1, 3])},
        numbers={0: array("q", [100, 101, 102])},
        unknown={IN_DOUBT},
        markers=Counter({(0, "COMMIT"): 1, (0, "ABORT"): 1}),
    )


def streamed(rows: list[tuple[int | None, str | None, bytes | None, str | None]]) -> list[ComparedCounts]:
    columns: Any = list(zip(*((0, *row) for row in rows), strict=True))
    table = pa.table(
        {
            "partition": pa.array(columns[0], pa.int32()),
            "offset": pa.array(columns[1], pa.int64()),
            "control": pa.array(columns[2], pa.string()),
            "key": pa.array(columns[3], pa.binary()),
            "error": pa.array(columns[4], pa.string()),
        }
    )
    return stream_counts(table, wrote(), [HUNG], {0: 7}, Counter(records=4, COMMIT=1, ABORT=2))


def test_complete_stream_has_equal_counts() -> None:
    assert wrong(streamed(ROWS)) == set()


@pytest.mark.parametrize(
    ("rows", "differ"),
    [
        (ROWS[1:], {"records at their offsets", "records in all", "offsets"}),
        ([*ROWS, ROWS[1]], {"records in all", "rows that came again"}),
        (ROWS[:4] + ROWS[5:], {"records of hangs", "records in all", "offsets"}),
        (ROWS[:2] + ROWS[3:], {"COMMIT markers", "COMMIT markers of transactions", "offsets"}),
        (ROWS[:6], {"ABORT markers", "ABORT markers of transactions", "offsets"}),
        ([*ROWS, (6, "ABORT", b"\0\0\0\0", None)], {"ABORT markers", "rows that came again"}),
        ([(0, None, KEY.pack(55), None), *ROWS[1:]], {"records at their offsets", "records that no producer wrote"}),
        ([(0, None, KEY.pack(IN_DOUBT), None), *ROWS[1:]], {"records at their offsets"}),
        ([*ROWS, (7, None, KEY.pack(IN_DOUBT), None)], {"records in all", "rows that came again"}),
        ([*ROWS, (None, None, None, "damaged")], {"rows with an error"}),
    ],
)
def test_lost_or_invented_records_are_counted(rows: list[Any], differ: set[str]) -> None:
    assert wrong(streamed(rows)) == differ


# What the watch reported ----------------------------------------------------------------------------------------------


def change(what: str, verdict: str = "hanging", producer_id: int = 77) -> dict[str, Any]:
    finding = {"verdict": verdict, "topic": "soak", "partition": 0, "producer_id": producer_id, "reason": "?"}
    return {"kind": "change", "poll": 1, "time": 0, "change": what, "subject": "?", "finding": finding}


def poll(number: int) -> dict[str, Any]:
    return {"kind": "poll", "poll": number, "time": 0, "outcome": "complete", "missed": 1}


LOST = {"kind": "change", "poll": 1, "time": 0, "change": "lost", "subject": "broker 1", "text": "?"}


@pytest.mark.parametrize(
    ("lines", "differ"),
    [
        ([change("appeared"), poll(1), LOST, poll(2), change("gone"), poll(3)], set()),
        ([change("appeared", "unknown"), change("changed"), poll(1), change("gone")], set()),
        ([poll(1), change("gone")], {"hangs that were reported once"}),
        ([change("appeared"), poll(1)], {"hangs whose end was reported once"}),
        (
            [change("appeared"), change("changed", "unknown"), change("changed"), poll(1), change("gone")],
            {"hangs that were reported once"},
        ),
        (
            [change("appeared"), change("gone"), change("appeared"), change("gone"), poll(1)],
            {"hangs that were reported once", "hangs whose end was reported once"},
        ),
        (
            [change("appeared"), change("appeared", producer_id=1), poll(1), change("gone")],
            {"transactions reported as hanging that are not"},
        ),
        ([change("appeared"), poll(1), poll(3), change("gone")], {"polls reported"}),
    ],
)
def test_counts_reports_of_a_watch(lines: list[dict[str, Any]], differ: set[str]) -> None:
    found = WatchProcess()
    for line in lines:
        found.take(json.dumps(line).encode())
    hangs = HangingTransactions(None, found, "soak", 1, Path(), made=[HUNG], scraped=1)  # type: ignore[arg-type]
    assert wrong(watch_counts(found, hangs)) == differ


def test_scrapes_the_number_of_hanging_transactions() -> None:
    found = WatchProcess()
    for line, hanging in ((change("appeared"), True), (change("changed", "unknown"), False), (change("changed"), True)):
        found.take(json.dumps(line).encode())
        assert found.is_hanging(HUNG.place) == hanging
    found.take(json.dumps(change("gone")).encode())
    assert not found.is_hanging(HUNG.place)
    assert found.has_ended(HUNG.place)


# What the capture read ------------------------------------------------------------------------------------------------


def exchange(api: str, client: str, *, answered: bool = True, problem: str | None = None) -> dict[str, Any]:
    return {
        "kind": "exchange",
        "api": api,
        "client_id": client,
        "request_bytes": 10,
        "response_bytes": 10 if answered else None,
        "problem": problem,
    }


CAPTURED = [
    exchange("ApiVersions", "soak-0"),
    exchange("ApiVersions", "soak-0"),
    exchange("Produce", "soak-0"),
    exchange("Produce", "soak-1", answered=False, problem="no response was captured"),
    exchange("Fetch", "another-client"),
    exchange("InitProducerId", "kafkawire-examples"),
]


@pytest.mark.parametrize(
    ("captured", "dropped", "differ"),
    [
        (CAPTURED, 0, set()),
        (CAPTURED, 3, {"packets dropped by the kernel"}),
        (CAPTURED[1:], 0, set()),
        (CAPTURED[2:], 0, {"ApiVersions requests of the producers", "responses to the producers"}),
        (
            CAPTURED[:2] + CAPTURED[3:],
            0,
            {"Produce requests of the producers", "producers and APIs of these whose requests differ"},
        ),
        # As many in all, and yet not the same.
        (
            [*CAPTURED[:3], exchange("Produce", "soak-0"), *CAPTURED[4:]],
            0,
            {"producers and APIs of these whose requests differ"},
        ),
        (CAPTURED[:-1], 0, {"exchanges of the client that made hangs"}),
    ],
)
def test_counts_losses_of_a_capture(
    tmp_path: Path, captured: list[dict[str, Any]], dropped: int, differ: set[str]
) -> None:
    found = CaptureProcess(tmp_path / "traffic.pcap")
    found.dropped = dropped
    for line in captured:
        found.take(json.dumps(line).encode())
    sent = ProducerTotals(
        requests=Counter({("soak-0", "ApiVersions"): 1, ("soak-0", "Produce"): 1, ("soak-1", "Produce"): 1}),
        responses=Counter({"soak-0": 2}),
    )
    hangs = HangingTransactions(None, WatchProcess(), "soak", 1, tmp_path, exchanges=1)  # type: ignore[arg-type]
    assert wrong(capture_counts(found, sent, hangs)) == differ


# Processes ------------------------------------------------------------------------------------------------------------


def ends_badly(folder: Path, script: str) -> str:
    """The error for a process that runs this."""
    lines: list[Any] = []
    with child("a reader", [sys.executable, "-c", script], folder, lambda line: lines.append(json.loads(line))) as one:
        with pytest.raises(SoakError) as captured:
            until(one.check, "the end", seconds=60)
        return str(captured.value)


def test_process_that_exits_early_is_an_error(tmp_path: Path) -> None:
    captured = ends_badly(tmp_path / "x", "import sys; print(1); sys.exit('no more disk')")
    assert captured == "a reader has ended with 1: no more disk"


def test_unexpected_output_of_a_process_is_an_error(tmp_path: Path) -> None:
    captured = ends_badly(tmp_path / "x", "print('Traceback', flush=True); input()")
    assert captured.startswith("a reader printed what cannot be read: Expecting value")


def test_block_ends_the_process_and_its_children(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()']).pid, flush=True); input()"
    )
    lines: list[bytes] = []
    with child("a parent", [sys.executable, "-c", script], tmp_path / "x", lines.append) as parent:
        until(lambda: bool(lines) or None, "its child", seconds=60)
        assert parent.process.poll() is None
    assert parent.process.poll() is not None
    until(lambda: _is_gone(int(lines[0])) or None, "the end of its child", seconds=60)


def _is_gone(pid: int) -> bool:
    """Whether it ended; its status may not have been collected."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_recorded_problem_does_not_stop_the_run() -> None:
    results = SoakState()
    for error in (SoakError("first"), OSError(2, "second"), KeyboardInterrupt()):
        with recording_failures(results):
            raise error
    assert results.failures == ["first", "[Errno 2] second", "it was interrupted"]
    with pytest.raises(AssertionError), recording_failures(results):
        raise AssertionError("a mistake of ours")


# The page -------------------------------------------------------------------------------------------------------------

FLAT = MemorySeries(
    name="txn watch", samples=360, mean=50 * MIB, most=51 * MIB, slope=1024, rise=20480, flat=True, judged=True
)
FOUND = SoakResults(
    command="python -m tools.soak --minutes 30",
    date="2026-11-21 22:00 UTC",
    versions={"kafkawire": "abcdef0, native engine", "Kafka": "4.4.0"},
    machine="Some CPU, 2 cores, 24 GB; Linux 6.1",
    nodes=3,
    producers=8,
    minutes=30.2,
    every_s=5,
    whole=True,
    counts=(
        ComparedCounts(what="capture: Produce requests", expected=54321, found=54321, by="librdkafka's statistics"),
        ComparedCounts(what="stream: COMMIT markers", expected=1000, at_least=True, found=1002, by="producers"),
    ),
    figures=(Figure(what="transactions committed", value="12,345"),),
    series=(
        replace(FLAT, threads=2, files=11, points=tuple((i, (50 + i // 7) * MIB) for i in range(12))),
        replace(FLAT, name="Spark JVM", rise=500.0 * MIB, slope=25.0 * MIB, flat=False, judged=False),
    ),
)


def test_page_matches_the_golden_file() -> None:
    lost = ComparedCounts(what="capture: EndTxn requests", expected=7, found=6, by="librdkafka's statistics")
    bad = replace(
        FOUND,
        nodes=1,
        whole=False,
        counts=(*FOUND.counts, lost),
        series=(replace(FLAT, name="capture --follow", rise=9.0 * MIB, slope=0.45 * MIB, flat=False),),
        failures=("it was interrupted",),
    )
    golden.check("soak/clear.md", markdown(FOUND))
    golden.check("soak/found.md", markdown(bad))


def test_saved_run_is_written_to_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "performance.md"
    page.write_text("# How fast it is\n")
    monkeypatch.setattr(command, "PAGE", page)
    kept = tmp_path / "kept.json"
    kept.write_bytes(msgspec.json.encode(FOUND))
    assert command.main(["--from", str(kept), "--write", "--json", str(tmp_path / "again.json")]) == 0
    assert page.read_text() == f"# How fast it is\n\n<!-- soak -->\n{markdown(FOUND).strip()}\n<!-- /soak -->\n"
    assert msgspec.json.decode((tmp_path / "again.json").read_bytes(), type=SoakResults) == FOUND
    assert "54,321" in capsys.readouterr().out
    kept.write_bytes(msgspec.json.encode(replace(FOUND, whole=False)))
    assert command.main(["--from", str(kept)]) == 3
    kept.write_bytes(b"[]")
    assert command.main(["--from", str(kept)]) == 1
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "clear"),
    [
        (FOUND, True),
        (replace(FOUND, whole=False), False),
        (replace(FOUND, failures=("x",)), False),
        (replace(FOUND, counts=(ComparedCounts(what="x", expected=1, found=2, by="y"),)), False),
        (replace(FOUND, counts=(ComparedCounts(what="x", expected=2, at_least=True, found=1, by="y"),)), False),
        (replace(FOUND, series=(replace(FLAT, flat=False),)), False),
    ],
)
def test_run_without_differences_is_clear(found: SoakResults, clear: bool) -> None:
    assert found.clear == clear


@pytest.mark.parametrize("words", [["--minutes=-1"], ["--minutes", "nan"], ["--nodes", "0"], ["--rate", "inf"]])
def test_rejects_invalid_amounts(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(words)
    assert f"invalid positive_{'int' if words[0] == '--nodes' else 'float'} value" in capsys.readouterr().err


# A short run ----------------------------------------------------------------------------------------------------------


@pytest.mark.broker
@pytest.mark.usefixtures("terminal_signals")
def test_short_run_has_equal_counts(broker: RunningCluster, tmp_path: Path) -> None:
    """Without Spark, which has tests of its own; the memory of a few seconds is not significant."""
    if shutil.which("tcpdump") is None:
        pytest.skip("no tcpdump")
    try:
        with recording(tmp_path / "probe.pcap", broker.nodes[0].port):
            pass
    except RecordingError as error:
        pytest.skip(str(error))
    plan = SoakPlan(seconds=0.1, producers=2, rate=20, partitions=2, watch_every_s=1, sample_every_s=0.2, spark=False)
    captured: list[str] = []
    found = soak(broker, plan, tmp_path / "run", command="a test", notify=captured.append)
    assert found.failures == ()
    assert wrong(list(found.counts)) == set()
    assert found.whole
    counts = {count.what: count.found for count in found.counts}
    assert counts["txn watch: hangs that were reported once"] == 1
    assert counts["txn watch: hangs whose end was reported once"] == 1
    assert counts["capture: Produce requests of the producers"] > 0
    assert {series.name for series in found.series} >= {"txn watch", "capture --follow"}
    assert len(captured) == 2

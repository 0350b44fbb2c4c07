"""What tools.bench makes of a run: cells, goals, and the page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from tests import golden
from tools.bench import __main__ as command
from tools.bench.bench_report import absences, markdown, show
from tools.bench.goals import GOALS, Goal, at_least, at_most, judge, least, mean, milliseconds, peak, quotient
from tools.bench.results import AbsentContestant, BenchRun, Machine, MemoryUse, Peak, Result, Timing
from tools.pages import write_section

pytestmark = pytest.mark.slow

N, P = "kafkawire native", "kafkawire python"


def timing(name: str, *seconds: float) -> Timing:
    return Timing(contestant=name, ours=name.startswith("kafkawire"), seconds=seconds, process=seconds[0], times=7)


def result(key: str, title: str, *timings: Timing, items: int = 1, **more: object) -> Result:
    table = key.partition("/")[0] if key.startswith("dump/") else key.rpartition("/")[0]
    return Result(key=key, table=table, title=title, unit="message", items=items, size=100, timings=timings, **more)  # type: ignore[arg-type]


RUN = BenchRun(
    machine=Machine(
        processor="Some CPU",
        cores=2,
        memory=24 * 2**30,
        system="Linux 6.1",
        versions={"kafkawire": "abcdef0", "Python": "3.11.7", "Java": 'openjdk version "17"'},
        date="2026-11-21 16:30 UTC",
        command="make bench",
        load=(0.5, 1.25),
        minutes=12.4,
    ),
    rounds=4,
    results=(
        result(
            "decode/A",
            "A v0",
            timing(N, 1e-6, 2e-6, 3e-6, 2e-6),
            timing(P, 8e-6, 8e-6, 8e-6, 8e-6),
            timing("kio", 4e-6, 4e-6, 4e-6, 4e-6),
            timing("Java", 1.5e-7),
            memory=(
                MemoryUse(contestant=N, retained=12345, blocks=67, taken=20000),
                MemoryUse(contestant="Java", retained=500, blocks=0, taken=600),
            ),
        ),
        result(
            "decode/B",
            "B v1",
            timing(N, 1e-3),
            timing(P, 0.25),
            absent=(AbsentContestant(contestant="kio", why="kio has no B v1"),),
        ),
        result("records/columns/none", "none", timing(N, 0.004), timing("Java", 0.002), items=80_000),
        result("dump/deep/none", "records, none", timing(N, 1.0), timing("kafka-dump-log", 1.4), items=500_000),
        result("startup/import", "import", timing(N, 0.0004)),
    ),
    peaks=(Peak(title="dump", contestant=N, size=2 << 30, peak=150_000_000),),
)


def test_page_matches_the_golden_file() -> None:
    golden.check("bench/performance.md", markdown(RUN))


def test_run_can_be_saved_and_read() -> None:
    assert msgspec.json.decode(msgspec.json.encode(RUN), type=BenchRun) == RUN


def test_spread_is_the_interquartile_range() -> None:
    times = timing(N, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert (times.median, times.spread) == (3.0, 2.0 / 3.0)
    assert timing(N, 1.0).spread == 0


def test_every_goal_that_is_not_met_has_a_reason() -> None:
    assert all(isinstance(goal.why(RUN), str) for goal in GOALS if goal.why is not None)


def test_goals_are_judged() -> None:
    goals = (
        Goal("mean", mean("decode", N, "kio"), at_least(2)),
        Goal("least", least("decode", N, P), at_least(5)),
        Goal("columns", quotient("records/columns/none", "Java", N), at_most(1.5)),
        Goal("import", milliseconds("startup/import", N), at_most(15), "{:.1f} ms"),
        Goal("memory", peak("dump", 2 << 30), at_most(200), "{:.0f} MB"),
        Goal("more memory", peak("dump", (2 << 30) + 1), at_most(200)),
        Goal("Parquet", quotient("dump/parquet/none", N, "kafka-dump-log", "dump/deep/none"), at_least(5)),
        Goal("no kio in B", quotient("decode/B", N, "kio"), at_least(1)),
    )
    assert [(goal.text, goal.value, goal.verdict) for goal in judge(RUN, goals)] == [
        ("mean", "2.00×", "met"),
        ("least", "4.00×", "**not met**"),
        ("columns", "2.00×", "**not met**"),
        ("import", "0.4 ms", "met"),
        ("memory", "150 MB", "met"),
        ("more memory", "–", "not measured"),
        ("Parquet", "–", "not measured"),
        ("no kio in B", "–", "not measured"),
    ]


def test_absences_with_one_reason_are_joined() -> None:
    gone = tuple(AbsentContestant(contestant="Java", why="no java") for _ in range(1))
    many = tuple(msgspec.structs.replace(found, absent=gone) for found in RUN.results[:4])
    assert absences(msgspec.structs.replace(RUN, results=many)) == ["Java: no java (4 cases)"]
    assert absences(RUN) == ["kio: kio has no B v1 (decode: B v1)"]


def test_terminal_shows_the_results() -> None:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show(RUN, console)
    text = console.export_text()
    assert "2.00 µs ±25% (1.00×)" in text
    assert "left out: kio: kio has no B v1 (decode: B v1)" in text


def test_saved_run_is_written_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, page = tmp_path / "run.json", tmp_path / "performance.md"
    kept.write_bytes(msgspec.json.encode(RUN))
    monkeypatch.setattr(command, "PAGE", page)
    assert command.main(["--from", str(kept), "--write"]) == 0
    assert page.read_text() == markdown(RUN)
    write_section(page, "soak", "## Hours on end")
    assert command.main(["--from", str(kept), "--write"]) == 0
    assert page.read_text() == markdown(RUN) + "\n<!-- soak -->\n## Hours on end\n<!-- /soak -->\n"


def test_missing_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--from", str(tmp_path / "run.json")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_page_contains_no_local_path() -> None:
    words = ["--only", "dump/deep", "--rounds", "7", "--json", "/home/me/run.json", "--large", "--write"]
    shown = "--only dump/deep --rounds 7 --seconds 0.02 --budget 6 --large --write"
    assert " ".join(command.stated(command.parse_arguments(words))) == shown

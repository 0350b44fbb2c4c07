"""What the benches share: commands that are measured, contestants that take turns, and sections of a page."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pytest

from tools.bench import page_sections
from tools.bench.job import AbsentError
from tools.bench.measured_commands import CommandError, least_processor_time, run, users_environment
from tools.bench.measurement import BenchError
from tools.bench.page_sections import integer, section_main
from tools.bench.turns import Cost, in_turn, timings

WORK = "sum(range(10**6)); print('answer')"


def test_a_command_has_its_times_and_what_it_printed() -> None:
    done = run([sys.executable, "-c", WORK])
    assert (done.printed, done.errors) == (b"answer\n", "")
    assert done.processor > 0
    assert 0 < done.seconds < 60
    assert least_processor_time([sys.executable, "-c", WORK], users_environment(), 2, (0,)) > 0


def test_another_exit_code_is_an_error_with_the_last_line() -> None:
    command = [sys.executable, "-c", "import sys; print('a', file=sys.stderr); sys.exit('b')"]
    with pytest.raises(CommandError, match=r"\Ab\Z") as caught:
        run(command)
    assert caught.value.whole.endswith("ended with 1: a\nb")
    assert run(command, codes=(1,)).errors == "a\nb\n"
    with pytest.raises(CommandError, match="it ended with 3"):
        run([sys.executable, "-c", "raise SystemExit(3)"])


def test_an_engine_that_is_not_installed_is_no_failure() -> None:
    with pytest.raises(AbsentError, match="the native engine is not installed"):
        run([sys.executable, "-c", "raise SystemExit('the native engine is not installed')"])


def test_variables_of_developers_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("KEPT", "1")
    found = users_environment(MORE="2")
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert (found["KEPT"], found["MORE"]) == ("1", "2")


def test_contestants_take_turns_and_the_first_turn_does_not_count() -> None:
    calls: list[str] = []

    def costing(name: str, seconds: float) -> Cost:
        calls.append(name)
        if name == "c" and len(calls) > 3:
            raise AbsentError("gone")
        return Cost(seconds + len(calls), 2 * seconds)

    runs = {name: lambda name=name: costing(name, 10) for name in "abc"}
    found, absent = in_turn(runs, 2)
    assert calls == list("abcabcab")
    assert found == {"a": [Cost(14, 20), Cost(17, 20)], "b": [Cost(15, 20), Cost(18, 20)]}
    assert [(one.contestant, one.why) for one in absent] == [("c", "gone")]
    first, second = timings(found, {"b"})
    assert (first.contestant, first.ours, first.seconds, first.process) == ("a", False, (14, 17), 20)
    assert second.ours


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (path := tmp_path / "page.md").write_text("# Page\n")
    monkeypatch.setattr(page_sections, "PAGE", path)
    return path


def test_a_section_is_printed_and_written_if_asked_to(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(given: Namespace) -> str:
        return f"## Of {given.rounds}"

    for words, text in (([], "# Page\n"), (["--write"], "# Page\n\n<!-- a-b -->\n## Of 7\n<!-- /a-b -->\n")):
        monkeypatch.setattr(sys, "argv", ["x", *words])
        assert section_main("a-b", "About it.\n\nMore.", measure, {"--rounds": integer(7, "rounds")}) == 0
        assert page.read_text() == text
        assert capsys.readouterr().out == "## Of 7\n"


def test_a_bench_that_fails_writes_nothing(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Namespace) -> str:
        raise BenchError("no answer")

    monkeypatch.setattr(sys, "argv", ["x", "--write"])
    assert section_main("a", "About it.", fail, {}) == 1
    assert capsys.readouterr().err == "error: no answer\n"
    assert page.read_text() == "# Page\n"

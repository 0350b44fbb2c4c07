"""`main`: errors become one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer

import kafkawire
from kafkawire import cli
from kafkawire.cli import COMMANDS, main
from kafkawire.errors import DecodeError, Problem, SchemaError
from tests.cli.runner import Run

WHERE = "(KAFKAWIRE_DEBUG=1 shows where)"


@pytest.fixture
def failing(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], Any]:
    """Runs a command that raises."""

    def runner(error: BaseException) -> Any:
        def command() -> None:
            print("before")
            raise error

        def load(name: str) -> Any:
            module = type(sys)(name)
            module.register = lambda app: app.command("decode")(command)  # type: ignore[attr-defined]
            return module

        monkeypatch.setattr(cli, "import_module", load)
        monkeypatch.setattr(cli, "_commands", cli._commands.__wrapped__)  # not those that were built already
        return run("decode")

    return runner


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (DecodeError(expected="a", found="\x1b", offset=3), 1, "error: at byte 3: expected a, found \\x1b\n"),
        (SchemaError([Problem("a", "b", "c\n"), Problem("d", "", "e")]), 1, "error: a: b: c\\n\nerror: d: e\n"),
        (FileNotFoundError(2, "No such file or directory", "a\x1b"), 1, "error: a\\x1b: No such file or directory\n"),
        (OSError("odd"), 1, "error: odd\n"),
        (ZeroDivisionError("what\nelse"), 1, f"error: unexpected ZeroDivisionError: what\\nelse {WHERE}\n"),
        (MemoryError(), 1, f"error: unexpected MemoryError:  {WHERE}\n"),
        (typer.BadParameter("no"), 2, "error: no\n"),
        (typer.Exit(4), 4, ""),
        (typer.Abort(), 130, ""),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_errors_print_one_line_and_set_the_exit_code(
    failing: Callable[[BaseException], Any], error: BaseException, code: int, line: str
) -> None:
    result = failing(error)
    assert (result.code, result.out, result.err.replace(" (kafkawire decode --help)", "")) == (code, b"before\n", line)


def test_debug_variable_prints_a_traceback(
    failing: Callable[[BaseException], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKAWIRE_DEBUG", "1")
    with pytest.raises(AssertionError, match="Traceback"):
        failing(ZeroDivisionError())


def test_version_is_printed(run: Run) -> None:
    assert run("--version").text == f"kafkawire {kafkawire.__version__} ({kafkawire.backend} backend)\n"


@pytest.mark.slow
def test_help_lists_the_commands(run: Run) -> None:
    text = run("--help").text
    assert all(f"\n  {command} " in text for command in COMMANDS)
    for command in COMMANDS:
        assert f"Usage: kafkawire {command}" in run(command, "--help").text
        assert run(command, "-h").out == run(command, "--help").out


@pytest.mark.parametrize("group", [[], ["schema"]])
def test_group_without_command_prints_help_as_a_usage_error(run: Run, group: list[str]) -> None:
    result = run(*group)
    assert (result.code, result.out) == (2, b"")
    assert result.err.startswith("Usage: kafkawire")


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["--nonsense"], ["decode", "--nonsense"], ["schema", "x\x1b"], ["decode", "a", "b", "c"]],
)
def test_invalid_arguments_are_usage_errors(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert "\x1b" not in result.err


def test_main_uses_sys_argv(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kafkawire", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("kafkawire ")

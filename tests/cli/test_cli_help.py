"""What each command's help says: every one has examples, and they are right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from kafkawire.cli import app
from tests.cli.runner import Run
from tests.docs.guide import commands, parse


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that name each command that is shown in a help."""
    if not hasattr(command, "list_commands"):
        yield words
        return
    for name in command.list_commands(None):
        inner = command.get_command(None, name)
        if not inner.hidden:
            yield from leaves(inner, (*words, name))


COMMANDS = list(leaves(get_command(app)))


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_examples_are_valid_commands(run: Run, words: tuple[str, ...]) -> None:
    shown = run(*words, "--help")
    assert shown.code == 0
    description = shown.text.partition("\nArguments:\n")[0].partition("\nOptions:\n")[0]
    examples = list(commands(description))
    assert any(tuple(example[: len(words)]) == words for example in examples), "no example"
    for example in examples:
        parse(example)


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_parquet_is_offered_where_a_file_can_be_named(run: Run, words: tuple[str, ...]) -> None:
    options = run(*words, "--help").text.partition("\nOptions:\n")[2]
    assert ("|parquet" in options) == ("--output" in options and "--format" in options)


def test_a_frame_needs_no_name(run: Run) -> None:
    assert run("decode", "--help").text.startswith("Usage: kafkawire decode [OPTIONS] [NAME] [HEX|FILE|-]")
    missing = run("decode", "--frame")
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert "give a message's NAME" in missing.err


@pytest.mark.parametrize("group", ["", "txn", "schema"])
def test_summary_of_a_command_is_a_sentence(run: Run, group: str) -> None:
    lines = run(*group.split(), "--help").text.partition("\nCommands:\n")[2].splitlines()
    assert len(lines) >= 7
    assert all(re.fullmatch(r"  [a-z-]+ +[A-Z].{20,}[^.][.?]", line) for line in lines), lines


def test_lists_commands() -> None:
    assert ("txn", "abort") in COMMANDS
    assert ("schema", "show") in COMMANDS
    assert len(COMMANDS) >= 19

"""Options that are given twice: those of one value are refused by every command, none is dropped without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.cli import _commands
from kafkawire.cli.usage_errors import UsageError
from tests.cli.runner import Run


def contexts(command: Any, words: tuple[str, ...] = (), parent: Any = None) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, groups and hidden ones too, with its words and a context."""
    context = command.make_context("kafkawire", [], resilient_parsing=True, parent=parent)
    for name in getattr(command, "list_commands", lambda context: [])(context):
        yield from contexts(command.get_command(context, name), (*words, name), context)
    yield words, context


def options(*, single: bool) -> list[tuple[str, ...]]:
    """The words of commands, each with an option that takes a value."""
    return [
        (*words, name)
        for words, context in contexts(_commands())
        for option in context.command.get_params(context)
        if option.param_type_name == "option" and not option.is_flag and option.multiple != single
        for name in option.opts
    ]


def test_every_command_has_options_of_one_value() -> None:
    assert len(options(single=True)) > 150
    assert ("txn", "force-terminate", "--prefix") in options(single=True)
    for command in ("force-terminate", "describe"):
        assert ("txn", command, "--transactional-id") in options(single=False)


@pytest.mark.slow
@pytest.mark.parametrize("words", sorted({words[:-1] for words in options(single=True)}), ids=" ".join)
def test_an_option_of_one_value_that_is_given_twice_is_refused(run: Run, words: tuple[str, ...]) -> None:
    for option in (one[-1] for one in options(single=True) if one[:-1] == words):
        done = run(*words, option, "1", option, "2")
        assert (done.code, done.out, done.err.count("\n")) == (2, b"", 1)
        assert "is given 2 times, and may be given once" in done.err


@pytest.mark.slow
def test_a_repeatable_option_has_all_its_values() -> None:
    parsers = dict(contexts(_commands()))
    for *words, option in options(single=False):
        context = parsers[tuple(words)]
        found, *_ = context.command.make_parser(context).parse_args([option, "1", option, "2"])
        assert ["1", "2"] in found.values()


def test_two_names_of_one_option_are_one_option(run: Run) -> None:
    done = run("dump", "logs", "--output", "a", "-o", "b")
    assert done.code == 2
    assert done.err.startswith("error: --output is given 2 times, and may be given once")


def test_two_names_of_a_repeatable_option_have_all_its_values() -> None:
    context = dict(contexts(_commands()))["txn", "force-terminate"]
    given = ["--transactional-id", "A", "--transactionalId", "B", "--transactional-id", "C"]
    found, *_ = context.command.make_parser(context).parse_args(given)
    assert found["transactional_id"] == ["A", "B", "C"]


def test_a_flag_and_its_opposite_are_refused_and_a_flag_twice_is_not() -> None:
    context = next(context for words, context in contexts(_commands()) if words == ("dump",))
    context.resilient_parsing = False
    parse = context.command.make_parser(context).parse_args
    assert parse(["--deep-iteration", "--deep-iteration"])
    with pytest.raises(UsageError, match="--control or --no-control is given 2 times"):
        parse(["--control", "--no-control"])

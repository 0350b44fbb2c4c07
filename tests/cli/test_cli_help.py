"""What each command's help says: every one has examples, and they are right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

from kafkawire.cli import _commands, audit, compare, dump, explain, lag, why, witness
from kafkawire.cli.option_groups import Given, Need, groups_of, refusals_of
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


COMMANDS = list(leaves(_commands()))


def _parts(shown: str) -> tuple[str, str]:
    """The description in a help, and its headings with the options."""
    heading = re.search(r"\n\n(?=[A-Z][^\n]*:\n  \S)", shown)
    assert heading is not None
    return shown[: heading.start() + 1], shown[heading.start() + 1 :]


def command_of(words: tuple[str, ...]) -> Any:
    command = _commands()
    for word in words:
        command = command.get_command(None, word)
    return command


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_examples_are_valid_commands(run: Run, words: tuple[str, ...]) -> None:
    shown = run(*words, "--help")
    assert shown.code == 0
    description = _parts(shown.text)[0]
    examples = list(commands(description))
    assert any(tuple(example[: len(words)]) == words for example in examples), "no example"
    for example in examples:
        parse(example)


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_parquet_is_offered_where_a_file_can_be_named(run: Run, words: tuple[str, ...]) -> None:
    options = _parts(run(*words, "--help").text)[1]
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


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_usage_marks_repetition_once(run: Run, words: tuple[str, ...]) -> None:
    """`[PATH]...`, and not `[[PATH...]]...`."""
    usage, _, _ = run(*words, "--help").text.partition("\n\n")
    assert usage.startswith("Usage: kafkawire")
    assert not re.search(r"\[\[|\.\.\.[]}|]", usage)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_many_options_have_headings(words: tuple[str, ...]) -> None:
    """Of more than 15 options each is in exactly one group; and no group names what the command does not have."""
    command = command_of(words)
    options = [one.name for one in command.params if one.param_type_name == "option" and not one.hidden]
    grouped = [name for group in groups_of(command) for name in group.parameters]
    assert len(set(grouped)) == len(grouped)
    assert set(grouped) <= set(options)
    if len(options) > 15:
        assert set(options) == set(grouped)
    else:
        assert not grouped or len(options) > 10


def test_headings_state_what_options_need(run: Run) -> None:
    shown = run("audit", "--help").text
    for heading, option in (
        ("A cluster (with --bootstrap-server)", "--since"),
        ("Copies, on this machine (with PATH, --engine local)", "--jobs"),
        ("A Spark job (with --engine spark)", "--master"),
    ):
        assert option in shown.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]


NEEDS = [
    (words, option, need)
    for words in COMMANDS
    for group in groups_of(command_of(words))
    for need in group.needs
    for option in command_of(words).params
    if option.name in group.parameters
]
#: What a command has to be given, and what meets each other need than the one that is tested.
REQUIRED = {"witness": ("--captures", "x"), "compare": ("a", "b")}
MET = {"--bootstrap-server": ("--bootstrap-server", "h:1"), "--engine spark": ("--engine", "spark"),
       "PATH": ("x",), "--logs": ("--logs", "x"), "--engine local": ()}  # fmt: skip
UNMET = {"--bootstrap-server": (), "PATH": ("--bootstrap-server", "h:1"), "--logs": ("--bootstrap-server", "h:1"),
         "--engine local": ("--engine", "spark")}  # fmt: skip
VALUES = {"as_of": "1800000000000", "since": "1800000000000", "save_mode": "append"}


@pytest.mark.parametrize(("words", "option", "need"), NEEDS, ids=lambda one: getattr(one, "name", None))
def test_option_whose_need_is_not_met_is_refused(run: Run, words: tuple[str, ...], option: Any, need: Need) -> None:
    value = () if option.is_flag else (VALUES.get(option.name, "5"),)
    group = next(one for one in groups_of(command_of(words)) if option.name in one.parameters)
    others = [word for one in group.needs if one is not need for word in MET.get(one.option, ())]
    bootstrap = ("--bootstrap-server", "h:1") if words[0] == "txn" else ()
    result = run(
        *words, *REQUIRED.get(words[0], ()), *bootstrap, *others, *UNMET.get(need.option, ()), option.opts[0], *value
    )
    assert (result.code, result.out) == (2, b"")
    assert result.err.startswith(f"error: {option.opts[0]} needs {need.text}"), result.err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_refused_can_be_given(words: tuple[str, ...]) -> None:
    """Parameters that decide are those of the command; something of them is refused, and nothing of none."""
    command = command_of(words)
    names = [one.name for one in command.params]
    values = {"bootstrap_server": "h:1", "engine": "local"}
    for refusal in refusals_of(command):
        assert set(refusal.parameters) <= set(names), refusal.text
        lines = [refusal.parameters, *((name,) for name in refusal.parameters)]
        found = [refusal.found(Given(line, values)) for line in lines]
        assert any(found), refusal.text
        assert {name for each in found for name in each} <= set(refusal.parameters)
        assert refusal.found(Given((), values)) == []


def test_commands_state_what_they_refuse() -> None:
    assert sum(len(refusals_of(command_of(words))) for words in COMMANDS) > 20


def test_option_of_several_commands_is_declared_once() -> None:
    """Of those that read copies or a cluster: but for what is about something else in one of them."""
    declared: dict[str, dict[int, list[str]]] = {}
    for module in (audit, compare, dump, explain, lag, why, witness):
        name = module.__name__.rpartition(".")[2]
        hints = get_type_hints(getattr(module, name), include_extras=True)
        for parameter in command_of((name,)).params:
            info = hints[parameter.name].__metadata__[0] if parameter.name in hints else parameter
            declared.setdefault(parameter.opts[0], {}).setdefault(id(info), []).append(name)
    several = {option: list(found.values()) for option, found in declared.items() if len(found) > 1}
    subjects = {"--topic", "--partition", "--group", "--offset", "--producer-id", "--fetch-bytes", "--format", "--help",
                "paths"}  # fmt: skip
    assert set(several) <= subjects, several
    assert len(declared) > 50

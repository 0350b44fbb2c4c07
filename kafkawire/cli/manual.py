"""`kafkawire --man`: the manual page, made from the help of all commands. Its format is roff, which `man -l` shows.

The package click-man only accepts commands of click. Those of typer 0.29 are not, because it contains a copy of click.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kafkawire.cli import option_groups

#: What the help of no command states: sections of names and their meaning.
_ENDING = {
    "EXIT STATUS": {
        "0": "Done and clear.",
        "1": "Error.",
        "2": "Wrong usage.",
        "3": "Found, for example a hanging transaction.",
        "4": "Nothing found, but not everything could be read.",
        "5": "Found, and not everything could be read.",
        "130, 141, 143, 129": "Ended by Ctrl-C, a closed pipe, SIGTERM, SIGHUP.",
    },
    "ENVIRONMENT": {
        "KAFKAWIRE_BACKEND": "The engine: native or python. By default native, where it is installed.",
        "KAFKAWIRE_DEBUG": "With the value 1, errors have a traceback.",
        "COLUMNS": "The width of tables in a pipe.",
    },
}


def page(command: Any, version: str) -> str:
    """The manual page of a group of commands, in roff. `command`: the outermost group. `version`: of the package."""
    lines = [
        f'.TH KAFKAWIRE 1 "" "kafkawire {_text(version)}" "User Commands"',
        ".nh",
        ".SH NAME",
        f"kafkawire \\- {_text(command.help.partition(':')[0])}",
        ".SH SYNOPSIS",
        ".B kafkawire",
        ".I COMMAND",
        "[OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        *_paragraphs(command.help),
        ".SH COMMANDS",
    ]
    with command.make_context("kafkawire", [], resilient_parsing=True) as context:
        for part, inner in commands(command, context):
            lines += _command(part, inner)
        lines += [".SH OPTIONS", *_options(command, context)]
    for section, entries in _ENDING.items():
        lines.append(f".SH {section}")
        for name, meaning in entries.items():
            lines += _entry(name, meaning)
    return "\n".join(lines) + "\n"


def commands(group: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    """Each visible command below a group, in the order of the help, with its context."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if not command.hidden:
            with command.make_context(name, [], parent=context, resilient_parsing=True) as inner:
                yield command, inner
                if hasattr(command, "list_commands"):
                    yield from commands(command, inner)


def _command(command: Any, context: Any) -> list[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    usage = [".PP", f".B {_text(context.command_path)}", _text(pieces)] if pieces else []
    return [f".SS {_text(context.command_path)}", *usage, *_paragraphs(command.help or ""), *_options(command, context)]


def _options(command: Any, context: Any) -> Iterator[str]:
    for heading, records in option_groups.sections(command, context):
        if option_groups.groups_of(command) and heading != "Arguments":
            yield from (".PP", f".I {_text(heading)}")
        for record in records:
            if "--help" not in record[0]:
                yield from _entry(*record)


def _entry(name: str, meaning: str) -> tuple[str, str, str]:
    return ".TP", f".B {_text(name)}", _text(meaning) or "\\&"


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs are filled; those that begin with \\b keep their lines."""
    for paragraph in text.split("\n\n"):
        yield ".PP"
        if paragraph.startswith("\b\n"):
            yield from (".nf", *(_text(line) or "\\&" for line in paragraph.splitlines()[1:]), ".fi")
        else:
            yield _text(" ".join(paragraph.split()))


def _text(text: str) -> str:
    """Text for roff: no escapes, no requests, and hyphens that can be copied."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", "\\e").replace("-", "\\-"))

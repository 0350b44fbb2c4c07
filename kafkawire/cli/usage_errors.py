"""Errors of arguments and options: the library's sentences, reworded; and options that are given twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import typer

#: Base class of the errors of arguments and options; typer exports no name for it.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

#: The text before a quoted value, and the value, which may contain any quotes: matched once, from the beginning.
_VALUE = r"""^([^'"]*)['"].*['"]"""
#: Sentences of the libraries that read options, of old releases and of new ones -> ours.
_WORDS = [
    (re.compile(pattern), words)
    for pattern, words in [
        (r"^Invalid value: ", ""),
        (r"^Invalid value for '?([^':]*)'?: ", r"\1: "),
        (r"^(--[\w-]+): \1\b", r"\1"),
        (r"Value error, ", ""),
        (
            rf"Input should be a valid integer.*|{_VALUE} is not a valid int(?:eger)?(?: range)?\.?$",
            r"\1not a whole number",
        ),
        (rf"Input should be a valid number.*|{_VALUE} is not a valid float(?: range)?\.?$", r"\1not a number"),
        (r"Input should be greater than or equal to ", "must be at least "),
        (r"Input should be less than or equal to ", "must be at most "),
        (r" ?\(Possible options: ([^,]*)\)$", r"; did you mean \1?"),
        (r" ?\(Possible options: (.*)\)$", r"; did you mean one of \1?"),
        (r"\.? ?Did you mean '?([^'?]*)'?\?$", r"; did you mean \1?"),
        (r"\.$", ""),
    ]
]


def usage_text(error: Any) -> str:
    """One line: the option, what is wrong with it, and where to read on."""
    text: str = error.format_message()
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return f"{text} ({error.ctx.command_path} --help)" if error.ctx is not None else text


def unknown_command(name: str, commands: Iterable[str], context: Any) -> Exception:
    """The error of a command that a group does not have, with those whose names are near. `name`: as it was given.
    `commands`: the names of the group. `context`: of the group."""
    near = get_close_matches(name, list(commands), n=3, cutoff=0.5)
    which = f"; did you mean {'one of ' * (len(near) > 1)}{', '.join(near)}?" if near else ""
    return UsageError(f"No such command {name!r}{which}", context)


def refuse_repeated(command: Any) -> None:
    """Make a command refuse an option of one value that is given twice: the library takes the last value and drops the
    others. A flag may be repeated, where it has no opposite. `command`: without its subcommands."""
    make_parser = command.make_parser

    def make_strict_parser(context: Any) -> Any:
        parser = make_parser(context)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            found = parse(args)
            if not context.resilient_parsing:  # a shell asks for completions
                for option, times in Counter(filter(_takes_one_value, found[2])).items():
                    if times > 1:
                        what = " or ".join([option.opts[0], *option.secondary_opts[:1]])
                        raise UsageError(f"{what} is given {times} times, and may be given once", context)
            return found

        parser.parse_args = parse_args
        return parser

    command.make_parser = make_strict_parser


def _takes_one_value(parameter: Any) -> bool:
    if parameter.param_type_name != "option" or parameter.multiple or parameter.count:
        return False
    return not parameter.is_flag or bool(parameter.secondary_opts)

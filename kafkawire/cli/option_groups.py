"""Options of a command in groups: the headings of its help, and what the options of a group need.

A command states its groups once (`grouped`). Its help and its manual page have a heading for each, with what the
options below it need; an option that is given without that has no effect, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import typer

F = TypeVar("F", bound=Callable[..., None])


class Need(NamedTuple):
    """What options need: `option` in a heading, `text` in a sentence, and whether the values of a command have it."""

    option: str
    text: str
    met: Callable[[Mapping[str, Any]], bool]


#: A command with PATH and --bootstrap-server reads one of the two.
CLUSTER = Need("--bootstrap-server", "--bootstrap-server", lambda values: values["bootstrap_server"] is not None)
COPIES = Need(
    "PATH", "log directories (PATH), no --bootstrap-server", lambda values: values["bootstrap_server"] is None
)
SPARK = Need("--engine spark", "--engine spark", lambda values: values["engine"] == "spark")
LOCAL = Need("--engine local", "--engine local", lambda values: values["engine"] == "local")


class Group(NamedTuple):
    """A heading, the parameters below it by name, and what all of them need."""

    title: str
    parameters: tuple[str, ...]
    needs: tuple[Need, ...] = ()

    @property
    def heading(self) -> str:
        needs = ", ".join(need.option for need in self.needs)
        return f"{self.title} (with {needs})" if needs else self.title


def grouped(*groups: Group) -> Callable[[F], F]:
    """The decorator of a command whose options are in groups; options in none are below `Options`."""

    def mark(command: F) -> F:
        command.option_groups = groups  # type: ignore[attr-defined]
        return command

    return mark


def groups_of(command: Any) -> tuple[Group, ...]:
    """The groups of a command."""
    found: tuple[Group, ...] = getattr(command.callback, "option_groups", ())
    return found


def sections(command: Any, context: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The headings of a command's help, each with the names and the help of its parameters: arguments, the groups,
    other options."""
    parts: dict[str, list[tuple[str, str]]] = {"Arguments": []}
    heading_of: dict[str, str] = {}
    for group in groups_of(command):
        parts[group.heading] = []
        heading_of |= dict.fromkeys(group.parameters, group.heading)
    parts["Options"] = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            other = "Arguments" if parameter.param_type_name == "argument" else "Options"
            parts[heading_of.get(parameter.name, other)].append(record)
    return ((heading, records) for heading, records in parts.items() if records)


def apply(command: Any) -> None:
    """Gives a command the help of its groups, and makes it refuse options whose needs are not met."""
    groups = groups_of(command)
    if not groups:
        return

    def format_options(context: Any, formatter: Any) -> None:
        for heading, records in sections(command, context):
            with formatter.section(heading):
                formatter.write_dl(records)

    parse = command.parse_args

    def parse_args(context: Any, args: list[str]) -> list[str]:
        left: list[str] = parse(context, args)
        if not context.resilient_parsing:  # a shell asks for completions
            _refuse_without_effect(command, context, groups)
        return left

    command.format_options, command.parse_args = format_options, parse_args


def _refuse_without_effect(command: Any, context: Any, groups: tuple[Group, ...]) -> None:
    """A usage error for an option that is given, and whose group needs what is not."""
    options = {parameter.name: parameter.opts[0] for parameter in command.params}
    for group in groups:
        for need in group.needs:
            if need.met(context.params):
                continue
            for name in group.parameters:
                source = context.get_parameter_source(name)
                if source is not None and source.name == "COMMANDLINE":
                    raise typer.BadParameter(f"{options[name]} needs {need.text}", ctx=context)

"""Options of a command in groups: the headings of its help, what the options of a group need, and which options exclude
one another.

A command states its groups once (`grouped`). Its help and its manual page have a heading for each group, which names
what the options below it need. An option without what it needs would have no effect, so it is refused. Options that
exclude one another are refused, too (`refusing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import typer

F = TypeVar("F", bound=Callable[..., None])


class Need(NamedTuple):
    """What options need: `option` is its name in a heading, `text` in a sentence; a function checks the values of a
    command."""

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


class Given(NamedTuple):
    """A command line: the names of the parameters that are given, in the order of the command, and all values."""

    names: tuple[str, ...]
    values: Mapping[str, Any]

    def of(self, names: Iterable[str]) -> list[str]:
        """The parameters among `names` that are given."""
        wanted = frozenset(names)
        return [name for name in self.names if name in wanted]


class Refusal(NamedTuple):
    """A combination of options that a command refuses.

    text: a sentence, in which `{}` is the option at fault. parameters: the parameters that the refusal depends on.
    found: the parameters at fault of a command line. hint: the option that the sentence is about, where it names none.
    """

    text: str
    parameters: tuple[str, ...]
    found: Callable[[Given], list[str]]
    hint: str | None = None


def exclusive(text: str, *names: str) -> Refusal:
    """More than one of the parameters is given."""
    return Refusal(text, names, lambda given: given.of(names)[1:])


def conflict(text: str, with_: str | tuple[str, ...], *names: str, hint: str | None = None) -> Refusal:
    """One of the parameters is given beside one of `with_`."""
    other = (with_,) if isinstance(with_, str) else with_
    return Refusal(text, (*other, *names), lambda given: given.of(names) if given.of(other) else [], hint)


def needs(text: str, name: str, *any_of: str, hint: str | None = None) -> Refusal:
    """The parameter is given without any of the others."""
    return Refusal(text, (name, *any_of), lambda given: [] if given.of(any_of) else given.of([name]), hint)


PARTITION_NEEDS_TOPIC = needs("--partition needs --topic", "partition", "topic", hint="--partition")


def refusing(*refusals: Refusal) -> Callable[[F], F]:
    """The decorator of a command that refuses command lines, in this order."""

    def mark(command: F) -> F:
        command.refusals = refusals  # type: ignore[attr-defined]
        return command

    return mark


def refusals_of(command: Any) -> tuple[Refusal, ...]:
    """The refusals of a command."""
    found: tuple[Refusal, ...] = getattr(command.callback, "refusals", ())
    return found


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
    """Gives a command the help of its groups, and makes it refuse options that would have no effect."""
    groups, refusals = groups_of(command), refusals_of(command)

    def format_options(context: Any, formatter: Any) -> None:
        for heading, records in sections(command, context):
            with formatter.section(heading):
                formatter.write_dl(records)

    parse = command.parse_args

    def parse_args(context: Any, args: list[str]) -> list[str]:
        left: list[str] = parse(context, args)
        if not context.resilient_parsing:  # a shell asks for completions
            _refuse(command, context, groups, refusals)
        return left

    if groups:
        command.format_options = format_options
    if groups or refusals:
        command.parse_args = parse_args


def _refuse(command: Any, context: Any, groups: tuple[Group, ...], refusals: tuple[Refusal, ...]) -> None:
    """A usage error for an option that is given without what its group needs, and for each refusal."""
    options = {parameter.name: parameter.opts[0] for parameter in command.params}
    sources = {name: context.get_parameter_source(name) for name in options}
    names = tuple(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")
    given = Given(names, context.params)
    for group in groups:
        for need in group.needs:
            for name in () if need.met(given.values) else given.of(group.parameters):
                raise typer.BadParameter(f"{options[name]} needs {need.text}", ctx=context)
    for refusal in refusals:
        for name in refusal.found(given):
            raise typer.BadParameter(refusal.text.format(options[name]), ctx=context, param_hint=refusal.hint)

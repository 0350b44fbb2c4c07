"""The command line: one file a command, which parses arguments, calls a package and prints; and `main`.

A command lives in the module of its name and registers itself with `register(app: typer.Typer) -> None`; the names are
listed in `COMMANDS`, in the order of the help. The module is imported when its command is run, or its own help is
printed. A command imports heavy packages (numpy, rich, pyarrow, pyspark) in its functions, so that no other command
waits for them.

Commands raise exceptions. `main` turns them into one line on standard error and an exit code: 0 done and clear, 1
error, 2 usage, 3 found, 4 incomplete or damaged, 5 found and incomplete (commands raise `typer.Exit` with those three),
130 Ctrl-C, 141 broken pipe; of the commands that wait for a cluster or write a file, 143 SIGTERM and 129 SIGHUP. A
traceback is only shown with KAFKAWIRE_DEBUG=1.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from kafkawire.cli import option_groups
from kafkawire.cli.formatting import brief, printable
from kafkawire.cli.interrupt import TerminationSignal, interruption
from kafkawire.cli.usage_errors import UsageError, refuse_repeated, unknown_command, usage_text
from kafkawire.errors import KafkaWireError, SchemaError

#: Each command, with its line in the help.
COMMANDS = {
    "decode": "Print a message, or a whole frame, as JSON.",
    "encode": "Print the bytes of a message that is given as JSON.",
    "capture": "Print the requests and responses in packet captures.",
    "dump": "Print what brokers' log directories hold.",
    "explain": "What every offset of a partition is: gaps, markers, losses.",
    "why": "What blocks a group, a topic or an id, until when, what to run.",
    "lag": "How many records a group will get, and what holds the rest.",
    "audit": "Find hanging transactions in copied logs, or on a cluster.",
    "witness": "Was each batch delivered exactly once? Captures against logs.",
    "compare": "Compare two copies of a log: replicas, a mirror, a lake table.",
    "txn": "Find hanging transactions on a live cluster, and end them.",
    "schema": "Show and compare message schemas; make codecs of your own.",
    "mock": "Run a broker for tests, in memory.",
    "proxy": "Pass clients on to a cluster, with faults and a recording.",
    "conformance": "Check a codec of another project against test vectors.",
}


class LazyGroup(TyperGroup):
    """A group whose commands are imported on first use.

    Attributes:
        loaders: for each command, by name and in the order of the help, the function that registers it with an app.
        lines: the text of each command in the help of the group, so that none is imported for it; None: not listed.
    """

    loaders: ClassVar[Mapping[str, Callable[[typer.Typer], None]]] = {}
    lines: ClassVar[Mapping[str, str | None]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.loaders)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, line in self.lines.items() if line is not None])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.loaders:
            raise unknown_command(args[0], self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.loaders and cmd_name not in self.commands:
            holder = typer.Typer(callback=lambda: None, rich_markup_mode=None)
            self.loaders[cmd_name](holder)
            self.commands.update(get_group(holder).commands)
            command: Any = self.commands[cmd_name]
            command.short_help, command.hidden = self.lines[cmd_name], self.lines[cmd_name] is None
            _prepare(command)
        return self.commands.get(cmd_name)


def _prepare(command: Any) -> None:
    """Prepares a command and the commands in it."""
    _spare_conversions(command)
    refuse_repeated(command)
    option_groups.apply(command)
    for inner in getattr(command, "commands", {}).values():
        _prepare(inner)


def _spare_conversions(command: Any) -> None:
    """Text and defaults need no conversion, an option that is not given has nothing to convert, and a choice is found
    by its name. Some releases of typer import pydantic for these too, which takes as long as all other imports of a
    command."""
    params = command.get_params

    def get_params(context: Any) -> list[Any]:
        found: list[Any] = params(context)  # with --help
        for parameter in found:
            if hasattr(parameter, "type_descriptor") and "process_value" not in vars(parameter):
                parameter.process_value = _process_value(parameter, parameter.process_value)
        return found

    command.get_params = get_params


def _process_value(parameter: Any, convert: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    descriptor, many = parameter.type_descriptor, parameter.multiple or parameter.nargs == -1
    # The type of a value that is as it should be; None: all are converted.
    kind = {list[str]: (list, tuple)}.get(descriptor.annotation, descriptor.annotation)
    if many != (kind == (list, tuple)) or not isinstance(kind, (type, tuple)) or descriptor.parameter_info.parser:
        kind = None

    choices = {choice.value: choice for choice in kind} if isinstance(kind, type) and issubclass(kind, Enum) else {}
    number = _number(descriptor)

    def process_value(context: Any, value: Any) -> Any:
        if isinstance(value, str):
            value = choices.get(value, value) if number is None else number(value)
        elif number is not None and many and isinstance(value, (list, tuple)):
            found = [number(each) if isinstance(each, str) else each for each in value]
            if not any(isinstance(each, str) for each in found):
                return found if parameter.callback is None else parameter.callback(context, parameter, found)
        if value is None and not parameter.required:
            value = () if many else None
        elif kind is None or value in ((), []) or not isinstance(value, kind):
            return convert(context, value)
        return value if parameter.callback is None else parameter.callback(context, parameter, value)

    return process_value


def _number(descriptor: Any) -> Callable[[str], Any] | None:
    """The converter of a parameter that is a number, or a list of numbers: it converts a text that is plainly a number
    within its limits, and leaves other texts to typer. None where the parameter is no number."""
    kind = {list[int]: int, list[float]: float}.get(descriptor.annotation, descriptor.annotation)
    if kind not in (int, float) or descriptor.parameter_info.parser:
        return None
    least, most = descriptor.parameter_info.min, descriptor.parameter_info.max
    plain = _PLAIN_NUMBERS[kind]

    def number(text: str) -> Any:
        if plain.fullmatch(text) is None:
            return text
        found = kind(text)
        return found if (least is None or found >= least) and (most is None or found <= most) else text

    return number


_PLAIN_NUMBERS = {int: re.compile(r"-?[0-9]{1,18}"), float: re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")}


def _load(name: str, app: typer.Typer) -> None:
    import_module(f"kafkawire.cli.{name}").register(app)


class Commands(LazyGroup):
    """The group of all commands."""

    loaders: ClassVar = {name: partial(_load, name) for name in COMMANDS}
    lines: ClassVar = COMMANDS


app = typer.Typer(cls=Commands, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


def _print_version(wanted: bool) -> None:
    if wanted:
        import kafkawire

        typer.echo(f"kafkawire {kafkawire.__version__} ({kafkawire.backend} backend)")
        raise typer.Exit


def _print_manual(wanted: bool) -> None:
    if wanted:
        import kafkawire
        from kafkawire.cli import manual

        typer.echo(manual.page(get_command(app), kafkawire.__version__), nl=False)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def kafkawire_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print version and engine.")
    ] = False,
    man: Annotated[
        bool,
        typer.Option("--man", callback=_print_manual, is_eager=True, help="Print the manual page, for `man -l -`."),
    ] = False,
) -> None:
    """Kafka's wire and log formats: decode messages, read captures and log directories, find hanging transactions."""
    help_without_command(context)


def help_without_command(context: typer.Context) -> None:
    """Prints the help of a group as a usage error, when none of its commands is named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command line `args` (`sys.argv` by default) and returns the exit code."""
    _prepare_streams()
    if "_KAFKAWIRE_COMPLETE" in os.environ:  # a shell asks for completions
        app(prog_name="kafkawire")
    code = _guard(lambda: _run(sys.argv[1:] if args is None else list(args)))
    if code == 1:  # the error is printed already; a failure to write earlier output adds no other
        with suppress(OSError):
            _flush()
        return code
    return _guard(_flush) or code


def _prepare_streams() -> None:
    """Standard streams that the caller closed lead nowhere; text that a terminal cannot show is escaped, no error."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@cache
def _commands() -> Any:
    """All commands, with --install-completion and --show-completion: built once, by the first command line."""
    command = get_command(app)
    _prepare(command)
    return command


def _run(args: list[str]) -> int:
    command = _commands()
    try:
        with command.make_context("kafkawire", args) as context:
            command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    return 0


def _flush() -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        error.filename = "standard output"
        # What is left in the buffer cannot be written; the interpreter would try, and complain, once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
    return 0


def _guard(action: Callable[[], int]) -> int:
    """The exit code of `action`; its errors are reported."""
    try:
        return action()
    except BrokenPipeError:
        return 141
    except (KeyboardInterrupt, typer.Abort) as ending:
        return _interrupted(ending)
    except UsageError as error:
        _complain(usage_text(error))
        return 2
    except SchemaError as error:
        for problem in error.problems:
            _complain(str(problem))
    except KafkaWireError as error:
        _complain(str(error))
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename is not None else str(error))
    except Exception as error:
        if (cause := interruption(error)) is not None:
            return _interrupted(cause)
        _complain(f"unexpected {type(error).__name__}: {error} (KAFKAWIRE_DEBUG=1 shows where)")
    return 1


def _interrupted(ending: BaseException) -> int:
    return ending.code if isinstance(ending, TerminationSignal) else 130


def _complain(text: str) -> None:
    try:
        if os.environ.get("KAFKAWIRE_DEBUG"):
            import traceback

            for part in traceback.format_exception(sys.exception()):
                text_of_part = part.removesuffix("\n")
                ours = part.startswith("  File ")  # lines of code, not the text of an error
                print(text_of_part if ours else printable(text_of_part), file=sys.stderr)
        from kafkawire.cli.notes import print_note

        print_note("error", brief(text))
    except OSError:
        pass  # standard error is closed; the exit code remains

"""Every command that output, reports and pages print is parsed word for word: options that exist, valid values, and
nothing missing. They are run in `test_cli_printed_run.py`, and those of live answers in `test_cli_why_broker.py`."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.transactions.blocking.blocker_text import WIDTH, unwrapped, wrapped_command
from kafkawire.transactions.commands import Reach
from tests.docs.guide import ROOT, parse

_COMMAND = re.compile(
    r"""(?:^|\n|=>\ |run\ +|\$\ |:\ |"|<code>|>)
    ((?:kafkawire|kafka-transactions\.sh)\ [a-z-]+[^\n"`<]*?\ --[^\n"`<]*)""",
    re.VERBOSE,
)
#: Options of Kafka's own tool that are printed.
_STOCK = {
    "--bootstrap-server", "--topic", "--partition", "--producer-id", "--producer-epoch", "--coordinator-epoch",
    "--start-offset", "--command-config", "--transactional-id", "--broker-id", "--max-transaction-timeout",
}  # fmt: skip
FILES = [
    *sorted(
        path for path in (ROOT / "tests" / "golden").rglob("*") if path.is_file() and path.parent.name != "codegen"
    ),
    *sorted((ROOT / "docs" / "deploy").rglob("*.y*ml")),
    *sorted((ROOT / "docs" / "deploy").rglob("*.json")),
]


def printed(text: str) -> Iterator[str]:
    """The commands in a text, with continued lines joined."""
    joined = re.sub(r" \\\n\s*", " ", text)
    for match in _COMMAND.finditer(joined):
        yield html.unescape(match.group(1)).rstrip(" .;,")


def check(command: str) -> None:
    program, *words = shlex.split(command, comments=True)
    if program == "kafkawire":
        parse(words)
    else:
        assert {word for word in words if word.startswith("--")} <= _STOCK, command


def commands_of_files() -> list[tuple[Path, str]]:
    found = []
    for path in FILES:
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [(path.relative_to(ROOT), command) for command in dict.fromkeys(printed(text))]
    return found


def test_golden_files_alerts_and_dashboards_print_commands_that_are_valid() -> None:
    found, wrong = commands_of_files(), []
    for path, command in found:
        try:
            check(command)
        except Exception as error:
            wrong.append((str(path), command, str(error)))
    assert wrong == []
    assert len(found) > 10


@pytest.mark.parametrize("name", ["orders", "it's", "a b", "$(rm -rf x)", "-x", "'", '"', "a\\b", "x" * 300])
def test_wrapped_command_is_the_command(name: str) -> None:
    """Also with a name of strangers: a shell takes the lines as one command, with that name as one word."""
    reach = Reach("127.0.0.1:9092 --command-config 'my client.properties'", ("--max-transaction-timeout 60",))
    for command in (reach.force_terminate([name, "b"]), reach.abort(name, 3, 17), reach.describe(name)):
        lines = wrapped_command(command, "   run     ")
        assert all(len(line) <= WIDTH or " " not in line.strip()[11:] or len(name) > 40 for line in lines)
        assert unwrapped(lines) == [" ".join(map(shlex.quote, shlex.split(command)))]
        if not name.startswith("-"):
            check(command)

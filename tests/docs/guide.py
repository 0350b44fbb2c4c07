"""The pages that a reader sees, and the fenced blocks in them.

A block in ```python is run, in the names that the page's blocks before it made. A block in ```console is run, and shows
what is printed (lines of dots stand for what is left out). In any other block, lines that begin with `kafkawire` (or
`$ kafkawire`, or pipe into it) are commands that must parse.

HTML comments, which a reader does not see, say what a block needs:

    <!-- first ... -->      before it: Python that makes what the block talks of
    <!-- then ... -->       after it: Python that looks at what came of it
    <!-- exits 3 -->        before it: the exit code of the console's commands
    <!-- needs ... -->      before it: what tests of pages have not (a cluster, Spark): it is parsed, not run
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

from kafkawire.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        ROOT / "schemas/README.md",
    ]
)

#: Pages whose Python is run by other tests, which have what it needs. Here it is parsed.
ELSEWHERE = {"docs/spark.md": "tests/spark/test_spark_examples.py"}

_BLOCK = re.compile(
    r"(?P<before>(?:^<!--(?:(?!-->).)*-->\n+)*)^```(?P<language>[^\n]*)\n(?P<text>.*?)^```\n"
    r"(?P<after>(?:\n*<!-- then\b(?:(?!-->).)*-->)?)",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"<!-- (\w+)\b(.*?)-->", re.DOTALL)
_PIPE = re.compile(r"(?:^|\|)\s*(kafkawire\s.*)")


@dataclass(frozen=True)
class Block:
    """Attributes: page, line: where it begins. language: of the fence. notes: the comments around it, by first word."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text("utf-8")
    for found in _BLOCK.finditer(text):
        notes = dict(_COMMENT.findall(found["before"] + found["after"]))
        if page in ELSEWHERE:
            notes.setdefault("needs", ELSEWHERE[page])
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(page, line, found["language"].strip(), found["text"], notes)


def sessions(text: str) -> Iterator[tuple[list[str], str]]:
    """The commands of a console, without `kafkawire`, and what each prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        name, *arguments = shlex.split(command, comments=True)
        assert name == "kafkawire", command
        yield arguments, shown


def commands(text: str) -> Iterator[list[str]]:
    """The command lines of `kafkawire` in a block, without the name; those behind `$ ` alone where there are any."""
    lines = text.replace("\\\n", " ").splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in prompted or lines:
        if found := _PIPE.search(line):
            words = shlex.split(found[1], comments=True)
            end = next((at for at, word in enumerate(words) if word in ("|", ">", ">>")), len(words))
            yield words[1:end]


def parse(arguments: list[str]) -> None:
    """Reads a command line as `kafkawire` does, and runs nothing; a usage error where it would be one."""
    if arguments == ["--version"]:  # is done as soon as it is parsed
        return
    command: Any = get_command(app)
    context: Any = None
    name = "kafkawire"
    while True:
        context = command.make_context(name, list(arguments), parent=context)
        if not hasattr(command, "resolve_command"):
            return
        name, command, arguments = command.resolve_command(context, context._protected_args + context.args)

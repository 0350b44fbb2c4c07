"""The documentation pages and their fenced blocks.

A ```python block is run with the names that the page's earlier blocks defined. A ```console block is run and shows the
output of its commands (a line of dots stands for omitted output). In other blocks, lines that begin with `kafkawire` or
`$ kafkawire`, or that pipe into it, are commands that must be valid usage.

HTML comments, which are not visible to readers, control the tests:

    <!-- first ... -->      before a block: Python that defines the block's input
    <!-- then ... -->       after a block: Python that checks the block's result
    <!-- unpacks NAME -->   before a console block: the archive of tests/recordings that it reads in build/NAME
    <!-- exits 3 -->        before a console block: the exit code of its commands
    <!-- needs ... -->      before a block: a requirement that is missing here (a cluster, Spark); it is parsed, not run
"""

from __future__ import annotations

import ast
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

#: Pages whose Python blocks are run by other tests with the required environment. Here they are parsed.
ELSEWHERE = dict.fromkeys(
    ("docs/spark.md", "tests/docs/guide-0.1.0/docs-spark.md"), "tests/spark/test_spark_examples.py"
)

_BLOCK = re.compile(
    r"(?P<before>(?:^<!--(?:(?!-->).)*-->\n+)*)^```(?P<language>[^\n]*)\n(?P<text>.*?)^```\n"
    r"(?P<after>(?:\n*<!-- then\b(?:(?!-->).)*-->)?)",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"<!-- (\w+)\b(.*?)-->", re.DOTALL)
_PIPE = re.compile(r"(?:^|\|)\s*(kafkawire\s.*)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page, line: the place where the block begins.
        language: the language of the fence.
        notes: the comments around the block, by their first word.
    """

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


def run_python(page: str) -> None:
    """Runs the Python blocks of a page; imports what those import that have other needs."""
    names: dict[str, Any] = {"__name__": page}
    for block in blocks(page):
        if block.language != "python":
            continue
        compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if "needs" in block.notes:
            _names_exist(block)
            continue
        for code in (block.notes.get("first", ""), "\n" * (block.line - 1) + block.text, block.notes.get("then", "")):
            exec(compile(code.lstrip(" "), page, "exec"), names)


def _names_exist(block: Block) -> None:
    """The names that a block imports exist; the block is not run."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            exec(ast.unparse(node), {})


def sessions(text: str) -> Iterator[tuple[list[str], str]]:
    """The commands of a console block, without `kafkawire`, and the output shown for each."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        name, *arguments = shlex.split(command, comments=True)
        assert name == "kafkawire", command
        yield arguments, shown


def commands(text: str) -> Iterator[list[str]]:
    """The `kafkawire` command lines of a block, without the name; only those after `$ ` if there are any."""
    lines = text.replace("\\\n", " ").splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in prompted or lines:
        if found := _PIPE.search(line):
            words = shlex.split(found[1], comments=True)
            end = next((at for at, word in enumerate(words) if word in ("|", ">", ">>")), len(words))
            yield words[1:end]


def parse(arguments: list[str]) -> None:
    """Parses a command line as `kafkawire` does, without running it. Invalid usage raises the usage error."""
    if arguments in (["--version"], ["--man"], ["--install-completion"]):  # parsing alone would do what they ask for
        return
    command: Any = get_command(app)
    context: Any = None
    name = "kafkawire"
    while True:
        context = command.make_context(name, list(arguments), parent=context)
        if not hasattr(command, "resolve_command"):
            return
        name, command, arguments = command.resolve_command(context, context._protected_args + context.args)

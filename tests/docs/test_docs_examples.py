"""What pages show is what happens (`tests.docs.guide` says how blocks are marked)."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.cli.runner import Run
from tests.docs.guide import ELSEWHERE, PAGES, ROOT, Block, blocks, commands, parse, sessions

pytestmark = pytest.mark.slow

BLOCKS = [block for page in PAGES for block in blocks(page)]
CONSOLES = [block for block in BLOCKS if block.language == "console" and "needs" not in block.notes]
COMMANDS = [(block, args) for block in BLOCKS if block.language != "python" for args in commands(block.text)]
WITH_PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("block", CONSOLES, ids=str)
def test_consoles_show_what_is_printed(run: Run, block: Block) -> None:
    """What stands between dots stands together in the output, in this order."""
    for arguments, shown in sessions(block.text):
        result = run(*arguments)
        assert result.code == int(block.notes.get("exits", "0")), result.err
        if "..." not in shown:
            assert result.text == shown
            continue
        at = 0
        for part in filter(None, shown.split("...\n")):
            found = result.text.find(part, at)
            assert found >= 0, part
            at = found + len(part)


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_runs(page: str) -> None:
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
    """What a block that is not run imports is there."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            exec(ast.unparse(node), {})


@pytest.mark.parametrize(
    ("block", "arguments"), COMMANDS, ids=[f"{block}: {' '.join(args)}" for block, args in COMMANDS]
)
def test_commands_parse(block: Block, arguments: list[str]) -> None:
    """Every option is one, has a value that it takes, and what is required is there. Nothing is run."""
    parse(arguments)


def test_the_picture_is_there_and_small() -> None:
    picture = ROOT / "docs" / "report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size <= 150_000


def test_there_are_examples() -> None:
    """A fence that the pattern does not see would be an example that nobody tries."""
    for page in PAGES:
        fences = sum(line.startswith("```") for line in (ROOT / page).read_text("utf-8").splitlines())
        assert len(list(blocks(page))) * 2 == fences, page
    assert all((ROOT / path).is_file() for path in ELSEWHERE.values())
    assert CONSOLES
    assert len(COMMANDS) > 40

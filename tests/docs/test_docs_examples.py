"""The examples of the pages run and print what the pages show (`tests.docs.guide` describes the marks of blocks)."""

from __future__ import annotations

import pytest

from tests.cli.runner import Run
from tests.docs.guide import ELSEWHERE, PAGES, ROOT, Block, blocks, commands, parse, run_python, sessions
from tools.recordings.archive import ARCHIVES, SUFFIX, unpack

pytestmark = pytest.mark.slow

BLOCKS = [block for page in PAGES for block in blocks(page)]
CONSOLES = [block for block in BLOCKS if block.language == "console" and "needs" not in block.notes]
COMMANDS = [(block, args) for block in BLOCKS if block.language != "python" for args in commands(block.text)]
WITH_PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]


@pytest.fixture(autouse=True)
def _working_directory_is_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("block", CONSOLES, ids=str)
def test_console_blocks_show_the_output_of_their_commands(run: Run, block: Block) -> None:
    """The parts between lines of dots are in the output, in this order."""
    if archive := block.notes.get("unpacks", "").strip():
        unpack(ARCHIVES / (archive + SUFFIX), ROOT / "build" / archive)
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
def test_python_blocks_run(page: str) -> None:
    run_python(page)


@pytest.mark.parametrize(
    ("block", "arguments"), COMMANDS, ids=[f"{block}: {' '.join(args)}" for block, args in COMMANDS]
)
def test_commands_are_valid_usage(block: Block, arguments: list[str]) -> None:
    """Options exist, their values are valid, and required parameters are given. Nothing is run."""
    parse(arguments)


def test_picture_is_a_small_png() -> None:
    picture = ROOT / "docs" / "report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size <= 150_000


def test_every_fenced_block_is_recognized() -> None:
    """A block that the pattern misses would be an untested example."""
    for page in PAGES:
        fences = sum(line.startswith("```") for line in (ROOT / page).read_text("utf-8").splitlines())
        assert len(list(blocks(page))) * 2 == fences, page
    assert all((ROOT / path).is_file() for path in ELSEWHERE.values())
    assert CONSOLES
    assert len(COMMANDS) > 40

"""Code and commands of an earlier guide still run (docs/upgrading.md). The folder holds its blocks as they were."""

from __future__ import annotations

import pytest

from tests.docs.guide import ROOT, blocks, commands, parse, run_python

pytestmark = pytest.mark.slow

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/docs").glob("guide-*/*.md"))


@pytest.fixture(autouse=True)
def _working_directory_is_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_pages_have_code_and_commands() -> None:
    found = [block for page in PAGES for block in blocks(page)]
    assert sum(block.language == "python" for block in found) > 20
    assert sum(len(list(commands(block.text))) for block in found) > 20


@pytest.mark.parametrize("page", PAGES)
def test_code_of_the_earlier_guide_runs(page: str) -> None:
    run_python(page)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_earlier_guide_are_valid_usage(page: str) -> None:
    for block in blocks(page):
        if block.language != "python":
            for arguments in commands(block.text):
                parse(arguments)

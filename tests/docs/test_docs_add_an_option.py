"""CONTRIBUTING.md's way to add an option, taken in a copy of the checkout."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.docs.guide import ROOT
from tests.docs.test_docs_add_a_rule import copied_checkout, run

SECTION = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## One option of a command")[2].partition("\n## ")[0]
COMMAND, TEST = "kafkawire/cli/schema_diff.py", "tests/cli/test_cli_schema_diff.py"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^   ```{language}\n(.*?)^   ```$", SECTION, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent("".join(line[3:] or "\n" for line in block.splitlines(keepends=True))) for block in found]


def changed(text: str, diff: str) -> str:
    """A text with the lines of a difference in place of those that it takes away."""
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    assert text.count(before) == 1, before
    return text.replace(before, "".join(line[1:] for line in lines if line[0] in " +"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copied_checkout(tmp_path_factory.mktemp("option"))
    text = (root / COMMAND).read_text("utf-8")
    diffs = blocks("diff")
    assert len(diffs) == 2
    for diff in diffs:
        text = changed(text, diff)
    (root / COMMAND).write_text(text, "utf-8")
    (test,) = blocks("python")
    with (root / TEST).open("a", encoding="utf-8") as file:
        file.write(f"\n\n{test}")
    return root


@pytest.mark.slow
def test_the_files_that_it_names_pass(checkout: Path) -> None:
    named = re.search(r"`\.venv/bin/pytest -q (.*?)`", SECTION)
    assert named is not None
    chosen = "one_message_alone or incompatible or schema or completion or manual"
    found = run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *named[1].split())
    assert "failed" not in found
    assert int(re.findall(r"(\d+) passed", found)[0]) > 10


@pytest.mark.slow
def test_its_help_has_the_option(checkout: Path) -> None:
    shown = run(checkout, "-m", "kafkawire", "schema", "diff", "--help")
    assert re.search(r"--message NAME +Only changes of it; repeatable", shown)
    assert "--message" not in run(ROOT, "-m", "kafkawire", "schema", "diff", "--help")

"""Code and commands of an earlier guide still run (docs/upgrading.md). The folder holds its blocks as they were."""

from __future__ import annotations

import re
import tomllib

import pytest

import kafkawire
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


def test_version_is_the_same_in_every_file() -> None:
    def read(path: str, pattern: str) -> str:
        found = re.search(pattern, (ROOT / path).read_text("utf-8"), re.MULTILINE)
        assert found, path
        return found[1]

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    crate = tomllib.loads((ROOT / "native/Cargo.toml").read_text("utf-8"))["package"]
    assert {
        project["version"],
        crate["version"],
        read("native/crates.lock", r'^name = "kafkawire-native"\nversion = "(.+)"$'),
        read("CHANGELOG.md", r"^## \[(\d.+)\] - \d{4}-\d\d-\d\d$"),
        read("docs/stability.md", r"The current release is (\S+) "),
        read("docs/install.md", r"^kafkawire (\S+) \(native backend\)$"),
        read("kafkawire/messages/__init__.py", r'compiler="(.+?)"'),
    } == {kafkawire.__version__}


def test_every_earlier_release_has_its_notes_and_its_guide() -> None:
    notes = re.findall(r"^## From (.+) to (.+)$", (ROOT / "docs/upgrading.md").read_text("utf-8"), re.MULTILINE)
    earlier = [before for before, _ in notes]
    assert [after for _, after in notes] == [kafkawire.__version__.rpartition(".")[0], *earlier[:-1]]
    guides = {path.name.removeprefix("guide-").rpartition(".")[0] for path in ROOT.glob("tests/docs/guide-*")}
    assert guides == set(earlier)


@pytest.mark.parametrize("page", PAGES)
def test_code_of_the_earlier_guide_runs(page: str) -> None:
    run_python(page)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_earlier_guide_are_valid_usage(page: str) -> None:
    for block in blocks(page):
        if block.language != "python":
            for arguments in commands(block.text):
                parse(arguments)

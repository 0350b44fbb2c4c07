"""docs/DESIGN.md has at most four pages, and its file map names exactly the packages and hand-written modules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest

from kafkawire import logdir, transactions
from tests.docs.guide import ROOT
from tools import pages, rooms

LINES_A_PAGE = 66
CODE = {".py", ".rs"}
DESIGN = (ROOT / "docs" / "DESIGN.md").read_text("utf-8")


def mapped() -> dict[str, set[str]]:
    """The names that the map lists for each folder; names of folders end with a slash.

    A line holds names, then two or more blanks and their description. Lines indented below a folder belong to it.
    """
    found: dict[str, set[str]] = {"": set()}
    above: list[tuple[int, str]] = [(-1, "")]
    for line in DESIGN.partition("\n```\n")[2].partition("\n```\n")[0].splitlines():
        indent = len(line) - len(line.lstrip())
        while above[-1][0] >= indent:
            above.pop()
        names = line.strip().partition("  ")[0].split()
        folder = "".join(name for _, name in above)
        found.setdefault(folder, set()).update(names)
        if names[0].endswith("/"):
            above.append((indent, names[0]))
    return found


def has_code(folder: Path) -> bool:
    return any(path.suffix in CODE for path in folder.rglob("*"))


def built(folder: Path) -> set[str]:
    """The content of a folder: modules, and folders with code at any depth."""
    found = set()
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and has_code(path):
            found.add(f"{path.name}/")
        elif path.suffix in CODE and path.stem not in ("__init__", "__main__", "mod"):
            found.add(path.stem)
    return found


@pytest.mark.parametrize("folder", sorted(mapped().keys() - {""}))
def test_map_equals_the_tree(folder: str) -> None:
    named = mapped()[folder]
    other = {name for name in named if name.endswith("/") and not has_code(ROOT / folder / name)}
    assert all((ROOT / folder / name).is_dir() for name in other)
    assert named - other == built(ROOT / folder)


def test_map_has_every_top_level_folder() -> None:
    tops = {name.partition("/")[0] for name in mapped()[""]}
    assert tops == {"schemas", "codegen", "native", "kafkawire", "tests", "tools", "examples"}
    assert {"codegen/", "native/src/", "kafkawire/", "tools/"} <= mapped().keys()


def test_rooms_are_those_of_the_commits_that_they_name() -> None:
    """And not of a time long ago: the whole has not grown or shrunk by a fifth since."""
    section = pages.sections(DESIGN)[rooms.SECTION]
    named = re.search(r"^\*\*Rooms, at (\w+) and at (\w+)\*\*", section, re.MULTILINE)
    assert named is not None
    try:
        there = rooms.table(*named.groups())
        now, after = (rooms.measured(commit)[1].total() for commit in ("HEAD", named[2]))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"git does not have the commits: {error.stderr.decode()}")
    assert section.splitlines()[1:-1] == there.splitlines()
    assert 0.8 < now / after < 1.2


def test_has_at_most_four_pages() -> None:
    assert len(DESIGN.splitlines()) <= 4 * LINES_A_PAGE


def entered(directory: Path) -> list[str]:
    """The modules of kafkawire that an audit of a log directory enters, in the order in which it does so first."""
    found: dict[str, None] = {}

    def enter(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.setdefault(str(frame.f_globals.get("__name__", "")).removeprefix("kafkawire."))

    transactions.audit(logdir.open(directory))  # imports what it uses
    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        transactions.audit(logdir.open(directory))
    finally:
        sys.setprofile(before)
    return list(found)


def test_an_audit_goes_the_way_that_is_written_here() -> None:
    """At most 20 steps, none of them back up."""
    steps = re.findall(r"\b(\d+)\. `([a-z_.]+)`: ", DESIGN)
    assert [int(number) for number, _ in steps] == [*range(1, len(steps) + 1)]
    assert 10 < len(steps) <= 20
    named = [module for _, module in steps]
    assert [module for module in entered(ROOT / "examples" / "kafka-logs" / "three-nodes") if module in named] == named

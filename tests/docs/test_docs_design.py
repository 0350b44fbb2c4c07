"""docs/DESIGN.md: at most four pages, and a map that names every room and every hand-written module, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.guide import ROOT

LINES_A_PAGE = 66
CODE = {".py", ".rs"}
DESIGN = (ROOT / "docs" / "DESIGN.md").read_text("utf-8")


def mapped() -> dict[str, set[str]]:
    """For each folder whose content the map lists, the names there; those of folders end with a slash.

    A line is names, and from two blanks on what they are for. What is indented below a folder is in it.
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
    """What is in a folder: modules, and folders that have code anywhere below."""
    found = set()
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and has_code(path):
            found.add(f"{path.name}/")
        elif path.suffix in CODE and path.stem not in ("__init__", "__main__", "mod"):
            found.add(path.stem)
    return found


@pytest.mark.parametrize("folder", sorted(mapped().keys() - {""}))
def test_the_map_is_the_tree(folder: str) -> None:
    named = mapped()[folder]
    other = {name for name in named if name.endswith("/") and not has_code(ROOT / folder / name)}
    assert all((ROOT / folder / name).is_dir() for name in other)
    assert named - other == built(ROOT / folder)


def test_every_folder_at_the_top_is_mapped() -> None:
    tops = {name.partition("/")[0] for name in mapped()[""]}
    assert tops == {"schemas", "codegen", "native", "kafkawire", "tests", "tools", "examples"}
    assert {"codegen/", "native/src/", "kafkawire/", "tools/"} <= mapped().keys()


def test_it_is_four_pages_at_most() -> None:
    assert len(DESIGN.splitlines()) <= 4 * LINES_A_PAGE

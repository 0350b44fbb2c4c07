"""`tools.mutation`: that its tables name files and lines that are there, and which mutants it leaves out."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools.mutation.__main__ import HERE, ROOT, changed, read, unexecuted

ROOMS = sorted(HERE.glob("*.toml"))


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.stem)
def test_sources_tests_and_equivalent_lines_exist(room: Path) -> None:
    settings: dict[str, Any] = tomllib.loads(room.read_text("utf-8"))
    for source, tests in settings["tests"].items():
        assert (ROOT / source).is_file()
        for test in tests:
            file, _, name = test.partition("::")
            assert (f"def {name}(" if name else "def test_") in (ROOT / file).read_text("utf-8")
    for each in settings.get("equivalent", ()):
        assert each["file"] in settings["tests"]
        assert each["why"]
        lines = {line.strip() for line in (ROOT / each["file"]).read_text("utf-8").splitlines()}
        assert set(each["old"].splitlines()) <= lines, each
        assert each["new"] != each["old"]


def test_selects_rooms_and_files_by_name() -> None:
    (wire,) = [room for room in ROOMS if room.stem == "wire"]
    everything = list(read(wire, []))
    assert list(read(wire, ["wire"])) == everything
    assert list(read(wire, ["records"])) == []
    (write,) = read(wire, ["kafkawire/wire/write.py"])
    assert write in everything
    assert ('if code == "?":', 'if code is "?":') in write.equivalent


def test_skips_code_without_observable_effect() -> None:
    source = (
        "if TYPE_CHECKING:\n    X = 1\n"
        "class A(Struct, frozen=True, gc=False):\n    a: 'int | None' = 1\n"
        "@dataclass(slots=True)\ndef f(a: int | None) -> int | None: ...\n"
    )
    left_out = [ast.unparse(node).partition("\n")[0] for node in unexecuted(ast.parse(source))]
    assert sorted(left_out) == ["'int | None'", "gc=False", "if TYPE_CHECKING:", *["int | None"] * 2, "slots=True"]


def test_splits_a_diff_into_two_texts() -> None:
    diff = "--- mutation diff ---\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n same\n-    if a:\n+    if not a:\n"
    assert changed(diff) == ("if a:", "if not a:")

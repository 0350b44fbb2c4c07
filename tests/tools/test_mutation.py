"""`tools.mutation`: that its tables name files and lines that are there, and which mutants it leaves out."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.mutation import mutation_table, rust
from tools.mutation.__main__ import HERE, ROOT, changed, read, unexecuted
from tools.mutation.mutation_table import MutationOutcome
from tools.mutation.sample import draw

PACKAGES = sorted(HERE.glob("*.toml"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.stem)
def test_sources_tests_and_equivalent_lines_exist(package: Path) -> None:
    settings: dict[str, Any] = tomllib.loads(package.read_text("utf-8"))
    for source, tests in settings["tests"].items():
        assert (ROOT / source).exists()
        for test in tests:
            file, _, name = test.partition("::")
            assert (f"def {name}(" if name else "def test_") in (ROOT / file).read_text("utf-8")
    for each in settings.get("equivalent", ()):
        assert list(read(package, [each["file"]]))
        assert each["why"]
        lines = {line.strip() for line in (ROOT / each["file"]).read_text("utf-8").splitlines()}
        assert set(each["old"].splitlines()) <= lines, each
        assert each["new"] != each["old"]


def test_selects_packages_and_files_by_name() -> None:
    (wire,) = [package for package in PACKAGES if package.stem == "wire"]
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


def test_a_folder_stands_for_all_its_sources_in_rust() -> None:
    (native,) = [package for package in PACKAGES if package.stem == "native"]
    found = [target.source for target in read(native, ["native/src/records"])]
    assert "native/src/records/varint.rs" in found
    assert found == [source for source in found if source.startswith("native/src/records/")]
    (varint,) = read(native, ["native/src/records/varint.rs"])
    assert varint in list(read(native, ["native"]))


def test_draws_from_each_line_before_any_line_gives_a_second_mutant() -> None:
    mutants = [(line, number) for line in range(5) for number in range(3)]
    drawn = draw(mutants, 7, 1, lambda mutant: mutant[0])
    assert sorted(line for line, _ in drawn[:5]) == [0, 1, 2, 3, 4]
    assert len(set(drawn)) == 7
    assert drawn == draw(mutants, 7, 1, lambda mutant: mutant[0])


def test_replaces_what_a_mutant_spans() -> None:
    span = {"start": {"line": 2, "column": 3}, "end": {"line": 3, "column": 2}}
    mutant = {"span": span, "replacement": "0"}
    assert rust.applied("fn é() {\n  a +\n1\n}\n", mutant) == "fn é() {\n  0\n}\n"
    assert rust.line(mutant) == 2


def test_values_get_the_type_that_an_alias_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others name functions that no type has."""
    replacements = ["PyResult::new((0, 1))", "Read::new(None)", "Read::new()", "Array::from_iter([0])", "Some(1)", "*="]
    printed = json.dumps([{"replacement": each} for each in replacements])
    monkeypatch.setattr(rust.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=printed))
    assert [mutant["replacement"] for mutant in rust.listed("native/src/a.rs")] == [
        "Ok((0, 1))", "Ok(None)", "Some(1)", "*=",
    ]  # fmt: skip


def test_rows_of_a_run_replace_those_of_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- mutation -->\n| wire | old |\n| records | kept |\n<!-- /mutation -->\nafter\n")
    monkeypatch.setattr(mutation_table, "PAGE", page)
    monkeypatch.setattr(mutation_table, "commit", lambda: "abc")
    outcomes = {
        "wire": [
            MutationOutcome("kafkawire/wire/read.py", 5, 1, 0),
            MutationOutcome("kafkawire/wire/write.py", 3, 0, 2),
        ],
        "offsets": [MutationOutcome("kafkawire/offsets/story.py", 4, 0, 0)],
        "logdir": [],
    }
    mutation_table.write(outcomes, {"wire"}, 5, 7)
    assert page.read_text().splitlines() == [
        "before",
        "<!-- mutation -->",
        *mutation_table.HEAD,
        "| offsets: `story` | 1 | 5, 7 | 4 | 4 | 0 | 0 | abc |",
        "| records | kept |",
        "| wire | 2 | 5, 7 | 8 | 5 | 1 | 2 | abc |",
        "<!-- /mutation -->",
        "after",
    ]

"""Which tests `make test-quick` leaves out: what tests/distribution.py reads and tests/processor_time.py writes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import distribution, processor_time

SLOW_FILES = [
    "pytestmark = pytest.mark.slow",
    "pytestmark = [pytest.mark.broker, pytest.mark.slow]",
    "import pytest\n\npytestmark = pytest.mark.spark\n",
]
OTHER_FILES = [
    "@pytest.mark.slow\ndef test_a() -> None: ...",
    "pytestmark = pytest.mark.skipif(True, reason='')",
    "    pytestmark = pytest.mark.slow",
    "pytestmark = pytest.mark.slowly",
]


def ignored(path: Path, root: Path, expression: str) -> bool | None:
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=expression), rootpath=root)
    return distribution.pytest_ignore_collect(path, config)


@pytest.mark.parametrize(
    ("text", "slow"), [*((text, True) for text in SLOW_FILES), *((text, None) for text in OTHER_FILES)]
)
def test_files_of_slow_tests_alone_are_not_imported(tmp_path: Path, text: str, slow: bool | None) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(text)
    for expression in ("not slow", "not slow and not lengthy"):
        assert ignored(path, tmp_path, expression) is slow
    for expression in ("", "slow", "not deployment"):
        assert ignored(path, tmp_path, expression) is None
    other = tmp_path / "slow.py"
    other.write_text(text)
    assert ignored(other, tmp_path, "not slow") is None  # conftest.py, and helpers


def test_files_of_lengthy_tests_alone_are_imported_for_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        distribution, "lengthy", lambda: frozenset({"tests/test_long.py", "tests/test_some.py::test_a"})
    )
    (tmp_path / "tests").mkdir()
    for name, found in (("test_long.py", True), ("test_some.py", None)):
        path = tmp_path / "tests" / name
        path.write_text("")
        assert ignored(path, tmp_path, "not slow and not lengthy") is found
        assert ignored(path, tmp_path, "not slow") is None


def test_names_are_of_functions_that_take_long_on_average_and_of_files_that_have_no_others() -> None:
    taken = {
        "tests/a.py::test_short": [0.001],
        "tests/a.py::test_long": [0.5],
        "tests/a.py::test_one_of_many": [0.5, *[0.001] * 50],
        "tests/b.py::test_long": [0.03, 0.03],
        "tests/b.py::Some::test_long": [0.1],
    }
    assert processor_time.names(taken) == ["tests/a.py::test_long", "tests/b.py"]

"""Options of the data sources: names in any case, values that are checked, paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark.sources import SourceOptions


def test_names_and_choices_are_case_insensitive() -> None:
    options = SourceOptions({"ROWS": "Headers", "Mode": "failfast", "filterpushdown": "TRUE"})
    assert options.choice("rows", ("records", "headers")) == "headers"
    assert options.fail_fast
    assert options.filter_pushdown


def test_defaults() -> None:
    options = SourceOptions({})
    assert options.choice("rows", ("records", "headers")) == "records"
    assert options.several("kinds", ("a", "b")) == ("a", "b")
    assert options.number("settleSeconds", 10, least=0) == 10
    assert not options.fail_fast
    assert not options.filter_pushdown


def test_several_come_in_the_sources_order() -> None:
    assert SourceOptions({"kinds": "c, A"}).several("kinds", ("a", "b", "c")) == ("a", "c")


@pytest.mark.parametrize(("text", "least", "number"), [("7", 1, 7), ("0", 0, 0)])
def test_numbers(text: str, least: int, number: int) -> None:
    assert SourceOptions({"n": text}).number("n", 3, least=least) == number


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "LAX"}, "mode is PERMISSIVE or FAILFAST, not LAX"),
        ({"rows": "bytes"}, "rows is records, batches or headers, not bytes"),
        ({"body": "yes"}, "body is false or true, not yes"),
        ({"kinds": "a,x,y"}, "kinds are some of a, b, not x, y"),
        ({"n": "0"}, "n is a positive number, not 0"),
        ({"n": "-1"}, "n is a positive number, not -1"),
        ({"n": "\u0663"}, "n is a positive number, not \u0663"),
    ],
)
def test_rejects_invalid_values(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_all(given)
    assert str(caught.value) == said


def read_all(given: dict[str, str]) -> None:
    options = SourceOptions(given)
    options.choice("rows", ("records", "batches", "headers"))
    options.flag("body")
    options.several("kinds", ("a", "b"))
    options.number("n", 1)


def test_paths(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).touch()
    (tmp_path / "x[1]").touch()
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert SourceOptions({"path": str(tmp_path / "[ab]")}).paths == both
    assert (
        SourceOptions({"path": f"file:{tmp_path}/a"}).paths
        == SourceOptions({"path": f"file://{tmp_path}/a"}).paths
        == both[:1]
    )
    assert SourceOptions({"paths": json.dumps([*both, "s3://logs/*"])}).paths == [*both, "s3://logs/*"]
    assert SourceOptions({"path": str(tmp_path / "x[1]")}).paths == [str(tmp_path / "x[1]")]
    with pytest.raises(ValueError, match="no path is given"):
        _ = SourceOptions({}).paths
    with pytest.raises(FileNotFoundError, match="nothing matches"):
        _ = SourceOptions({"path": str(tmp_path / "n*")}).paths

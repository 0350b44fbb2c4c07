"""`kafkawire compare`: its output, its errors, its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests import golden
from tests.cli.runner import Run
from tools.recordings.archive import ROOT, unpacked

pytestmark = pytest.mark.slow

REPLICAS = tuple(str(ROOT / "examples" / "kafka-logs" / "three-nodes" / f"broker-{number}") for number in (1, 2))


@pytest.mark.parametrize("format", ["table", "jsonl"])
def test_output(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    shutil.copytree(unpacked("every-offset"), tmp_path / "copies")
    monkeypatch.chdir(tmp_path)
    ended = run("compare", "copies/old-leader", "copies/rejoined", "--topic", "unclean", "--format", format)
    assert ended.code == 3
    golden.check(f"cli/compare.{format}.txt", ended.text, "unclean")


@pytest.mark.parametrize("by", ["offsets", "order"])
def test_replicas_are_the_same(run: Run, by: str) -> None:
    ended = run("compare", *REPLICAS, "--by", by, "--format", "jsonl")
    assert ended.code == 0
    rows = [json.loads(line) for line in ended.text.splitlines()]
    assert {row["kind"] for row in rows} == {"compared"}
    assert all(row["in_a"] == row["same"] == row["in_b"] for row in rows)


def test_a_missing_segment_makes_the_answer_incomplete(run: Run, tmp_path: Path) -> None:
    copy = shutil.copytree(REPLICAS[1], tmp_path / "copy")
    shutil.rmtree(copy / "ledger-0")
    ended = run("compare", REPLICAS[0], copy, "--format", "jsonl")
    assert ended.code == 4
    assert "ledger-0: only A has a copy" in ended.err


def test_segments_that_were_not_copied_are_not_expired(run: Run, tmp_path: Path) -> None:
    """Where the first segment of a copy is missing, retention would have moved the start of its first leader epoch."""
    whole = unpacked("isolation-levels") / "3.9.1" / "node-1"
    copy = shutil.copytree(whole, tmp_path / "copy")
    (copy / "hanging-0" / f"{0:020}.log").unlink()
    ended = run("compare", whole, copy, "--topic", "hanging", "--format", "jsonl")
    assert ended.code == 4
    (found,) = (row for row in map(json.loads, ended.text.splitlines()) if row["kind"] == "difference")
    assert (found["difference"], found["first_offset"], found["last_offset"]) == ("unreadable", 0, 9)
    explained = run("explain", copy, "--topic", "hanging", "--partition", 0, "--format", "jsonl")
    assert explained.code == 4
    assert json.loads(explained.text.splitlines()[0])["last_stable_offset"] == 8  # an open transaction in the segment


def test_errors(run: Run) -> None:
    assert run("compare", REPLICAS[0]).code == 2
    assert run("compare", REPLICAS[0], "no-such").code == 1
    assert run("compare", *REPLICAS, "--by", "time").code == 2
    nothing = run("compare", *REPLICAS, "--topic", "no-such")
    assert nothing.code == 4
    assert "the paths hold no partition of no-such" in nothing.err

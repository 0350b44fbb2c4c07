"""`kafkawire explain`: its output, its errors, its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import golden
from tests.cli.runner import Run
from tools.recordings.archive import ROOT, unpacked

pytestmark = pytest.mark.slow

THREE_NODES = str(ROOT / "examples" / "kafka-logs" / "three-nodes")
ORDERS = ("--topic", "orders", "--partition", "0")


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded cluster at a short path."""
    shutil.copytree(unpacked("every-offset"), tmp_path / "copies")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "copies"


def damage_mixed(logs: Path) -> None:
    segment = sorted((logs / "node-3" / "mixed-0").glob("*.log"))[1]
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)


@pytest.mark.parametrize("topic", ["mixed", "hanging", "compacted", "deleted", "repeated", "waiting", "unclean"])
def test_output_of_every_status(run: Run, logs: Path, topic: str) -> None:
    folders = ["copies/old-leader", "copies/new-leader"] if topic == "unclean" else ["copies/node-3"]
    asked = ("explain", *folders, "--topic", topic, "--partition", "0", "--max-ranges", "12", "--equal-records")
    for format in ("table", "jsonl"):
        golden.check(f"cli/explain.{format}.txt", run(*asked, "--format", format).text, topic)


def test_output_of_the_story_of_an_offset(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    asked = ("explain", "examples/kafka-logs/three-nodes", *ORDERS, "--offset", "4")
    for format in ("table", "jsonl"):
        golden.check(f"cli/explain.{format}.txt", run(*asked, "--format", format).text, "the story of one")


def test_a_part_has_the_offsets_that_are_asked_for(run: Run) -> None:
    asked = ("explain", f"{THREE_NODES}/broker-1", *ORDERS, "--format", "jsonl")
    found = [row for row in lines(run(*asked, "--from", "5", "--to", "12").text) if row["kind"] == "range"]
    assert [(row["first_offset"], row["last_offset"]) for row in found] == [(5, 8), (9, 10), (11, 11)]
    found = [row for row in lines(run(*asked, "--max-ranges", "2").text) if row["kind"] == "range"]
    assert sum(row["offsets"] for row in found) == 23
    assert len(found) == 2


def test_offsets_that_cannot_be_read_are_listed_with_exit_code_4(run: Run, logs: Path) -> None:
    damage_mixed(logs)
    asked = ("explain", "copies/node-3", "--topic", "mixed", "--partition", "0", "--format", "jsonl")
    result = run(*asked)
    assert result.code == 4
    lost = [row for row in lines(result.text) if row.get("status") == "unreadable" and row["kind"] == "range"]
    (damage,) = (row for row in lines(result.text) if row["kind"] == "damage")
    assert [(row["reason"], row["position"]) for row in lost] == [("crc_mismatch", 0)]
    assert (damage["reason"], damage["position"]) == ("crc_mismatch", 0)
    what = f"{lost[0]['offsets']} offsets are unreadable: {lost[0]['detail']}"
    assert result.err.startswith(f"incomplete: copies/node-3/mixed-0: {what}")
    one = run(*asked, "--offset", str(lost[0]["first_offset"]))
    assert (one.code, lines(one.text)[0]["status"]) == (4, "unreadable")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--topic", "order", "--partition", "0"), "the paths hold no topic 'order'; near: orders"),
        (("--topic", "orders", "--partition", "9"), "the paths hold no partition 9 of orders; there are 0, 1, 2"),
        ((*ORDERS, "--offset", "23"), "--offset: orders-0 ends at offset 23, before 23"),
        ((*ORDERS, "--from", "23"), "--from: orders-0 ends at offset 23, before 23"),
        ((*ORDERS, "--to", "24"), "--to: orders-0 ends at offset 23, before 24"),
        ((*ORDERS, "--from", "7", "--to", "7"), "no offset is in 7 to 7: --from must be below --to"),
        ((*ORDERS, "--to", "0"), "no offset is in 0 to 0: --from must be below --to"),
        ((*ORDERS, "--report", "page.html", "-o", "./page.html"), "--report and --output are both page.html"),
        ((*ORDERS, "--offset", "1", "--from", "0"),
         "--offset goes with none of --from, --to, --equal-records and --report"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence_with_exit_code_2(run: Run, arguments: tuple[str, ...], error: str) -> None:
    result = run("explain", THREE_NODES, *arguments)
    assert (result.code, result.out) == (2, b"")
    assert result.err == f"error: {error} (kafkawire explain --help)\n"


def test_rejects_a_partition_without_segments(run: Run) -> None:
    manifest = next(unpacked("tier-objects").glob("plain/*/0/*.rsm-manifest"))
    result = run("explain", str(manifest), *ORDERS)
    assert (result.code, result.out) == (2, b"")
    assert result.err == "error: the paths hold no segment of orders-0 (kafkawire explain --help)\n"


def test_report_on_standard_output_keeps_exit_code_and_output_file(run: Run, logs: Path) -> None:
    damage_mixed(logs)
    asked = ("explain", "copies/node-3", "--topic", "mixed", "--partition", "0", "--report", "-")
    result = run(*asked)
    assert (result.code, result.out[:15]) == (4, b"<!doctype html>")
    assert run(*asked, "-o", "rows.jsonl").code == 4
    assert lines(Path("rows.jsonl").read_text("utf-8"))[-1]["kind"] == "damage"


def test_report_has_a_section_of_each_replica(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "offsets.html"
    assert run("explain", THREE_NODES, *ORDERS, "--report", str(page)).code == 0
    assert page.read_text("utf-8").count("What its 23 offsets are") == 3
    audit = tmp_path / "audit.html"
    arguments = ("audit", THREE_NODES, "--jobs", "1", "--report", str(audit))
    assert run(*arguments, "--explain", "payments-0").code == 3
    assert audit.read_text("utf-8").count("What its 28 offsets are") == 3
    for name in ("orders-99", "orders"):
        assert run(*arguments, "--explain", name).code == 2

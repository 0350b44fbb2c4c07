"""`kafkawire explain --share-group` on recorded copies: its output, its errors, its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests import golden
from tests.cli.runner import Run
from tools.recordings import share_groups
from tools.recordings.archive import unpacked

pytestmark = pytest.mark.slow


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded cluster at a short path."""
    shutil.copytree(unpacked(share_groups.NAME) / "kafka-4.4.0", tmp_path / "copies")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "copies"


@pytest.mark.parametrize("group", ["auditors", "trimmers", "bookkeepers"])
def test_output_of_a_group(run: Run, logs: Path, group: str) -> None:
    asked = ("explain", "copies/node-1", "copies/node-2", "--share-group", group, "--max-ranges", "12")
    for format in ("table", "jsonl"):
        found = run(*asked, "--format", format)
        assert (found.code, found.err) == (0, "")
        golden.check(f"cli/explain_shares.{format}.txt", found.text, group)


def test_output_of_the_story_of_an_offset(run: Run, logs: Path) -> None:
    """Offset 16 of partition 1: released to the limit, and in the dead-letter topic."""
    asked = ("explain", "copies/node-1", "copies/node-2", "--share-group", "auditors", "--topic", "orders")
    for format in ("table", "jsonl"):
        found = run(*asked, "--partition", "1", "--offset", "16", "--format", format)
        golden.check(f"cli/explain_shares.{format}.txt", found.text, "the story of one")


def test_what_is_missing_is_named_and_makes_exit_code_4(run: Run, logs: Path) -> None:
    """Without a partition of the state; without the dead-letter topic; with damage in a record of the state."""
    for node in (1, 2):
        shutil.rmtree(logs / f"node-{node}" / "__share_group_state-0")
        shutil.rmtree(logs / f"node-{node}" / f"{share_groups.DEAD_LETTERS}-0")
    found = run("explain", str(logs), "--share-group", "auditors", "--format", "jsonl")
    assert found.code == 4
    assert "__share_group_state-0, which may keep states of the group, is not here" in found.err
    rows = [json.loads(line) for line in found.text.splitlines()]
    problems = [text for row in rows if row["kind"] == "share_partition" for text in row["problems"]]
    assert any(f"no copy of the dead-letter topic {share_groups.DEAD_LETTERS} is here" in text for text in problems)
    # Without the copies it is not certain why: no reason is made up.
    reasons = {row["reason"] for row in rows if row["kind"] == "share_total" and row["status"] == "archived"}
    assert "delivery_limit" not in reasons


def test_damage_in_the_state_makes_exit_code_4(run: Run, logs: Path) -> None:
    for path in logs.glob("node-*/__share_group_state-1/*.log"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    found = run("explain", str(logs), "--share-group", "auditors", "--format", "jsonl")
    assert found.code == 4
    assert "__share_group_state-1" in found.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--share-group", "auditors", "--partition", "1"), "--partition needs --topic"),
        (("--share-group", "auditors", "--topic", "orders", "--offset", "1"), "--offset needs --topic and --partition"),
        (("--share-group", "auditors", "--from", "1"), "--from does not go with --share-group"),
        (("--topic", "orders"), "give --topic and --partition, or --share-group"),
        (
            ("--topic", "orders", "--partition", "0", "--delivery-count-limit", "3"),
            "--delivery-count-limit needs --share-group",
        ),
    ],
)
def test_options_that_do_not_go_together(run: Run, logs: Path, options: tuple[str, ...], text: str) -> None:
    found = run("explain", str(logs), *options)
    assert found.code == 2
    assert text in found.err


def test_a_group_that_is_not_there_and_an_offset_that_it_has_not_reached(run: Run, logs: Path) -> None:
    found = run("explain", str(logs), "--share-group", "nobody\x1b[31m")
    assert found.code != 0
    assert "names group nobody" in found.err
    assert "\x1b" not in found.err
    asked = ("explain", str(logs), "--share-group", "auditors", "--topic", "orders", "--partition", "0")
    found = run(*asked, "--offset", "999")
    assert found.code != 0
    assert "offset 999 is not below the high watermark, 77" in found.err


def test_dump_names_topics_and_states(run: Run, logs: Path) -> None:
    """Of a folder of one partition, too: the names are those of its neighbours."""
    found = run("dump", str(logs / "node-1" / "__share_group_state-1"), "--print-data-log", "--format", "jsonl")
    rows = [json.loads(line) for line in found.text.splitlines()]
    decoded = [row["decoded"] for row in rows if row["kind"] == "record" and row["decoded"]]
    named = {one["key"]["data"].get("topicName") for one in decoded}
    assert named & {"orders", "trimmed", "ledger"}
    batches = [one for row in decoded if row["value"] for one in row["value"]["data"]["stateBatches"]]
    assert {(one["deliveryState"], one["deliveryStateName"]) for one in batches} >= {
        (0, "available"), (2, "acknowledged"), (4, "archived"),
    }  # fmt: skip


def test_lag_counts_what_was_not_finished_and_tells_what_was_archived(run: Run, logs: Path) -> None:
    """Every record of `trimmed` is finished with: nine of them unread."""
    asked = ("lag", str(logs), "--group", "trimmers", "--format", "jsonl")
    (row,) = [json.loads(line) for line in run(*asked).text.splitlines()]
    assert (row["topic"], row["committed_offset"], row["read_uncommitted"]["most"]) == ("trimmed", 14, 0)
    assert row["archived"] == {"below_log_start": 4, "rejected": 5}
    everything = [json.loads(line) for line in run("lag", str(logs), "--format", "jsonl").text.splitlines()]
    assert row in everything
    assert {one["group"] for one in everything} == {"auditors", "bookkeepers", "trimmers", "workers"}


def test_why_names_the_transaction_that_a_share_group_waits_for(run: Run, logs: Path) -> None:
    found = run("why", str(logs), "--group", "bookkeepers", "--format", "json")
    answer = json.loads(found.text)
    (blocker,) = answer["blockers"]
    assert (blocker["transactional_id"], blocker["waits"][0]["topic"]) == ("open-service", "ledger")
    assert [(one["topic"], one["held"]["most"]) for one in answer["lags"]] == [("ledger", 3)]


def test_audit_judges_share_groups(run: Run, logs: Path) -> None:
    """Brokers write nothing into a dead-letter topic whose name lacks their prefix, and archive nonetheless."""
    found = run("audit", str(logs), "--format", "jsonl")
    assert found.code in (3, 5)
    rows = [json.loads(line) for line in found.text.splitlines()]
    answers = {row["check"]: row["answer"] for row in rows if row["kind"] == "answer"}
    assert {check for check, answer in answers.items() if answer == "violated"} == {"share_dead_letter"}
    assert answers["share_transition"] == answers["share_snapshot"] == "holds"
    (violation,) = [row for row in rows if row["kind"] == "violation"]
    assert violation["what"].endswith(f"is not in {share_groups.MISNAMED}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--bootstrap-controller", "127.0.0.1:1"), "--bootstrap-controller goes with --partition-history"),
        (
            ("--bootstrap-controller", "127.0.0.1:1", "--bootstrap-server", "127.0.0.1:1", "--partition-history"),
            "give --bootstrap-controller or --bootstrap-server",
        ),
        (
            ("copies", "--bootstrap-controller", "127.0.0.1:1", "--partition-history"),
            "give log directories (PATH...), or a",
        ),
        (
            ("--bootstrap-controller", "127.0.0.1:1", "--partition-history", "--offset", "3"),
            "--offset does not go with",
        ),
    ],
)
def test_options_that_do_not_go_with_controllers_are_refused(run: Run, words: tuple[str, ...], expected: str) -> None:
    found = run("explain", *words, "--topic", "orders", "--partition", "0")
    assert found.code == 2
    assert expected in " ".join(found.err.split())

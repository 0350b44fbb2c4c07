"""`kafkawire audit` on copies of real clusters, against what their brokers answered (`tools.recordings.clusters`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Run
from tests.recorded_clusters import ALL, STOPPED, Copy, Place

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
_audits: dict[tuple[Copy, int | None], tuple[int, dict[str, Any]]] = {}


def audit(run: Run, copy: Copy, as_of: int | None = None) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON, made once."""
    if (copy, as_of) not in _audits:
        clock = [] if as_of is None else ["--as-of", as_of]
        done = run("audit", copy.path, "--jobs", 1, "--format", "json", *copy.options, *clock)
        _audits[copy, as_of] = done.code, json.loads(done.text)
    return _audits[copy, as_of]


def place_of(finding: dict[str, Any]) -> Place:
    return finding["topic"], finding["partition"], finding["producer_id"], finding["start_offset"]


def found(answer: dict[str, Any], verdict: str) -> dict[Place, str]:
    return {place_of(one): one["reason"] for one in answer["findings"] if one["verdict"] == verdict}


@pytest.mark.parametrize("copy", ALL, ids=str)
def test_what_hangs_is_found_and_nothing_else_hangs(run: Run, copy: Copy) -> None:
    code, answer = audit(run, copy)
    assert code in ((3,) if copy.stopped else (3, 4, 5))
    made, hanging = copy.left_open("hanging"), found(answer, "hanging")
    assert hanging.items() <= made.items()
    if copy.stopped or copy.one_clock or copy.measured:
        assert hanging == made
    for finding in answer["findings"]:
        if place_of(finding) in made.keys() - hanging.keys():
            # Running copies reach less far behind it than brokers' clocks may differ.
            missing = {one["name"] for one in finding["premises"] if not one["holds"]}
            assert (finding["verdict"], missing) == ("unknown", {"reach"})
    assert copy.left_open("not_hanging").items() <= found(answer, "not_hanging").items()


@pytest.mark.parametrize("copy", ALL, ids=str)
def test_what_is_open_at_the_end_is_a_finding(run: Run, copy: Copy) -> None:
    places = {place_of(one) for one in audit(run, copy)[1]["findings"]}
    expected = {place for verdict in ("hanging", "not_hanging") for place in copy.left_open(verdict)}
    assert places >= expected
    assert not copy.stopped or places == expected


@pytest.mark.parametrize("copy", ALL, ids=str)
def test_all_of_transaction_state_is_read_and_nothing_is_damaged(run: Run, copy: Copy) -> None:
    _, answer = audit(run, copy)
    assert answer["read"]["transaction_state"] == list(range(copy.truth["transaction_state_partitions"]))
    assert answer["read"]["transaction_state_missing"] == []
    assert answer["damage"] == []


@pytest.mark.parametrize("copy", ALL, ids=str)
def test_no_rule_is_broken_but_by_what_hangs(run: Run, copy: Copy) -> None:
    _, answer = audit(run, copy)
    made = copy.left_open("hanging")
    for violation in answer["violations"]:
        assert violation["check"] == "transaction_unknown_to_coordinator", violation
        where = violation["topic"], violation["partition"], violation["producer_id"], violation["offset"]
        assert where in made


@pytest.mark.parametrize("copy", STOPPED, ids=str)
def test_the_answer_after_a_clean_stop_is_complete(run: Run, copy: Copy) -> None:
    _, answer = audit(run, copy)
    assert answer["read"]["gaps"] == []
    assert answer["read"]["complete"]
    assert not found(answer, "unknown")


@pytest.mark.parametrize("copy", STOPPED, ids=str)
def test_two_hours_later_all_that_hangs_does_and_what_ran_is_late(run: Run, copy: Copy) -> None:
    code, answer = audit(run, copy, copy.truth["asked_at"] + 2 * HOUR_MS)
    assert code == 3
    assert found(answer, "hanging") == copy.left_open("hanging")
    assert found(answer, "not_hanging") == dict.fromkeys(copy.left_open("not_hanging"), "late")


@pytest.mark.parametrize("copy", STOPPED, ids=str)
def test_findings_have_the_offsets_states_and_times_of_the_brokers(run: Run, copy: Copy) -> None:
    _, answer = audit(run, copy)
    offsets = {(one["topic"], one["partition"]): one for one in copy.truth["offsets"]}
    producers = {(one["topic"], one["partition"], one["producer_id"]): one for one in copy.truth["producers"]}
    states = {one["producer_id"]: one for one in copy.truth["transactions"]}
    for finding in answer["findings"]:
        at_leader = offsets[finding["topic"], finding["partition"]]
        for name in ("last_stable_offset", "high_watermark", "log_start_offset"):
            assert finding[name] == at_leader[name]
        producer = producers[place_of(finding)[:3]]
        assert finding["start_offset"] == producer["current_txn_start_offset"]
        for name in ("producer_epoch", "last_timestamp"):
            assert finding[name] == producer[name]
        if states:
            state = states.get(finding["producer_id"], {"transactional_id": None, "state": None})
            assert finding["transactional_id"] == state["transactional_id"]
            assert finding["coordinator_state"] == state["state"]


@pytest.mark.parametrize("copy", ALL, ids=str)
def test_what_a_premise_rests_on_is_a_file_with_its_place(run: Run, copy: Copy) -> None:
    _, answer = audit(run, copy)
    premises = [one for finding in (answer["read"], *answer["findings"]) for one in finding["premises"]]
    sources = [one for premise in premises for one in str(premise["source"]).split("; ")]
    places = [one.partition(": offset ") for one in sources if not one.startswith("and ")]
    assert [path for path, _, _ in places if not Path(path).exists()] == []
    with_offset = {Path(path).name for path, _, offset in places if offset.isdigit()}
    assert with_offset
    assert all(name.startswith("__transaction_state-") for name in with_offset)


@pytest.mark.parametrize("copy", STOPPED, ids=str)
def test_what_kafkas_tool_finds_is_found(run: Run, copy: Copy) -> None:
    hanging = found(audit(run, copy)[1], "hanging")
    theirs = {
        (row["Topic"], int(row["Partition"]), int(row["ProducerId"]), int(row["StartOffset"]))
        for row in copy.truth["found_by_kafka"]
    }
    assert theirs <= set(hanging)

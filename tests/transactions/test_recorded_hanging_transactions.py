"""All ways in which transactions hang or only seem to, by real brokers, against a written truth table.

`python -m tools.recordings hanging-transactions` makes them, and fails where the brokers answer otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from kafkawire import logdir, rows, transactions
from kafkawire.transactions import Settings
from kafkawire.transactions.checks.check_names import CHECKS
from tools.recordings import hanging_transactions
from tools.recordings.archive import unpacked

HANGING = unpacked("hanging-transactions")
TRUTH: dict[str, Any] = json.loads((HANGING / "truth.json").read_text("utf-8"))
CLOCKS = ("as_of", "later")

#: What is open and not hanging breaks a rule, too, where it is open for a wrong reason.
CHECKS_OF_REASONS = {"late": "late_transaction", "ghost": "snapshot_ghost"}

#: What the brokers named as well as we do. Kafka's -1 for "no marker yet" is None here.
FIELDS = (
    "blocked", "topic", "partition", "producer_id", "producer_epoch", "start_offset", "last_timestamp",
    "coordinator_epoch", "transactional_id", "coordinator_state",
)  # fmt: skip


@cache
def audit(clock: str) -> rows.Audit:
    return transactions.audit(logdir.open(str(HANGING)), Settings(as_of=TRUTH[clock]))


def verdict_of(row: dict[str, Any], clock: str) -> tuple[str, str]:
    judged = row["later"] if clock == "later" else row
    return judged["verdict"], judged["reason"]


def value_of(finding: rows.Finding) -> Callable[[str], Any]:
    def value(name: str) -> Any:
        found = getattr(finding, name)
        return -1 if name == "coordinator_epoch" and found is None else found

    return value


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS)
def test_every_open_transaction_gets_its_verdict_and_nothing_else_does(clock: str) -> None:
    found = {(finding.verdict, finding.reason, *map(value_of(finding), FIELDS)) for finding in audit(clock).findings}
    expected = {(*verdict_of(row, clock), *(row[name] for name in FIELDS)) for row in TRUTH["open"]}
    assert found == expected
    assert audit(clock).read.complete
    assert audit(clock).damage == ()


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS)
def test_the_rules_that_were_broken_are_named_and_no_other(clock: str) -> None:
    broken = TRUTH["broken"] + (TRUTH["broken_later"] if clock == "later" else [])
    found = {
        (violation.check, of_coordinator(violation) or f"{violation.topic}-{violation.partition}")
        for violation in audit(clock).violations
    }
    expected = {(row["check"], row["of"]) for row in broken}
    for row in TRUTH["open"]:
        verdict, reason = verdict_of(row, clock)
        check = "transaction_unknown_to_coordinator" if verdict == "hanging" else CHECKS_OF_REASONS.get(reason)
        if check is not None:
            expected.add((check, f"{row['topic']}-{row['partition']}"))
    assert found == expected


def of_coordinator(violation: rows.Violation) -> str | None:
    """The transactional id, where a record of the coordinator breaks the rule."""
    return violation.transactional_id if violation.topic == "__transaction_state" else None


def test_every_rule_is_answered() -> None:
    answers = {answer.check: answer for answer in audit("later").answers}
    assert set(answers) <= set(CHECKS)
    assert {check for check, answer in answers.items() if answer.answer == "violated"} == {
        "transaction_unknown_to_coordinator", "late_transaction", "snapshot_ghost", "prepare_completed", "one_outcome",
        "producer_id_unique",
    }  # fmt: skip
    assert answers["open_transaction"].noted == len(TRUTH["open"])


def test_finds_nothing_open_in_quiet_partitions() -> None:
    places = {f"{finding.topic}-{finding.partition}" for finding in audit("later").findings}
    assert not places & set(TRUTH["quiet"])
    known = {f"{topic}-{number}" for topic, count in hanging_transactions.TOPICS.items() for number in range(count)}
    assert set(TRUTH["quiet"]) < known
    assert TRUTH["quiet"] == hanging_transactions.QUIET


def test_the_recorded_table_is_what_its_recorder_would_write() -> None:
    recorded = {"asked_at": TRUTH["as_of"], "open": TRUTH["open"], "offsets": TRUTH["offsets"]}
    assert hanging_transactions.truth_of(recorded) == TRUTH


def test_offsets_are_those_that_the_brokers_named() -> None:
    truth = {(row["topic"], row["partition"]): row for row in TRUTH["offsets"]}
    for finding in audit("as_of").findings:
        row = truth[finding.topic, finding.partition]
        assert finding.last_stable_offset == row["last_stable_offset"]
        assert finding.high_watermark == row["high_watermark"]
        assert finding.log_start_offset == row["log_start_offset"]


def test_every_reason_has_a_recorded_transaction() -> None:
    reasons = {verdict_of(row, clock)[1] for row in TRUTH["open"] for clock in CLOCKS}
    assert reasons == {
        "no_transactional_id", "transaction_ended", "epoch_bumped", "partition_not_in_transaction", "live", "late",
        "stuck_prepare", "two_phase_commit", "ghost", "young",
    }  # fmt: skip


@pytest.mark.slow
def test_a_missing_partition_makes_verdicts_unknown_never_hanging() -> None:
    """Without one partition of the coordinators' log, an id could be there: only what is known otherwise is judged."""
    paths = [
        str(path)
        for broker in sorted(HANGING.glob("broker-*"))
        for path in sorted(broker.iterdir())
        if path.is_dir() and path.name != "__transaction_state-0"
    ]
    left_out = transactions.audit(logdir.open(*paths), Settings(as_of=TRUTH["later"], transaction_state_partitions=3))
    complete = {(f.topic, f.partition, f.start_offset): f for f in audit("later").findings}
    assert len(left_out.findings) == len(complete)
    for finding in left_out.findings:
        whole = complete[finding.topic, finding.partition, finding.start_offset]
        assert (finding.verdict, finding.reason) in {("unknown", "coverage_incomplete"), (whole.verdict, whole.reason)}
        if finding.verdict == "hanging":
            assert finding.transactional_id is not None

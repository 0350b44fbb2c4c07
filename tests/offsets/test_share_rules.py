"""The rules of share groups: each of their faults is found by its rule, and logs of real brokers hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID

import pytest

from kafkawire import logdir
from kafkawire.offsets import share_audit
from kafkawire.offsets.dead_letters import Letter
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_audit import judge, partition_answers, share_answers
from kafkawire.offsets.share_copies import STATE_TOPIC, ShareSource, histories
from kafkawire.offsets.share_explain import PartitionBounds, ShareExplained
from kafkawire.offsets.share_fates import Held
from kafkawire.offsets.share_rules import (
    RULES,
    STANDING_RULES,
    STEP_RULES,
    share_committed_only,
    share_dead_letter_once,
)
from kafkawire.offsets.share_rules.share_rule import BEGIN, Fault, ShareStep, StandingRule, StepRule
from kafkawire.offsets.share_settings import ShareSettings
from kafkawire.share_groups import ShareFold, SharePartition, ShareRecord
from kafkawire.transactions.answers import Tally
from kafkawire.transactions.checks.check_names import SHARE_CHECKS
from tools.audit_faults import shares
from tools.audit_faults.shares import SOUND
from tools.guide import rules
from tools.guide.rules import share_table
from tools.recordings import share_groups
from tools.recordings.archive import unpacked

KEY = SharePartition("workers", UUID(int=7), 0)


def records(fault: Fault) -> list[ShareRecord]:
    return shares.records(fault, KEY)


def judged(fault: Fault, *, limit: int | None = 5, from_start: bool = True) -> dict[str, Tally]:
    fold, tallies = ShareFold(from_start=from_start), {rule.name: Tally(rule.name) for rule in STEP_RULES}
    for record in records(fault):
        judge(ShareStep(fold.take(record), "orders-0", limit), tallies)
    return tallies


def test_the_names_are_those_of_the_checks() -> None:
    assert tuple(rule.name for rule in RULES) == SHARE_CHECKS


def test_the_page_has_the_table_of_the_rules() -> None:
    assert share_table() in rules.SHARE_PAGE.read_text("utf-8")


def test_nothing_is_found_in_sound_records() -> None:
    found = judged(SOUND)
    assert {name: tally.breaches for name, tally in found.items() if tally.violated} == {}
    assert all(tally.held for tally in found.values())


@pytest.mark.parametrize(
    ("rule", "name"),
    [(rule, name) for rule in STEP_RULES for name in rule.faults],
    ids=lambda one: getattr(one, "name", one),
)
def test_each_fault_is_found_by_its_rule(rule: StepRule, name: str) -> None:
    found = judged(rule.faults[name])
    assert found[rule.name].violated, rule.faults[name]
    (breach,) = found[rule.name].breaches
    assert breach.offset == len(rule.faults[name]) - 1
    assert breach.what.startswith("orders-0: ")


def test_what_was_removed_from_the_front_proves_nothing() -> None:
    """A log that begins with an update: only what a record says by itself is judged."""
    found = judged((("update", 5, 3, 1, 7, ((5, 5, 4, 2),)),), from_start=False)
    assert not any(tally.violated for tally in found.values())
    assert found["share_transition"].not_checkable == 1
    assert found["share_delivered_first"].held == 1
    assert judged(SOUND, limit=None)["share_delivery_limit"].held == 0


# A share partition as a whole -----------------------------------------------------------------------------------------


SETTINGS = ShareSettings(limit=5, isolation_level="read_committed", dead_letter_topic="dlq")
CHANGED = SETTINGS._replace(isolation_changed=True)


def explained(
    fault: Fault,
    *,
    held: Iterable[Held] = (Held(0, 20, "record"),),
    high: int = 20,
    letters: tuple[Letter, ...] = (),
    settings: ShareSettings = SETTINGS,
    change: Callable[[ShareSource], ShareSource] = lambda source: source,
    letters_doubt: str | None = None,
) -> ShareExplained:
    found = records(fault)
    history = histories(found, "workers", from_start=True)[KEY]
    source = ShareSource(
        key=KEY,
        topic="orders",
        gone=False,
        path="state",
        number=0,
        records=lambda: iter(found),
        from_start=True,
        history=history,
    )
    return ShareExplained(
        change(source),
        settings,
        PartitionBounds(0, high, high),
        lambda end: list(held),
        lambda: letters,
        [],
        letters_doubt=letters_doubt,
    )


def letter(offset: int, at: int = 0) -> Letter:
    return Letter("workers", "orders", 0, offset, 2, "Offset rejected by client.", 0, at, 1000)


ARCHIVED: Fault = (BEGIN, ("update", 0, 0, 1, 1, ((4, 4, 3, 1),)), ("update", 0, 0, 1, 1, ((4, 4, 4, 1),)))
READ: Fault = (BEGIN, ("update", 0, 0, 1, 1, ((0, 5, 2, 1),)))
ABORTED = (Held(0, 3, "record"), Held(3, 4, "aborted"), Held(4, 20, "record"))
OPEN = (Held(0, 5, "record"), Held(5, 6, "open"), Held(6, 20, "record"))


@pytest.mark.parametrize(
    ("name", "share", "violated"),
    [
        ("share_offsets_exist", explained(READ), 0),
        ("share_offsets_exist", explained(READ, high=5), 1),
        ("share_committed_only", explained(READ), 0),
        ("share_committed_only", explained(READ, held=ABORTED), 1),
        ("share_committed_only", explained(READ, held=OPEN), 1),
        ("share_committed_only", explained(READ, held=ABORTED, settings=ShareSettings(5, "read_uncommitted")), 0),
        ("share_dead_letter", explained(ARCHIVED, letters=(letter(4),)), 0),
        ("share_dead_letter", explained(ARCHIVED), 1),
        ("share_dead_letter", explained(ARCHIVED, letters=(letter(3),)), 1),
        ("share_dead_letter_once", explained(ARCHIVED, letters=(letter(4), letter(5))), 0),
        ("share_dead_letter_once", explained(ARCHIVED, letters=(letter(4), letter(4, 9))), 1),
        ("share_topic_exists", explained(READ), 0),
        ("share_topic_exists", explained(READ, change=lambda one: one._replace(gone=True, removed_at=-70_000)), 1),
    ],
)
def test_faults_of_a_share_partition(name: str, share: ShareExplained, violated: int) -> None:
    rule = next(one for one in STANDING_RULES if one.name == name)
    tally = Tally(name)
    rule.judge(share, tally)
    assert tally.violated == violated
    assert not tally.not_checkable


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("share_committed_only", explained(READ, held=ABORTED, settings=ShareSettings(5, None))),
        ("share_dead_letter", explained(ARCHIVED, settings=SETTINGS._replace(letters_changed=True))),
        ("share_dead_letter", explained(ARCHIVED, letters_doubt="copies may have been deleted")),
        ("share_topic_exists", explained(READ, change=lambda one: one._replace(gone=True, removed_at=900))),
    ],
)  # fmt: skip
def test_without_its_premise_a_rule_answers_nothing(name: str, share: ShareExplained) -> None:
    rule: StandingRule = next(one for one in STANDING_RULES if one.name == name)
    tally = Tally(name)
    rule.judge(share, tally)
    assert (tally.violated, tally.held) == (0, 0)
    assert tally.not_checkable
    assert tally.lacked


def test_another_isolation_level_before_explains_aborted_records() -> None:
    """What was committed proves the rule in any case."""
    tally = Tally("share_committed_only")
    share_committed_only.RULE.judge(explained(READ, held=ABORTED, settings=CHANGED), tally)
    assert (tally.violated, tally.held, tally.not_checkable) == (0, 2, 1)


#: The partition's leader chose where the group began (-1): it began all the same.
CHOSEN: Fault = (("begin", -1, 0, 1, 0, ()), ("update", 0, 0, 1, 1, ((4, 4, 3, 1),)), ("begin", 3, 1, 2, 0, ()))
RESET: Fault = (*ARCHIVED, ("begin", 3, 2, 2, 0, ()), ("update", 3, 2, 2, 1, ((4, 4, 3, 1),)))


@pytest.mark.parametrize(("fault", "violated"), [(ARCHIVED, 1), (RESET, 0), (CHOSEN, 0), (ARCHIVED[1:], 0)])
def test_an_offset_that_was_set_back_explains_a_second_copy(fault: Fault, violated: int) -> None:
    """Its records are given out anew, and copied anew; where records of the state were removed, that may have been."""
    tally = Tally("share_dead_letter_once")
    share_dead_letter_once.RULE.judge(explained(fault, letters=(letter(4), letter(4, 9))), tally)
    assert (tally.violated, tally.not_checkable) == (violated, 1 - violated)


def test_a_log_that_begins_with_a_reset_does_not_begin_with_the_group() -> None:
    """Its coordinator removed the records before; a group's own first record has the number 0."""
    reset = histories(records((("begin", 60, 7, 11, 0, ()),)), "workers", from_start=False)[KEY]
    begun = histories(records((BEGIN,)), "workers", from_start=False)[KEY]
    assert (reset.from_start, begun.from_start) == (False, True)


# Recorded -------------------------------------------------------------------------------------------------------------


def copies(version: str) -> list[str]:
    folder = unpacked(share_groups.NAME) / f"kafka-{version}"
    return [str(folder / "node-1"), str(folder / "node-2")]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.4.0", "4.2.0"])
def test_logs_of_real_brokers_hold(version: str) -> None:
    """But for the group whose dead-letter topic brokers do not write into, since its name lacks their prefix."""
    answers = share_answers(LeadingReplicas(logdir.open(*copies(version))))
    broken = {one.answer.check: [b.what for b in one.answer.breaches] for one in answers if one.answer.violated}
    missing = f"group 'trimmers' in trimmed-0: offset 20 was archived, and is not in {share_groups.MISNAMED}"
    assert broken == ({"share_dead_letter": [missing]} if version == "4.4.0" else {})
    held = {one.answer.check for one in answers if one.answer.held}
    assert held >= {"share_transition", "share_start_offset", "share_epochs", "share_snapshot", "share_committed_only"}


@pytest.mark.slow
def test_a_partition_of_the_state_that_cannot_be_read_makes_no_rule_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that was removed since it was listed, and of one whose reading fails: each rule says why."""
    replicas = LeadingReplicas(logdir.open(*copies("4.4.0")))
    gone = partition_answers(replicas, 999)
    assert [one.answer.check for one in gone] == [rule.name for rule in RULES]
    assert {one.answer.lacked for one in gone} == {("__share_group_state-999 is not there any more",)}

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(share_audit, "state_records", broken)
    number = min(replicas.numbers(STATE_TOPIC))
    unread = partition_answers(replicas, number)
    assert [one.answer.check for one in unread] == [rule.name for rule in RULES]
    assert all("Input/output error" in one.answer.lacked[-1] and not one.answer.held for one in unread)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.4.0", "4.2.0"])
def test_each_fault_of_each_rule_is_found_in_the_logs_of_real_brokers(tmp_path: Path, version: str) -> None:
    """A rule whose file names a fault that it does not find fails here, and so does one that names no fault."""
    found = shares.outcomes(tmp_path / "copy", version, rounds=2)
    assert found.missed == []
    assert found.false == []
    assert set(found.by_rule) == {rule.name for rule in RULES if version == "4.4.0" or "dead_letter" not in rule.name}

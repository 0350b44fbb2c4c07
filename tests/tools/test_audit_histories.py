"""True histories: the audit of any copy says nothing that is false, and what it does not know has a cause."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkawire import logdir, rows, transactions
from tools.audit_faults.histories.audit_properties import (
    FALSE_ATTENTION,
    FALSE_CLEAR,
    FALSE_HANGING,
    NO_CAUSE,
    WITH_CAUSE,
    WITHOUT_CAUSE,
    judged,
    markdown,
    summary,
    tried,
)
from tools.audit_faults.histories.copies import plan, whole, write
from tools.audit_faults.histories.history import History, truth_of
from tools.audit_faults.histories.producers import HANGS

SEEDS = 200


@pytest.mark.slow
def test_answers_to_copies_are_true() -> None:
    found = summary(map(tried, range(SEEDS)))
    assert [str(breach) for breach in found.breaches] == []
    assert (found.tried, found.verdicts[WITHOUT_CAUSE]) == (SEEDS, 0)
    assert min(found.verdicts["hanging"], found.verdicts["not_hanging"], found.verdicts[WITH_CAUSE]) > 20
    assert f"histories tried {SEEDS}," in markdown(found, "a test")


@pytest.mark.slow
def test_answers_that_once_were_false_are_true() -> None:
    seeds = [
        311,
        693,
        758,
        934,
        960,
        1101,
        1148,
        1205,
        1228,
        1252,
        1271,
        1649,
        1681,
        1708,
        1713,
        1794,
        1924,
        1943,
        1950,
    ]
    seeds += [1963, 2077, 2146, 2276, 2300, 2384, 2546, 2588, 2776, 3935]
    assert [str(breach) for seed in seeds for breach in tried(seed).breaches] == []


def hanging(kind: str) -> History:
    """The first history with one kind of what hangs."""
    return next(history for history in map(History, range(200)) if history.hangs == [kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", HANGS)
def test_one_transaction_of_a_history_never_ends_where_one_hangs(kind: str) -> None:
    endless = [one for one in truth_of(hanging(kind)).transactions.values() if one.ended is None]
    assert len(endless) == 1


@pytest.mark.slow
def test_a_history_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = History(3), History(3)
    assert first.timeline.moments == second.timeline.moments
    assert truth_of(first) == truth_of(second)


def audit_of(history: History, root: Path) -> rows.Audit:
    return transactions.audit(logdir.open(*write(history, whole(history), root)))


@pytest.mark.slow
def test_what_is_false_is_found(tmp_path: Path) -> None:
    """A verdict of hanging on what ends, and no finding of what hangs."""
    history = hanging("ownerless")
    truth, copy, audit = truth_of(history), whole(history), audit_of(history, tmp_path)
    ends = next(one for one in truth.transactions.values() if one.ended is not None)
    finding = audit.findings[0]
    false = replace(finding, verdict="hanging", topic=ends.place[0], partition=ends.place[1], start_offset=ends.start)
    cases: dict[str, rows.Audit] = {
        FALSE_HANGING: replace(audit, findings=(false,)),
        FALSE_ATTENTION: replace(audit, findings=(replace(false, verdict="not_hanging", attention="stuck"),)),
        FALSE_CLEAR: replace(audit, findings=(), violations=()),
        NO_CAUSE: replace(audit, findings=(replace(finding, verdict="unknown"),)),
    }
    for name, answer in cases.items():
        assert Counter(found for found, _ in judged(history, truth, copy, answer, sound=True)) == {name: 1}


@pytest.mark.slow
def test_copies_while_brokers_run_have_moments_of_their_own(tmp_path: Path) -> None:
    history = hanging("late batch")
    copies = [plan(history, history.timeline.draw) for _ in range(40)]
    assert {len(set(copy.moments.values())) > 1 for copy in copies if copy.order in ("names", "random")} == {True}
    assert {len(set(copy.moments.values())) for copy in copies if copy.order in ("stopped", "killed")} == {1}

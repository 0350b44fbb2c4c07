"""Every check by itself: exactly the rule that was broken is named, and nothing in the same logs without that."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.rows import Audit
from kafkawire.transactions.checks.check_names import CHECKS
from tests.injected.cases import CASES, INFORMATION, SEEDS, Case


def audit(paths: list[str]) -> Audit:
    return transactions.audit(logdir.open(*paths))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_exactly_the_broken_rule_is_named(case: Case, tmp_path: Path) -> None:
    found = audit(case.write(tmp_path))
    assert {violation.check for violation in found.violations} == {case.check}, found.violations
    assert [answer.check for answer in found.answers] == list(CHECKS)
    assert [answer.check for answer in found.answers if answer.answer == "violated"] == [case.check]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_world_without_it_names_none(seed: int, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.seed == seed)
    found = audit(case.write(tmp_path, broken=False))
    assert found.violations == ()
    assert found.findings == ()
    assert found.damage == ()


def test_every_check_has_enough_injected_defects() -> None:
    assert len(CASES) >= 200
    assert {case.check for case in CASES} == set(CHECKS) - set(INFORMATION)

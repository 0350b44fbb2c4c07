"""Damage at every layer of a capture. `mutations` can be run by itself for longer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.mutations import LAYERS, Damaged, check, damaged, whole

WHOLE = whole()


def test_reads_the_undamaged_capture_completely() -> None:
    assert check(WHOLE, Damaged(WHOLE.file, "none", set())) == "no exchange lost"
    assert {len(rows) for rows in WHOLE.rows.values()} == {12}


@given(st.integers(0, 2**32))
def test_reads_the_rest_of_a_damaged_capture_and_reports_all_damage(seed: int) -> None:
    check(WHOLE, damaged(WHOLE, seed))


@pytest.mark.slow
def test_damage_is_reported_or_changes_content() -> None:
    outcomes = {check(WHOLE, damaged(WHOLE, seed)) for seed in range(12 * len(LAYERS))}
    assert any("lost, reported" in outcome for outcome in outcomes)

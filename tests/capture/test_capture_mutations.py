"""Damage at every layer of a capture: see `mutations`, which can be run for longer than a test may."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.capture.mutations import LAYERS, Damaged, check, damaged, whole

WHOLE = whole()


def test_the_capture_is_read_whole() -> None:
    assert check(WHOLE, Damaged(WHOLE.file, "none", set())) == "no exchange lost"
    assert {len(rows) for rows in WHOLE.rows.values()} == {12}


@given(st.integers(0, 2**32))
def test_whatever_is_damaged_the_rest_is_read_and_all_is_told(seed: int) -> None:
    check(WHOLE, damaged(WHOLE, seed))


def test_damage_is_told_or_changes_content() -> None:
    became = {check(WHOLE, damaged(WHOLE, seed)) for seed in range(12 * len(LAYERS))}
    assert any("lost, told" in word for word in became)

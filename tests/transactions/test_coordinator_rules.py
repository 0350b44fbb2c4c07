"""The coordinator's rules as tables: states, what may follow, timeouts, where an id lives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.transactions.coordinator.coordinator_rules import (
    NEVER,
    PREVIOUS,
    STATES,
    follows,
    may_expire,
    partition_of_id,
    status_of,
    timed_out,
)


def test_states_and_their_names() -> None:
    assert [status_of(name) for name in STATES.values()] == list(STATES)
    assert status_of("Bogus") == -1
    assert set(PREVIOUS) == set(STATES.values())


@pytest.mark.parametrize(
    ("before", "after", "version", "may"),
    [
        (None, "Empty", 0, True),
        (None, "Ongoing", 2, False),
        ("Empty", "Ongoing", 0, True),
        ("Empty", "PrepareAbort", 2, True),
        ("Empty", "PrepareAbort", 1, False),
        ("CompleteCommit", "PrepareAbort", 2, True),
        ("CompleteCommit", "PrepareCommit", 2, False),
        ("Ongoing", "PrepareAbort", 0, True),
        ("PrepareCommit", "CompleteCommit", 0, True),
        ("PrepareCommit", "CompleteAbort", 2, False),
        ("PrepareAbort", "CompleteCommit", 2, False),
        ("PrepareCommit", "Ongoing", 2, False),
        ("Ongoing", "Empty", 0, False),
        ("Ongoing", "PrepareEpochFence", 0, False),
        ("Empty", "Dead", 0, False),
        ("CompleteAbort", None, 0, True),
        ("PrepareCommit", None, 0, False),
        ("Ongoing", "UNKNOWN_9", 0, False),
    ],
)
def test_accepts_only_legal_transitions(before: str | None, after: str | None, version: int, may: bool) -> None:
    assert follows(before, after, version) is may


def test_timeouts_and_expiry_at_their_limits() -> None:
    assert timed_out("Ongoing", 100, 50, 151)
    assert not timed_out("Ongoing", 100, 50, 150)
    assert not timed_out("Ongoing", 100, NEVER, 2**62), "two-phase commit is never late"
    assert NEVER == 2_147_483_647  # Java's Integer.MAX_VALUE (KIP-939)
    assert not timed_out("PrepareCommit", 100, 50, 10_000)
    assert may_expire("CompleteCommit", 100, 200, 100)
    assert not may_expire("CompleteCommit", 101, 200, 100)
    assert not may_expire("PrepareCommit", 0, 10_000, 1)


@given(st.text(max_size=30), st.integers(1, 200))
def test_ids_have_a_partition(name: str, count: int) -> None:
    assert 0 <= partition_of_id(name, count) < count

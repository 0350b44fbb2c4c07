"""The rules of transactions: the native engine's against the reference, batch by batch and at every cut."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir import ongoing as module
from kafkawire.logdir.ongoing import Ongoing, last_stable_offset
from kafkawire.records.control import ABORT_CODE, COMMIT_CODE, DATA_CODE, EMPTY_CODE, MALFORMED_CODE
from kafkawire.wire.backend import native

Step = tuple[int, int, int]


def taken(open_before: dict[int, int], parts: list[list[Step]], many: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Of all steps the first offsets of their transactions, and what is open after them, in order."""
    found = Ongoing(open_before)
    first = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MANY", many)
        for part in parts:
            producer_ids, offsets, codes = np.array(part, np.int64).reshape(-1, 3).T
            first += found.take(producer_ids, offsets, codes.astype(np.int8)).tolist()
    return first, list(found.items())


@pytest.mark.skipif(native is None, reason="the reference is compared with the native engine")
@given(st.randoms(use_true_random=False), st.integers(1, 12), st.integers(0, 90), st.integers(0, 9))
def test_the_engine_has_the_rules_of_the_reference(
    random_: random.Random, producers: int, count: int, open_before: int
) -> None:
    codes = [DATA_CODE, DATA_CODE, DATA_CODE, ABORT_CODE, COMMIT_CODE, EMPTY_CODE, MALFORMED_CODE]
    start = random_.choice([0, 20])  # offsets may come again
    steps = [(random_.randrange(producers), start + at, random_.choice(codes)) for at in range(count)]
    cuts = sorted({0, count, *(random_.randrange(count + 1) for _ in range(4))})
    parts = [steps[start:end] for start, end in pairwise(cuts)]
    before = {producer: producer for producer in range(open_before)}
    assert taken(before, parts, 0) == taken(before, parts, count + 1)


def test_data_begins_a_transaction_and_a_marker_ends_it() -> None:
    steps = [
        (1, 0, DATA_CODE), (2, 1, DATA_CODE), (1, 2, DATA_CODE), (1, 3, MALFORMED_CODE), (1, 4, ABORT_CODE),
        (1, 5, COMMIT_CODE), (2, 6, EMPTY_CODE), (3, 7, DATA_CODE), (2, 8, DATA_CODE),
    ]  # fmt: skip
    for many in (0, len(steps) + 1):
        first, open_ = taken({}, [steps], many)
        assert (first, open_) == ([0, 1, 0, -1, 0, -1, 1, 7, 8], [(3, 7), (2, 8)])


def test_a_transaction_may_begin_at_the_offset_of_one_that_ended() -> None:
    """As in a log whose offsets go back."""
    steps = [(1, 4, COMMIT_CODE), (3, 4, DATA_CODE), (1, 5, DATA_CODE)]
    for many in (0, len(steps) + 1):
        assert taken({1: 5, 2: 3}, [steps], many) == ([5, 4, 5], [(2, 3), (3, 4), (1, 5)])


@pytest.mark.skipif(native is None, reason="it is about the native engine")
def test_columns_of_different_lengths_are_refused() -> None:
    assert native is not None
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    for known, columns in (((one, two), (one, one, 1)), ((one, one), (one, two, 1)), ((one, one), (one, one, 2))):
        with pytest.raises(ValueError, match="different lengths"):
            native.transactions_of(known, *columns[:2], np.zeros(columns[2], np.int8))


def test_readers_stop_at_the_first_open_transaction_within_the_log() -> None:
    assert [last_stable_offset(10, first, 3) for first in (0, 3, 5, 12)] == [3, 3, 5, 10]
    assert Ongoing({7: 4, 8: 6}).first_unstable(9) == 4
    assert Ongoing().first_unstable(9) == 9

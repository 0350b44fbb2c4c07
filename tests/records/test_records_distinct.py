"""Distinct values, against a set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.records.distinct import distinct


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)))
def test_each_value_is_there_once_in_ascending_order(values: list[int]) -> None:
    found = distinct(np.array(values, np.int64))
    assert found.tolist() == sorted(set(values))
    assert found.dtype == np.int64


@pytest.mark.parametrize("kind", [np.uint64, np.int32])
def test_the_type_of_values_is_kept(kind: type[np.integer]) -> None:
    assert distinct(np.array([3, 1, 3], kind)).dtype == kind

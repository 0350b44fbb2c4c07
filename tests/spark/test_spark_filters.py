"""What filters leave of a column: never less than Spark would keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from kafkawire.spark.filters import wanted_range, wanted_values

NUMBERS = st.integers(-3, 3)
OFFSET = ("offset",)


def keeps(filter: Filter, number: int) -> bool:
    match filter:
        case EqualTo(value=value):
            return number == value
        case In(value=values):
            return number in values
        case GreaterThan(value=value):
            return number > value
        case GreaterThanOrEqual(value=value):
            return number >= value
        case LessThan(value=value):
            return number < value
        case LessThanOrEqual(value=value):
            return number <= value
    return True


filters = st.lists(
    st.one_of(
        st.builds(In, st.just(OFFSET), st.lists(NUMBERS, min_size=1, max_size=3).map(tuple)),
        *(
            st.builds(kind, st.just(OFFSET), NUMBERS)
            for kind in (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
        ),
        st.builds(IsNotNull, st.just(OFFSET)),
        st.builds(EqualTo, st.just(("partition",)), NUMBERS),
    ),
    max_size=4,
)


@given(filters)
def test_what_all_filters_keep_is_wanted(given_filters: list[Filter]) -> None:
    low, high = wanted_range(given_filters, "offset") or (None, None)
    values = wanted_values(given_filters, "offset")
    on_offset = [one for one in given_filters if one.attribute == OFFSET]  # type: ignore[attr-defined]
    for number in range(-5, 6):
        if all(keeps(one, number) for one in on_offset):
            assert low is None or number >= low
            assert high is None or number < high
            assert values is None or number in values


@pytest.mark.parametrize(
    ("given_filters", "wanted"),
    [
        ([], None),
        ([IsNotNull(OFFSET)], None),
        ([EqualTo(("partition",), 5)], None),
        ([EqualTo(OFFSET, "x")], None),
        ([GreaterThan(OFFSET, 5)], (6, None)),
        ([LessThan(OFFSET, 5), LessThanOrEqual(OFFSET, 7)], (None, 5)),
        ([GreaterThanOrEqual(OFFSET, 5), In(OFFSET, (3, 9))], (5, 10)),
    ],
)
def test_ranges(given_filters: list[Filter], wanted: tuple[int | None, int | None] | None) -> None:
    assert wanted_range(given_filters, "offset") == wanted


def test_values() -> None:
    assert wanted_values([In(("topic",), ("a", "b")), EqualTo(("topic",), "b")], "topic") == {"b"}
    assert wanted_values([GreaterThan(("topic",), "a")], "topic") is None

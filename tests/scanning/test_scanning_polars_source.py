"""A scan as a Polars LazyFrame: what a query does not need is not read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

import kafkawire  # noqa: E402
from kafkawire.errors import ScanError  # noqa: E402
from kafkawire.scanning import polars_source  # noqa: E402
from kafkawire.scanning.polars_source import Bounds, bounds_of  # noqa: E402
from tests.scanning.test_scanning_logs import EXAMPLES  # noqa: E402

STREAM = kafkawire.scan(EXAMPLES)
NOON = datetime(2026, 11, 21, 7, tzinfo=UTC)


@cache
def frame() -> Any:
    """All of it."""
    return pl.DataFrame(STREAM)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Bounds]:
    """The bounds that queries were read within."""
    found: list[Bounds] = []

    def noted(predicate: Any) -> Bounds:
        found.append(bounds_of(predicate))
        return found[-1]

    monkeypatch.setattr(polars_source, "bounds_of", noted)
    return found


c = pl.col
#: Filters, and the bounds that they state.
FILTERS: list[tuple[Any, Bounds]] = [
    (c("offset") >= 5, Bounds(offsets=(5, None))),
    (c("offset") > 5, Bounds(offsets=(6, None))),
    (c("offset") == 5, Bounds(offsets=(5, 6))),
    (pl.lit(5) > c("offset"), Bounds(offsets=(None, 5))),
    (c("offset") <= 5, Bounds(offsets=(None, 6))),
    (c("offset").is_between(2, 4), Bounds(offsets=(2, 5))),
    (c("offset").is_between(2, 4, closed="none"), Bounds(offsets=(3, 4))),
    (c("offset").is_in([3, 9]), Bounds(offsets=(3, 10))),
    (c("timestamp") > NOON, Bounds(times=(1795244400001, None))),
    (c("timestamp") <= NOON + timedelta(microseconds=500), Bounds(times=(None, 1795244400001))),
    (c("timestamp") < NOON + timedelta(hours=1), Bounds(times=(None, 1795248000000))),
    (c("topic") == "orders", Bounds(topics=frozenset({"orders"}))),
    (c("topic").is_in(["orders", "payments"]), Bounds(topics=frozenset({"orders", "payments"}))),
    ((c("partition") == 1) & (c("offset") > 3), Bounds(partitions=frozenset({1}), offsets=(4, None))),
    (c("producer_id").is_in([1, 2]), Bounds(producers=frozenset({1, 2}))),
    (c("transaction") == "aborted", Bounds(states=frozenset({"aborted"}))),
    (c("transaction") == "no such state", Bounds(states=frozenset({"no such state"}))),
    # What says nothing that could be left out.
    ((c("offset") > 5) | (c("partition") == 1), Bounds()),
    (~(c("offset") > 5), Bounds(offsets=(None, 6))),  # Polars turns it around
    (c("offset") != 5, Bounds()),
    (c("offset") % 2 == 0, Bounds()),
    (c("offset") > c("sequence"), Bounds()),
    (c("producer_id").is_null(), Bounds()),
    (c("producer_id").eq_missing(pl.lit(None)), Bounds()),
    (c("producer_id").is_in([1, None], nulls_equal=True), Bounds()),
    (c("key") == b"0", Bounds()),
    (c("offset").cast(pl.Int8, strict=False) > 5, Bounds()),
]


@pytest.mark.parametrize(("wanted", "bounds"), FILTERS, ids=[str(wanted) for wanted, _ in FILTERS])
def test_filters_are_pushed_down_and_change_no_answer(wanted: Any, bounds: Bounds, asked: list[Bounds]) -> None:
    assert STREAM.lazy().filter(wanted).collect().equals(frame().filter(wanted))
    assert asked == [bounds]


_SIMPLE = st.sampled_from([wanted for wanted, _ in FILTERS])


@given(one=_SIMPLE, other=_SIMPLE, third=_SIMPLE, either=st.booleans())
def test_any_combination_gives_the_rows_of_the_whole_frame(one: Any, other: Any, third: Any, either: bool) -> None:
    wanted = ((one | other) if either else (one & other)) & third
    query = STREAM.lazy().filter(wanted).select("topic", "offset", "key")
    assert query.collect().equals(frame().filter(wanted).select("topic", "offset", "key"))


def test_only_the_columns_of_a_query_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    original = STREAM._source.narrowed

    def noted(columns: list[str], bounds: Bounds) -> Any:
        asked.append(columns)
        return original(columns, bounds)

    monkeypatch.setattr(type(STREAM._source), "narrowed", lambda self, columns, bounds: noted(columns, bounds))
    found = STREAM.lazy().filter(c("partition") == 0).group_by("topic").agg(c("offset").max()).collect()
    assert asked == [["topic", "partition", "offset"]]
    assert found.height == frame().filter(c("partition") == 0)["topic"].n_unique()
    assert STREAM.lazy().select(pl.len()).collect().item() == frame().height
    assert asked[1:] == [["topic"]]


def test_a_head_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    read = count_batches(monkeypatch)
    small = kafkawire.scan(EXAMPLES, batch_size=2)
    assert small.lazy().head(3).collect().equals(frame().head(3))
    assert read() <= 3


def count_batches(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    count = [0]
    original = kafkawire.scanning.Scan._batches

    def counted(self: Any, *arguments: Any) -> Any:
        for batch in original(self, *arguments):
            count[0] += 1
            yield batch

    monkeypatch.setattr(kafkawire.scanning.Scan, "_batches", counted)
    return lambda: count[0]


def test_an_expression_of_another_form_is_read_whole() -> None:
    class Other:
        class meta:
            @staticmethod
            def serialize(format: str) -> str:
                return '{"New":{"form":[1]}}'

    assert bounds_of(Other()) == Bounds()  # type: ignore[arg-type]
    assert bounds_of(None) == Bounds()


def test_damage_is_an_error_of_the_query_and_in_the_problems(tmp_path: Any) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / ("0" * 20 + ".log")).write_bytes(b"\1" * 100)
    stream = kafkawire.scan(tmp_path)
    with pytest.raises(ScanError, match=r"truncated: .* 0 rows were read"):
        stream.lazy().collect()
    assert stream.problem_count
    collected = kafkawire.scan(tmp_path, errors="collect")
    assert collected.lazy().collect().height == 0
    assert collected.problem_count

"""Rows at an isolation level: lines, arrays and rows alike, and what of a log each level reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.logdir import View, outcomes_of
from kafkawire.records import Record, build
from kafkawire.wire.backend import native
from tests.logdir.test_logdir_jsonl import both, mutated_segments, segment, segments
from tests.logdir.test_logdir_transaction_states import data_of, marker


def view_of(file: Any, level: Any, *, shown: bool = True, start: int | None = None) -> View:
    (partition,) = logdir.open(file.path).partitions
    outcomes = outcomes_of(partition)
    if start is not None:
        import msgspec

        outcomes = msgspec.structs.replace(outcomes, start=start)
    return View(outcomes=outcomes, isolation_level=level, shown=shown)


@pytest.mark.slow
@pytest.mark.skipif(native is None, reason="the native engine is not installed")
@given(
    segments() | mutated_segments(),
    st.sampled_from([None, "read_uncommitted", "read_committed"]),
    st.booleans(),
    st.integers(0, 9),
)
def test_lines_equal_rows_in_every_view(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, level: Any, shown: bool, start: int
) -> None:
    file = segment(tmp_path_factory.mktemp("log"), data)
    view = view_of(file, level, shown=shown, start=start)
    both(file, logdir.Options(deep=True, payloads=True, view=view))


LOG = (
    build([Record(b"a"), Record(b"b"), Record(b"c")])
    + data_of(3, 1)
    + data_of(4, 2)
    + marker("ABORT", 5, 1)
    + marker("COMMIT", 6, 2)
    + data_of(7, 1)
    + build([Record(b"d")], base_offset=8)
)


def offsets(file: Any, view: View) -> list[int]:
    found = logdir.rows_of(file, logdir.Options(deep=True, view=view))
    return [row.offset for row in found if isinstance(row, rows.RecordRow)]


def test_each_level_reads_what_its_consumer_gets(tmp_path: Any) -> None:
    file = segment(tmp_path, LOG)
    assert offsets(file, view_of(file, "read_committed")) == [0, 1, 2, 4]
    assert offsets(file, view_of(file, "read_committed", start=1)) == [1, 2, 4]
    assert offsets(file, view_of(file, "read_uncommitted")) == [0, 1, 2, 3, 4, 7, 8]
    assert offsets(file, view_of(file, None)) == list(range(9))


def test_rows_show_the_states_of_their_transactions(tmp_path: Any) -> None:
    file = segment(tmp_path, LOG)
    found = logdir.rows_of(file, logdir.Options(view=view_of(file, None)))
    states = [row.transaction for row in found if isinstance(row, rows.BatchRow)]
    assert states == ["none", "aborted", "committed", "aborted", "committed", "open", "none"]


def test_a_batch_with_an_unknown_outcome_is_damage_and_not_read(tmp_path: Any) -> None:
    file = segment(tmp_path, data_of(0) + data_of(4) + marker("COMMIT", 5))
    found = list(logdir.rows_of(file, logdir.Options(deep=True, view=view_of(file, "read_committed"))))
    assert [row.kind for row in found] == ["damage"]  # and the last stable offset is below what follows
    (damage,) = found
    assert isinstance(damage, rows.DamageRow)
    assert (damage.reason, damage.position) == ("unknown_outcome", 0)
    assert damage.detail == (
        "offsets 0 to 0: whether producer 1's transaction was committed is unknown: offsets 1 to 3 are missing"
    )

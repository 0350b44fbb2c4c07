"""Segments in runs: whatever a writer takes at a time, and whatever it refuses, nothing is left out or comes twice."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.logdir.batch_runs import fields_of, runs_of
from kafkawire.records import Record, build
from kafkawire.records.array_types import Int8
from kafkawire.records.columns import Batches
from tests.logdir.test_logdir_jsonl import mutated_segments, segment, segments


class Taken(NamedTuple):
    """Batches that the writer took, by their positions in the file."""

    positions: list[int]


class Writer:
    """Takes a given number of batches at a time, and refuses given ones."""

    def __init__(self, most: int, refused: list[bool]) -> None:
        self.most, self.refused, self.calls = most, refused, 0

    def __call__(self, found: Batches, first: int, stop: int, states: Int8 | None) -> tuple[Taken | None, int, bool]:
        assert first < stop <= len(found)
        assert states is None
        self.calls += 1
        if self.refused and self.refused[self.calls % len(self.refused)]:
            return None, first, True
        last = min(stop, first + self.most)
        return Taken(found.position[first:last].tolist()), last, False


def seen(file: Any, write: Writer, options: logdir.Options) -> list[tuple[str, int]]:
    out: list[tuple[str, int]] = []
    for item in runs_of(file, options, write):
        if isinstance(item, Taken):
            out += [("batch", position) for position in item.positions]
        else:
            assert isinstance(item, rows.BatchRow | rows.DamageRow)
            # A batch whose records are malformed is the writer's own matter here: it looks at headers only.
            if not isinstance(item, rows.DamageRow) or item.reason != "bad_records":
                out.append((item.kind, item.position))
    return out


@pytest.mark.slow
@given(segments() | mutated_segments(), st.integers(1, 3), st.lists(st.booleans(), max_size=5), st.booleans())
def test_yields_every_batch_and_all_damage_in_order(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, most: int, refused: list[bool], check_crc: bool
) -> None:
    file = segment(tmp_path_factory.mktemp("log"), data)
    options = logdir.Options(check_crc=check_crc)
    expected = [rows.to_dict(row) for row in logdir.rows_of(file, options)]
    wanted = [(row["kind"], row["position"]) for row in expected if row.get("reason") != "bad_records"]
    found = seen(file, Writer(most, refused), options)
    assert [item for item in found if item in wanted] == wanted
    assert [item for item in found if item[0] == "batch"] == [item for item in wanted if item[0] == "batch"]


def test_refused_batches_come_as_rows(tmp_path: Any) -> None:
    data = [build([Record(b"k")], base_offset=number) for number in range(4)]
    found = list(runs_of(segment(tmp_path, b"".join(data)), logdir.Options(), Writer(9, [False, True])))
    assert [type(item).__name__ for item in found] == ["BatchRow", "Taken"]
    assert found[1] == Taken([len(data[0]), 2 * len(data[0]), 3 * len(data[0])])


@pytest.mark.parametrize(
    ("name", "options", "in_runs"),
    [
        ("orders-0", logdir.Options(deep=True, payloads=True), True),
        ("orders-0", logdir.Options(indexes="verify"), False),
        ("orders-0", logdir.Options(max_bytes=5), False),
        ("orders-0", logdir.Options(deep=True, metadata=False), False),
        ("orders-0", logdir.Options(selection=logdir.Selection(control=True)), True),
        ("orders-0", logdir.Options(selection=logdir.Selection(key=b"k")), False),
        ("__consumer_offsets-0", logdir.Options(deep=True), True),
        ("__consumer_offsets-0", logdir.Options(deep=True, payloads=True), False),
    ],
)
def test_only_plain_log_files_come_in_runs(tmp_path: Any, name: str, options: logdir.Options, in_runs: bool) -> None:
    """Records that are picked by their keys, or decoded one by one, do not."""
    fields = fields_of(segment(tmp_path, b"", name), options)
    assert (fields is not None) == in_runs
    if fields is not None:
        assert fields.batch == rows.BatchRow.fields()
        assert ("value" in fields.record) == options.payloads

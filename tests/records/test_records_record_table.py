"""The columns of batches and records, stated once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from kafkawire.records import Batch, Record, build, columns, read  # noqa: E402
from kafkawire.records.record_table import COLUMNS, CONTROL_COLUMNS, OF_BATCH, Validity, Values  # noqa: E402

DATA = build(
    [Record(b"k", None, timestamp=5), Record(None, b"vv", timestamp=7)], base_offset=9, codec="lz4", producer_id=3,
    producer_epoch=1, base_sequence=2**31 - 1, partition_leader_epoch=6, transactional=True, delete_horizon=4,
)  # fmt: skip


def taken(of_records: bool) -> dict[str, list[Any]]:
    (found,) = columns.read(DATA)
    assert isinstance(found, columns.Records)
    values = {
        name: column.of_records(found) if of_records else column.of_batches(found.batches)
        for name, column in COLUMNS.items()
        if (column.record if of_records else column.batch) and name not in CONTROL_COLUMNS
    }
    return {name: column.array(COLUMNS[name].type).to_pylist() for name, column in values.items()}


def test_columns_of_batches_are_those_of_the_object(engine: Any) -> None:
    (batch,) = read(DATA)
    assert isinstance(batch, Batch)
    names = {"records": "record_count", "timestamp": "max_timestamp", "sequence": "base_sequence",
             "leader_epoch": "partition_leader_epoch"}  # fmt: skip
    found = taken(of_records=False)
    assert found.pop("timestamp_type_id") == [0]
    assert found == {name: [getattr(batch, names.get(name, name))] for name in found}
    assert (found["last_sequence"], found["delete_horizon"]) == ([0], [4])


def test_columns_of_records_are_their_own_or_those_of_the_batch(engine: Any) -> None:
    found = taken(of_records=True)
    assert (found["offset"], found["timestamp"], found["key_size"]) == ([9, 10], [5, 7], [1, None])
    assert (found["sequence"], found["producer_id"], found["value_size"]) == ([2**31 - 1, 0], [3, 3], [None, 2])
    assert {name for name in found if COLUMNS[name].record == OF_BATCH} >= {"position", "transactional"}


def test_texts_are_a_dictionary_and_nulls_are_shared() -> None:
    validity = Validity(np.array([True, False]))
    values = Values(np.array([1, 0]), validity, ("a", "b"))
    assert values.array(pa.string()).to_pylist() == ["b", None]
    assert values.map(lambda numbers: np.repeat(numbers, 2)).array(pa.string()).to_pylist() == ["b", "b", None, None]
    assert validity.buffer is validity.buffer
    assert not validity.none
    assert Validity(np.zeros(2, bool)).none

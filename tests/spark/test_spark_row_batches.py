"""Rows of Python values as record batches are those of pyarrow; tasks of the audit make them without pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa

from kafkawire.spark.session.row_batches import array_of, as_batches

ROOT = Path(__file__).parents[2]
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.binary(), st.binary(max_size=9)),
    (pa.string(), st.text(max_size=9)),
    (pa.bool_(), st.booleans()),
    *(
        (
            pa.int8() if bits == 8 else pa.int32() if bits == 32 else pa.int64(),
            st.integers(-(1 << bits - 1), (1 << bits - 1) - 1),
        )
        for bits in (8, 32, 64)
    ),
]


@pytest.mark.parametrize(("type", "values"), VALUES, ids=[str(type) for type, _ in VALUES])
def test_arrays_are_those_of_pyarrow(type: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(st.none() | values, max_size=20))
    def check(listed: list[Any]) -> None:
        found = array_of(listed, type)
        found.validate(full=True)
        assert found.equals(pa.array(listed, type))

    check()


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OverflowError):
        array_of([1 << 31], pa.int32())
    with pytest.raises(TypeError):
        array_of([1.5], pa.int32())
    with pytest.raises(TypeError, match="a column of double"):
        array_of([1.5], pa.float64())
    with pytest.raises(UnicodeEncodeError):
        array_of(["\udcff"], pa.string())


def test_batches_have_at_most_so_many_rows() -> None:
    schema = pa.schema([("number", pa.int32()), ("text", pa.string())])
    listed = [(number, None if number % 2 else str(number)) for number in range(5)]
    found = list(as_batches(iter(listed), schema, 2))
    assert [len(batch) for batch in found] == [2, 2, 1]
    assert [tuple(row.values()) for batch in found for row in batch.to_pylist()] == listed
    assert list(as_batches([], schema)) == []


TASKS = """
import sys
from types import SimpleNamespace
from kafkawire.spark.auditing import outcome_judge, replica_parts
from kafkawire.spark.auditing.judged_rows import _Hand, in_order
from kafkawire.spark.auditing.outcome_rows import Judged
from kafkawire.spark.listing import fleet_listing, found_replicas
from kafkawire.spark.session.row_batches import as_batches
from kafkawire.spark.session.typed_table import schema_of
from kafkawire.transactions.log.endings import JUDGED
from kafkawire.transactions.verdict.settings import Settings
import numpy as np

def rows(found, schema):
    return [row for batch in as_batches(found, schema) for row in batch.to_pylist()]

folders = fleet_listing._folders(0, sys.argv[1])
found = (row for one in folders for row in fleet_listing._rows_of(one))
listed = rows(fleet_listing._with_size(found), fleet_listing.LISTING)
replicas = [row for row in listed if row["kind"] == fleet_listing.REPLICA]
others = [row for row in listed if row["kind"] != fleet_listing.REPLICA]
found = found_replicas.found_in(SimpleNamespace(to_pylist=lambda: others))
roots = replica_parts._of_roots(found, Settings())
sizing = replica_parts.PartSizing(1 << 20, *found.size[:1], *found.size[2:4])
planned = rows(replica_parts._parts(iter(replicas), sizing, roots), replica_parts.PARTS)
batches = replica_parts._replayed(iter(planned), roots, whole=False, strict=True)
facts = [row for batch in batches for row in batch.to_pylist()]
hand = _Hand(0, 1)
for row in facts:
    if row["type"] == "EndedCell":
        hand.take(row["place"], np.frombuffer(row["payload"], JUDGED))
ended = sum(len(one.rows) for one in in_order(as_batches(hand.dealt(), schema_of(Judged))))
print(len(facts), ended, *sys.modules)
"""


@pytest.mark.slow
def test_tasks_of_the_audit_do_not_import_pandas() -> None:
    """It would take a quarter of a second of each Python worker."""
    logs = ROOT / "examples" / "kafka-logs" / "one-node"
    done = subprocess.run([sys.executable, "-c", TASKS, str(logs)], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    facts, ended, *imported = done.stdout.split()
    assert int(facts) > int(ended) > 0
    assert "kafkawire.spark.auditing.replica_parts" in imported
    assert "pandas" not in imported

"""The Rust engine (`native/src/columns`), where it is installed."""

from __future__ import annotations

from functools import lru_cache

from kafkawire._native import ColumnPlan, WalkedColumns
from kafkawire.wire.columns.inputs import Values
from kafkawire.wire.columns.plan import Plan


@lru_cache(maxsize=1024)
def _prepared(plan: Plan) -> ColumnPlan:
    return ColumnPlan(plan)


def walk(plan: Plan, values: Values) -> WalkedColumns:
    """Walks over values, with the GIL released."""
    return _prepared(plan).walk(values.data, values.starts, values.ends)

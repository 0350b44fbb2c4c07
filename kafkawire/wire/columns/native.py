"""The Rust engine (`native/src/columns`), where it is installed."""

from __future__ import annotations

from functools import lru_cache

from kafkawire._native import ColumnPlan
from kafkawire.wire.columns.inputs import Values
from kafkawire.wire.columns.plan import Plan
from kafkawire.wire.columns.walked import Walked


@lru_cache(maxsize=1024)
def _prepared(plan: Plan) -> ColumnPlan:
    return ColumnPlan(plan)


def walk(plan: Plan, values: Values) -> Walked:
    """Walks over values, with the GIL released; the columns of the plan, which hold what the engine wrote."""
    return Walked(*_prepared(plan).walk(values.data, values.starts, values.ends))

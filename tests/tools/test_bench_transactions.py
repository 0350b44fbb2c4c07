"""The case of the bench that runs on a real cluster: all take part, and find the same."""

from __future__ import annotations

import pytest

from tools.bench import transactions
from tools.bench.transactions import FAST, JVM, KEY, OURS, STOCK, find_hanging
from tools.broker import RunningCluster
from tools.broker.errors import BrokerUnavailableError

pytestmark = pytest.mark.slow


def test_all_contestants_are_measured(broker: RunningCluster) -> None:
    """`find_hanging` compares what each finds with what was made to hang."""
    result = find_hanging(broker, 5, 1, warm_up=False)
    assert (result.key, result.items, result.title) == (KEY, 5, "5 partitions on 1 broker")
    names = [timing.contestant for timing in result.timings] + [absence.contestant for absence in result.absent]
    assert set(names) == {*OURS, STOCK, FAST, JVM}
    assert {OURS[1], STOCK, FAST, JVM} <= {timing.contestant for timing in result.timings}
    assert all(len(timing.seconds) == 1 and timing.process > 0 for timing in result.timings)


def test_missing_java_is_an_absence_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> RunningCluster:
        raise BrokerUnavailableError("no java")

    monkeypatch.setattr(transactions, "cluster", none)
    (result,) = transactions.transactions(1)
    assert result.timings == ()
    assert {absence.why for absence in result.absent} == {"no java"}

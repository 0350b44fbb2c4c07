"""How long a call may take, by a clock that stands still, and how long it waits before it tries again."""

from __future__ import annotations

import asyncio
from itertools import islice
from types import SimpleNamespace

import pytest

from kafkawire.client import Config
from kafkawire.client.cluster import deadline
from kafkawire.client.cluster.deadline import Deadline, backoffs


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_what_is_left(clock: SimpleNamespace) -> None:
    whole = Deadline(30)
    assert (whole.seconds, whole.left(), whole.over) == (30, 30, False)
    clock.now += 29
    assert (whole.left(), whole.over) == (1, False)
    clock.now += 1
    assert whole.over
    assert 0 < whole.left() < 0.01  # a last attempt fails with its own reason
    clock.now += 99
    assert 0 < whole.left() < 0.01


def test_a_part_ends_with_the_whole_at_the_latest(clock: SimpleNamespace) -> None:
    whole = Deadline(30)
    assert whole.within(10).left() == 10
    clock.now += 25
    assert whole.within(10).left() == 5


def test_does_not_sleep_past_the_end(clock: SimpleNamespace) -> None:
    whole = Deadline(30)
    assert asyncio.run(whole.sleep(0))
    assert not asyncio.run(whole.sleep(30))
    assert not asyncio.run(whole.sleep(1e9))


def test_waits_are_doubled_up_to_a_limit_with_some_jitter() -> None:
    config = Config.of("a:1", {"retry.backoff.ms": "100", "retry.backoff.max.ms": "1000"})
    runs = [list(islice(backoffs(config), 7)) for _ in range(20)]
    for wait, *found in zip((0.1, 0.2, 0.4, 0.8, 1, 1, 1), *runs, strict=True):
        assert all(0.8 * wait <= one <= 1.2 * wait for one in found)
        assert len(set(found)) > 1

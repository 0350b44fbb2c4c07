"""Clocks of a real coordinator, by a clock here that is an hour off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.client import Admin
from kafkawire.client.diagnosis.clock_samples import MeasuredClocks, compare_clocks
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from tests.broker_fixture import StartCluster
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster

pytestmark = [pytest.mark.broker, pytest.mark.slow]

HOUR = 3_600_000


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Any:
    with start_cluster(1) as running:
        yield running


def compared(running: RunningCluster, off: int, *, writes: bool = True) -> MeasuredClocks:
    """With a clock here that is `off` milliseconds after the broker's. `writes`: a transaction begins in between."""

    async def run() -> MeasuredClocks:
        async with Admin.connect(running.bootstrap) as admin:
            with RawCluster(running.bootstrap) as wire:

                def begin() -> None:
                    wire.init_producer("clock")

                async def pause(_: float) -> None:
                    if writes:
                        await asyncio.to_thread(begin)

                begin()
                return await compare_clocks(admin.cluster, {1}, lambda: clock_ms() + off, pause, 0.0, None)

    return asyncio.run(run())


def test_what_a_coordinator_writes_between_two_answers_measures_its_clock(cluster: RunningCluster) -> None:
    assert compared(cluster, 0) == MeasuredClocks(skews={1: None})
    behind, ahead = compared(cluster, HOUR).skews[1], compared(cluster, -HOUR).skews[1]
    assert behind is not None
    assert ahead is not None
    assert behind.text.startswith("the clock of broker 1 is behind the clock here by ")
    assert (behind.high_ms < -HOUR + 60_000, ahead.low_ms > HOUR - 60_000) == (True, True)


def test_a_coordinator_that_writes_nothing_is_not_measured(cluster: RunningCluster) -> None:
    found = compared(cluster, HOUR, writes=False)
    assert found.problems == {1: "it wrote nothing to internal topics between two readings"}

"""The lag of groups by copies, against what real consumers got: of each recorded cluster, from many offsets on."""

from __future__ import annotations

import random

import pytest

from kafkawire import logdir
from kafkawire.offsets.copied_lag import copied_lags
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.rows import Lag, LagCount
from kafkawire.transactions.blockers import GroupView
from tests.recorded_clusters import CLUSTERS, Copy

pytestmark = pytest.mark.slow

#: Offsets of groups that are tried in each partition, beside its ends.
OFFSETS = 24


def lags_of(copy: Copy, offsets: int = OFFSETS) -> list[tuple[Lag, list[int], list[int]]]:
    """Groups at many offsets of every partition: their lag, and what consumers of both levels got from there on."""
    replicas = LeadingReplicas(logdir.open(copy.path))
    levels = [copy.consumed(level) for level in ("read_committed", "read_uncommitted")]
    chosen = random.Random(copy.cluster)
    found = []
    for place in sorted({*levels[0], *levels[1]}):
        got = [sorted(level.get(place, [])) for level in levels]
        end = max((*got[0], *got[1], 0)) + 1
        for offset in {0, end, *(chosen.randrange(end + 1) for _ in range(offsets))}:
            view = GroupView(group="g", committed={place: offset}, partitions=frozenset({place}))
            (lag,) = copied_lags(replicas, view, as_of=None)
            assert lag.from_offset is not None
            start = lag.from_offset
            found.append((lag, *([one for one in offsets_ if one >= start] for offsets_ in got)))
    return found


def fits(count: LagCount | None, number: int) -> bool:
    return count is not None and count.least <= number <= count.most and (not count.exact or count.least == number)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_consumer_gets_as_many_as_the_lag_says(cluster: str) -> None:
    copy = Copy(cluster, "stopped")
    wrong, exact, places = [], 0, 0
    for lag, committed, uncommitted in lags_of(copy):
        places += 1
        if not fits(lag.read_committed, len(committed)) or not fits(lag.read_uncommitted, len(uncommitted)):
            wrong.append((lag, len(committed), len(uncommitted)))
        exact += bool(lag.read_committed and lag.read_committed.exact)
        if lag.read_committed is not None and lag.read_committed.exact and committed:
            assert lag.oldest_timestamp is not None
    assert wrong == []
    assert places > 50
    print(cluster, places, exact)
    assert exact > 0.8 * places, (exact, places)

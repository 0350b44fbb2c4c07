"""The lag of a share group by what its coordinator answers: exact, or bounds with the reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.client.diagnosis.group_standing import read_group_lags
from kafkawire.client.diagnosis.why_reading import read_why
from kafkawire.messages import (
    DescribeShareGroupOffsetsRequest,
)
from kafkawire.rows import Subject
from tests.client.answers import HANG_S, admin
from tests.client.group_script import GROUP, SHARE_MEMBERS, GroupBroker, share_standing
from tests.client.partition_script import SEARCH, START


@pytest.mark.parametrize(("lag", "bounds"), [(2, (2, 2)), (1, (1, 2)), (-1, (0, 2))])
def test_lag_of_a_share_group_is_what_it_has_not_finished_with(lag: int, bounds: tuple[int, int]) -> None:
    """The log of the script has two records from offset 40 on, where it stands."""

    async def scenario() -> tuple[Any, Any]:
        broker = GroupBroker()
        broker.described = {"share": SHARE_MEMBERS}
        broker.versions[90] = (0, 1)
        broker.on[DescribeShareGroupOffsetsRequest] = lambda _: share_standing(lag)
        async with broker.running(), admin(broker.address) as client:
            found = await read_why(client.cluster, Subject(group=GROUP), SEARCH)
            return found, await read_group_lags(client.cluster, GROUP, SEARCH)

    found, lags = asyncio.run(asyncio.wait_for(scenario(), HANG_S))
    assert [(one.cause, one.waits[0].topic) for one in found.blockers] == [("hanging", "orders")]
    assert [one.read_uncommitted for one in found.lags] == [one.read_uncommitted for one in lags]
    (first, *_) = lags
    assert (first.committed_offset, first.partition) == (START, 0)
    assert (first.read_uncommitted.least, first.read_uncommitted.most) == bounds
    assert bool(first.bounds) == (bounds[0] < bounds[1])
    if first.bounds:  # the script has no topic of share groups' states
        assert first.bounds[-1].startswith("The records of the group's state could not be read: ")

"""Where a group stands on a live cluster, for its lag: its offsets, those in transactions, what its members are
assigned, and what holds the partitions back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.blocked_group import find_blocking
from kafkawire.client.diagnosis.lag_reading import read_lags
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.rpc.share_offsets import share_offsets
from kafkawire.rows import Lag
from kafkawire.transactions.blockers import Place, holders


async def read_group_lags(
    cluster: Cluster, group: str, search: Search, topics: Sequence[str] | None = None
) -> list[Lag]:
    """The lag of a group in each of its partitions.

    Args:
        search: `fetch_bytes` limits what is fetched of a partition.
        topics: only these.

    Raises:
        ClientError: nothing is known of the group, or nothing could be read.
    """
    found = await find_blocking(cluster, group, search)
    view = found.view
    assert view is not None
    unfinished: dict[Place, int | None] | None = None
    if found.share:
        shared = await share_offsets(cluster, group, cluster.deadline(search.timeout_s))
        unfinished = {(place.topic, place.partition): one.lag for place, one in shared.found.items()}
        view = replace(
            view,
            committed={(place.topic, place.partition): one.start for place, one in shared.found.items()},
            partitions=frozenset((*view.partitions, *unfinished)),
            gaps=(*view.gaps, *map(str, shared.refused.values())),
        )
    held = holders(found.audit.findings)
    lags = await read_lags(
        cluster,
        view,
        fetch_bytes=search.fetch_bytes,
        timeout_s=search.timeout_s,
        held_by=held,
        topics=topics,
        unfinished=unfinished,
    )
    if view.gaps and lags:
        lags = (replace(lags[0], problems=(*lags[0].problems, *view.gaps)), *lags[1:])
    return list(lags)

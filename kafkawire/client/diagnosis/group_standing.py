"""The inputs of a group's lag on a live cluster: its committed offsets, its offsets in open transactions, the
partitions assigned to its members, and what holds the partitions back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.blocked_group import find_blocking
from kafkawire.client.diagnosis.lag_reading import read_lags
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.diagnosis.share_lag_reading import read_share_lags
from kafkawire.client.errors import ClientError
from kafkawire.client.rpc.committed_offsets import listed_groups
from kafkawire.client.rpc.hidden_resources import hidden_groups
from kafkawire.rows import Lag
from kafkawire.transactions.blocking.blockers import holders


async def read_group_lags(
    cluster: Cluster, group: str, search: Search, topics: Sequence[str] | None = None
) -> list[Lag]:
    """The lag of a group in each of its partitions.

    Args:
        search: `fetch_bytes` limits what is fetched of a partition.
        topics: only these.

    Raises:
        ClientError: nothing is known of the group, nothing could be read, or where there is no row to name it in,
            something could not be read.
    """
    found = await find_blocking(cluster, group, search)
    view = found.view
    assert view is not None
    held = holders(found.audit.findings)
    if found.standing is not None:
        lags = await read_share_lags(cluster, view, found.standing, search, held_by=held, topics=topics)
    else:
        lags = await read_lags(
            cluster, view, fetch_bytes=search.fetch_bytes, timeout_s=search.timeout_s, held_by=held, topics=topics
        )
    if view.gaps and lags:
        lags = (replace(lags[0], problems=(*lags[0].problems, *view.gaps)), *lags[1:])
    elif view.gaps:
        raise ClientError(view.gaps[0])
    return list(lags)


async def every_group(cluster: Cluster, search: Search) -> tuple[list[str], list[str]]:
    """The groups of all kinds that brokers list, sorted; and why there may be more, a sentence each. Raises
    ClientError: no broker could be asked."""
    brokers = await cluster.known_brokers(cluster.deadline(search.timeout_s))
    listed, gaps = await listed_groups(cluster, brokers, cluster.deadline(search.timeout_s))
    try:
        hidden = await hidden_groups(cluster, brokers, cluster.deadline(search.timeout_s))
    except ClientError as error:
        hidden = f"whether there are groups that the principal may not Describe is not known: {error}"
    return sorted(listed), gaps if hidden is None else [*gaps, hidden]

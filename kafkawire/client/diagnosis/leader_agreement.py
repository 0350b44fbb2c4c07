"""Whether all brokers name the same leader: a deposed one that has not learnt of it still answers as the leader.

What it remembers as open may have ended at its successor long since. No single broker's metadata shows it, its own
least of all; that of all of them does, before and after it was asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.request_driver import every
from kafkawire.client.results import Metadata, TopicPartition


async def views(cluster: Cluster, topics: Collection[str], timeout_s: float | None) -> list[Metadata]:
    """Each broker's own metadata of some topics. Those that do not answer do not count."""
    deadline = cluster.deadline(timeout_s)

    async def ask(broker_id: int) -> Metadata:
        return await cluster.metadata(topics, deadline=deadline, broker_id=broker_id)

    brokers = await cluster.known_brokers(deadline)
    return list((await every(cluster, brokers, ask, deadline)).values.values())


def disputed(seen: Iterable[Metadata], places: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """Partitions that have more than one leader, or leader epoch, in what was seen of them; each with a sentence."""
    seen = list(seen)
    found = {}
    for place in places:
        leads = {(info.leader_epoch, info.leader) for one in seen if (info := one.partitions.get(place)) is not None}
        if len(leads) > 1:
            said = ", ".join(
                f"{'none' if leader is None else f'broker {leader}'} in leader epoch {epoch}"
                for epoch, leader in sorted(leads, key=lambda lead: lead[0])
            )
            found[place] = f"Its leader changed, or not all brokers know of that yet: {said}."
    return found

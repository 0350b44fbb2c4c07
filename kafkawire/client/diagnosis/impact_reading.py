"""What open transactions of a live cluster hold back, by further requests of bounded size after those of a search.

Only for transactions that need attention (not live, not young), and once for each: ListGroups to each broker,
OffsetFetch for each group, DescribeLogDirs and DescribeConfigs for their partitions, and Fetch of at most
`Search.fetch_bytes` of each of at most `MOST_FETCHES` partitions. A value that a broker refuses is estimated, or named
in `Impact.unknown`; the search does not count it as a gap.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.diagnosis.cluster_reading import OpenKey
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.committed_offsets import committed_offsets
from kafkawire.client.rpc.configs import Configs, topic_configs
from kafkawire.client.rpc.fetch_batches import PIECE, batches
from kafkawire.client.rpc.log_dirs import log_sizes
from kafkawire.transactions.impact import held_back

#: Partitions of which the log is fetched, those with the most offsets held back first; of others it is estimated.
MOST_FETCHES = 16
#: Reasons of transactions in normal use: offsets alone are compared.
_HARMLESS = ("live", "young")


async def read_impacts(
    cluster: Cluster,
    findings: Sequence[rows.Finding],
    search: Search,
    brokers: Collection[int],
    earlier: Mapping[OpenKey, rows.Finding],
) -> tuple[rows.Finding, ...]:
    """The findings with their `impact`.

    Args:
        findings: all open transactions of the partitions that were read.
        brokers: ids of the cluster's brokers.
        earlier: the last findings: of a transaction with an impact there nothing is read again.
    """
    wanted = [
        one
        for one in findings
        if search.impact
        and (search.impact_of_all or one.attention is not None or one.reason not in _HARMLESS)
        and _before(one, earlier) is None
    ]
    deadline = cluster.deadline(search.timeout_s)
    facts = await _facts(cluster, findings, wanted, search, brokers, deadline) if wanted else {}
    made = held_back.with_impacts(findings, lambda one: facts.get(_place(one), held_back.PartitionImpact()))
    return tuple(
        one if (before := _before(one, earlier)) is None else replace(one, impact=held_back.aged(one, before))
        for one in made
    )


def _before(finding: rows.Finding, earlier: Mapping[OpenKey, rows.Finding]) -> rows.Impact | None:
    old = earlier.get((_place(finding), finding.producer_id))
    if old is None or old.start_offset != finding.start_offset or old.impact is None:
        return None
    return old.impact if old.impact.measured_at is not None else None


def _place(finding: rows.Finding) -> TopicPartition:
    return TopicPartition(finding.topic, finding.partition)


async def _facts(
    cluster: Cluster,
    findings: Sequence[rows.Finding],
    wanted: Iterable[rows.Finding],
    search: Search,
    brokers: Collection[int],
    deadline: Deadline,
) -> dict[TopicPartition, held_back.PartitionImpact]:
    opens: dict[TopicPartition, list[rows.Finding]] = {}
    for one in findings:
        opens.setdefault(_place(one), []).append(one)
    places = sorted(dict.fromkeys(map(_place, wanted)))
    # One after the other: a broker that closes the connection on one request would end the others, too.
    settings = await topic_configs(
        cluster, {place.topic for place in places}, sorted(held_back.TOPIC_SETTINGS), deadline
    )
    sizes = await log_sizes(cluster, places, deadline)
    groups = await committed_offsets(cluster, brokers, places, deadline)
    largest = sorted(places, key=lambda place: -_held(opens[place]))[:MOST_FETCHES]
    found = {}
    for place in places:
        unknown = list(groups.unread)
        of_topic = settings.values.get(place.topic)
        if of_topic is None:
            unknown.append(f"the topic's settings: {settings.errors[place.topic]}")
        held = None
        if place in largest and search.fetch_bytes:
            try:
                held = await _fetched(cluster, place, opens[place], search, deadline)
            except ClientError as error:
                unknown.append(f"the records, which were not fetched: {error}")
        if place in sizes.errors and (held is None or not held.whole):
            unknown.append(f"bytes of the log: {sizes.errors[place]}")
        found[place] = held_back.PartitionImpact(
            held=held,
            log_bytes=sizes.values.get(place),
            policy=None if of_topic is None else held_back.TopicPolicy.of(place.topic, _texts(of_topic)),
            committed=groups.offsets[place],
            measured_at=int(time.time() * 1000),
            unknown=tuple(unknown),
        )
    return found


def _texts(settings: Configs) -> dict[str, str]:
    return {name: one.value for name, one in settings.items() if one.value is not None}


def _held(opens: Iterable[rows.Finding]) -> int:
    return max((one.high_watermark or 0) - (one.last_stable_offset or 0) for one in opens)


async def _fetched(
    cluster: Cluster, place: TopicPartition, opens: Sequence[rows.Finding], search: Search, deadline: Deadline
) -> held_back.HeldLog | None:
    """The data from the first open transaction on, counted up to the limit of a Fetch."""
    first = opens[0]
    if first.high_watermark is None:
        return None
    starts = {one.producer_id: one.start_offset or 0 for one in opens}
    counter = held_back.HeldLogCounter(starts, first.log_start_offset or 0, first.high_watermark, search.show_records)
    left = search.fetch_bytes
    leader = await leader_of(cluster, place, deadline)
    piece = min(left, PIECE)
    walk = batches(cluster, leader, place, counter.cuts[0], first.high_watermark, deadline, piece)
    async with aclosing(walk) as found:
        async for batch in found:
            if batch.base_offset >= first.high_watermark:
                break
            counter.add(batch)
            left -= batch.size
            if left <= 0:
                break
    return counter.held(whole=counter.read_to >= first.high_watermark)

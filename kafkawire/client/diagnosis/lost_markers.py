"""Whether a transaction that hangs may be a committed one whose marker an election has lost.

An unclean election removes markers that only the last leader had (KIP-101, KIP-966). A committed transaction without
its marker looks like a hanging one: no coordinator will end it, and an ABORT marker would hide committed records. This
is possible only where the partition has another replica, its leader has changed since, and its topic allows such
elections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.diagnosis.cluster_reading import OpenKey
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Metadata, Results, TopicPartition
from kafkawire.client.rpc.configs import Configs, topic_configs
from kafkawire.client.rpc.fetch_batches import first_batch
from kafkawire.rows import Finding
from kafkawire.transactions.verdict.verdicts import HANGING

_UNCLEAN = "unclean.leader.election.enable"
_LOST = "an election may have lost its COMMIT marker, and an abort would hide what is committed"
_SIDE_BY_SIDE = 8


async def lost_marker_doubts(
    cluster: Cluster, metadata: Metadata, findings: Mapping[OpenKey, Finding], deadline: Deadline
) -> dict[OpenKey, str]:
    """A sentence for each transaction whose COMMIT marker may have been lost, with the reason.

    Args:
        metadata: that of before the findings: a transaction that was open then had lost its marker by then.
        findings: of any verdict; what does not hang has no doubt.
        deadline: of all requests together.
    """
    suspects = {key: start for key, one in findings.items() if (start := _suspect(metadata, key[0], one)) is not None}
    if not suspects:
        return {}
    topics = {place.topic for place, _ in suspects}
    settings = await topic_configs(cluster, topics, [_UNCLEAN], deadline)
    side_by_side = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def look(key: OpenKey, start: int) -> str | None:
        allowed = _allowed(settings, key[0].topic)
        if allowed is None:
            return None
        info = metadata.partitions[key[0]]
        async with side_by_side:
            try:
                batch = await first_batch(cluster, key[0], start, start + 1, deadline, lambda one: True)
            except ClientError as error:
                return f"Whether its leader has changed since its data could not be read ({error}); {allowed}: {_LOST}."
        written = -1 if batch is None else batch.partition_leader_epoch
        if 0 <= written == info.leader_epoch:
            return None
        return f"Its data is of leader epoch {written}, and the leader of {info.leader_epoch}; {allowed}: {_LOST}."

    doubts = await asyncio.gather(*(look(key, start) for key, start in suspects.items()))
    return {key: doubt for key, doubt in zip(suspects, doubts, strict=True) if doubt is not None}


def _suspect(metadata: Metadata, place: TopicPartition, finding: Finding) -> int | None:
    """Where a transaction began that hangs, and may have been committed in a partition with several replicas."""
    aborted = finding.reason == "transaction_ended" and finding.coordinator_state == "CompleteAbort"
    info = metadata.partitions.get(place)
    alone = info is not None and len(info.replicas) < 2
    return None if finding.verdict != HANGING or aborted or alone or info is None else finding.start_offset


def _allowed(settings: Results[str, Configs], topic: str) -> str | None:
    """That a topic allows unclean elections, or may, a clause; None where it does not."""
    if topic in settings.errors:
        return f"{_UNCLEAN} could not be read ({settings.errors[topic]})"
    setting = settings.values[topic].get(_UNCLEAN)
    value = None if setting is None else setting.value
    return None if value == "false" else f"{_UNCLEAN} is {value or 'not known'}"

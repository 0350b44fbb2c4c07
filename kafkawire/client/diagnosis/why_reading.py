"""What blocks a group, a topic, an id or a producer on a live cluster: `find_hanging` in the partitions of the subject,
and the blockers that follow from its findings (`transactions.blocking.blockers`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.diagnosis.blocked_group import find_blocking
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.lag_reading import read_lags
from kafkawire.client.diagnosis.partition_symptoms import read_symptoms, replicas_of, verified
from kafkawire.client.diagnosis.pending_offsets import CONSUMER_OFFSETS
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.diagnosis.share_lag_reading import read_share_lags
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import PIECE, batches
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.transactional_ids import describe_transactions, list_transactions
from kafkawire.errors import KafkaWireError
from kafkawire.offsets.fill_shares import FillShares
from kafkawire.transactions.blocking.blockers import Fills, Place, holders
from kafkawire.transactions.blocking.partition_blockers import damaged
from kafkawire.transactions.blocking.why import answer
from kafkawire.transactions.commands import Reach
from kafkawire.transactions.formatting import size, some


async def read_why(
    cluster: Cluster, subject: rows.Subject, search: Search, progress: Callable[[int, int], None] | None = None
) -> rows.Why:
    """What blocks a subject.

    Args:
        search: how to search; its topics and partitions are replaced by the subject's.
        progress: called with the number of partitions described since its last call, and the total.

    Raises:
        ClientError: the subject is not known, or nothing could be read.
    """
    search = replace(search, impact=True, impact_of_all=True, topics=None, partitions=None, places=None)
    reach = Reach(search.reach, search.options)
    if subject.group is not None:
        blocked = await find_blocking(cluster, subject.group, search, progress)
        view, held = blocked.view, holders(blocked.audit.findings)
        assert view is not None
        lags: tuple[rows.Lag, ...] = ()
        if blocked.standing is not None:
            lags = await read_share_lags(cluster, view, blocked.standing, search, held_by=held)
        elif not blocked.share:
            lags = await read_lags(
                cluster, view, fetch_bytes=search.fetch_bytes, timeout_s=search.timeout_s, held_by=held
            )
        found = [await _unreadable(cluster, one, search, reach) for one in lags if one.problems and not blocked.share]
        others = [blocker for one in found for blocker in one]
        return answer(blocked.audit, subject, reach, group=view, lags=lags, others=others)
    if subject.topic is not None:
        chosen = replace(search, topics=(subject.topic,), partitions=subject.partitions or None)
        audit = await find_hanging(cluster, chosen, progress)
        numbers = frozenset(subject.partitions) or None
        seen = await read_symptoms(cluster, subject.topic, numbers, search, reach)
        scope = " ".join(filter(None, (audit.read.scope, seen.scope))) or None
        audit = replace(audit, read=replace(audit.read, scope=scope))
        fills = await _fills(cluster, audit, search)
        return answer(audit, subject, reach, fills=fills, others=seen.blockers, gaps=seen.gaps)
    scope, places = None, None
    if subject.transactional_id is not None:
        name = subject.transactional_id
        described = (await describe_transactions(cluster, [name], cluster.deadline(search.timeout_s)))[name]
        scope = (
            f"Transactional id {name!r} is {described.state} at its coordinator, broker {described.coordinator}: "
            f"producer {described.producer_id}, epoch {described.producer_epoch}."
        )
        places = {(place.topic, place.partition) for place in described.partitions}
    # In all partitions: those that hang are in none that a coordinator knows.
    audit = await find_hanging(cluster, replace(search, impact_of_all=False), progress)
    if subject.producer_id is not None and all(one.producer_id != subject.producer_id for one in audit.findings):
        sure = audit.read.complete and all(one.holds for one in audit.read.premises)
        return answer(audit, subject, reach, gaps=await _unremembered(cluster, subject.producer_id, search, sure=sure))
    return answer(replace(audit, read=replace(audit.read, scope=scope)), subject, reach, places=places)


async def _unremembered(cluster: Cluster, producer_id: int, search: Search, *, sure: bool) -> list[str]:
    """Why it is not certain that a producer id without an open transaction is in use; nothing where it is.

    Args:
        sure: whether all topics were read and nothing is hidden: else a broker may remember it.

    Raises:
        ClientError: every coordinator and every leader answered, and none remembers it.
    """
    listed = await list_transactions(cluster, cluster.deadline(search.timeout_s), producer_ids=[producer_id])
    if any(listed.values.values()):
        return []
    metadata = await cluster.metadata(None, deadline=cluster.deadline(search.timeout_s))
    states = await describe_producers(cluster, metadata.partitions, cluster.deadline(search.timeout_s))
    if any(one.producer_id == producer_id for found in states.values.values() for one in found):
        return []
    unread = [f"broker {broker}: {error}" for broker, error in listed.errors.items()]
    unread += [f"{place}: {error}" for place, error in (*metadata.errors.items(), *states.errors.items())]
    if not (unread or sure):
        unread.append("not everything was read, or rights hide some of it")
    if not unread:
        raise ClientError(f"producer id {producer_id}: no coordinator and no partition's leader remembers it")
    return [f"whether a broker remembers producer id {producer_id} is not known: {some(unread, 3)}"]


async def _unreadable(cluster: Cluster, lag: rows.Lag, search: Search, reach: Reach) -> list[rows.Blocker]:
    """The damage that keeps a group's records from being read; nothing where it is something else."""
    if lag.high_watermark is None or lag.from_offset is None or not search.fetch_bytes:
        return []
    place = TopicPartition(lag.topic, lag.partition)
    metadata = await cluster.metadata([lag.topic], deadline=cluster.deadline(search.timeout_s))
    log = await verified(cluster, place, lag.from_offset, lag.high_watermark, search.fetch_bytes)
    if isinstance(log, ClientError) or not log.places or place not in metadata.partitions:
        return []
    return [damaged(log.places, replicas_of(metadata.partitions[place]), reach)]


async def _fills(cluster: Cluster, audit: rows.Audit, search: Search) -> dict[Place, Fills]:
    """What fills the partitions of `__consumer_offsets` whose last stable offset is held, as far as the budget goes."""
    found: dict[Place, Fills] = {}
    for one in audit.findings:
        place = TopicPartition(one.topic, one.partition)
        if one.topic != CONSUMER_OFFSETS or not one.blocked or place in found or not search.fetch_bytes:
            continue
        start, end = max(one.start_offset or 0, one.log_start_offset or 0), one.high_watermark or 0
        shares, left = FillShares(), search.fetch_bytes
        deadline = cluster.deadline(search.timeout_s)
        try:
            leader = await leader_of(cluster, place, deadline)
            async with aclosing(batches(cluster, leader, place, start, end, deadline, min(left, PIECE))) as walk:
                async for batch in walk:
                    shares.add(batch)
                    left -= batch.size
                    if left <= 0:
                        break
        except KafkaWireError as error:
            found[place] = Fills(shares.rows(), f"which groups fill {place} was not read to its end: {error}")
            continue
        part = f"which groups fill {place}: by its first {size(search.fetch_bytes - left)} from offset {start} on"
        found[place] = Fills(
            shares.rows(), "; ".join(filter(None, (part if left <= 0 else None, shares.doubt))) or None
        )
    return found

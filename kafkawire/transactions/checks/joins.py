"""The checks that join several partitions: markers with the coordinator's decisions, producer ids with their owners and
with those that were handed out, transactional ids with their partition of `__transaction_state`."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.transactions.checks import (
    CHECKS,
    ID_CHECKS,
    ID_IN_ITS_PARTITION,
    MARKER_EPOCH,
    ONE_OUTCOME,
    PREPARE_COMPLETED,
    PRODUCER_ID_UNIQUE,
    REPLICAS_AGREE,
    Answer,
    Tally,
)
from kafkawire.transactions.checks.outcomes import Tallies, by_producer, judge
from kafkawire.transactions.cluster import Cluster
from kafkawire.transactions.decisions import Decision
from kafkawire.transactions.facts import TRANSACTION_STATE, Metadata, Partition, Place, Placed, Use
from kafkawire.transactions.id_history import IdHistory
from kafkawire.transactions.model import partition_of_id
from kafkawire.transactions.settings import DEFAULT

#: What `__transaction_state` must be read for.
_OF_IDS = frozenset({*ID_CHECKS, ONE_OUTCOME, MARKER_EPOCH, PREPARE_COMPLETED, ID_IN_ITS_PARTITION})

_NO_METADATA = "no __cluster_metadata with producer ids was read: it is not known which were handed out"
_OLD_METADATA = "__cluster_metadata may have been copied before the producer id was handed out"
_COUNT_ASSUMED = "the number of partitions of __transaction_state is assumed"


def joined_answers(cluster: Cluster) -> Iterator[Placed]:
    """The answers."""
    yield from _outcomes(cluster)
    yield from _producer_ids(cluster)
    yield from _owners(cluster)
    yield from _homes(cluster)
    yield from _unasked(cluster)


def _outcomes(cluster: Cluster) -> Iterator[Placed]:
    """one_outcome and marker_epoch."""
    histories = cluster.histories
    decisions: dict[int, list[Decision]] = {}
    for history in histories.values():
        for producer_id, decided in history.decisions.found.items():
            decisions.setdefault(producer_id, []).extend(decided)
    owners = {use.producer_id: place for place, history in histories.items() for use in history.uses}
    until = _decided_until(cluster)
    tallies = Tallies()
    for producer_id, endings in by_producer(e for e in cluster.facts.endings if e.place in cluster.chosen):
        owner = owners.get(producer_id)
        known = until if owner is None else _until(histories[owner], cluster.chosen[owner])
        judge(endings, decisions.get(producer_id, ()), tallies, decided_until=known)
    for place, tally in tallies.all():
        yield Placed(place, tally.answer())


def _until(history: IdHistory, partition: Partition) -> int | None:
    return partition.broker_time if history.intact and not partition.damaged else None


def _decided_until(cluster: Cluster) -> int | None:
    """Up to when no id can have decided anything that no record says."""
    if not cluster.log.complete:
        return None
    times = [_until(history, cluster.chosen[place]) for place, history in cluster.histories.items()]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


# Producer ids --------------------------------------------------------------------------------------------------------


def _producer_ids(cluster: Cluster) -> Iterator[Placed]:
    """Every producer id was handed out, and none twice."""
    metadata = cluster.metadata
    if metadata is not None and metadata.blocks:
        yield Placed(metadata.place, _blocks(metadata), metadata.path)
    for producers in cluster.facts.producers:
        if producers.place not in cluster.chosen or not producers.count:
            continue
        tally = Tally(PRODUCER_ID_UNIQUE)
        if metadata is None or cluster.handed_out is None:
            tally.lack(_NO_METADATA, producers.count)
        else:
            tally.held += producers.count - len(producers.beyond)
            shown = _shown_until(cluster, producers.place)
            for beyond in producers.beyond:
                newest = max(shown or 0, beyond.timestamp) if shown is not None else None
                if newest is None or metadata.newest is None or metadata.newest < newest:
                    tally.lack(_OLD_METADATA)
                else:
                    what = f"it was never handed out: the first free producer id is {cluster.handed_out}"
                    tally.breach(beyond.offset, beyond.producer_id, what)
        yield Placed(producers.place, tally.answer())


def _shown_until(cluster: Cluster, place: Place) -> int | None:
    """A time of the broker's at which the partition was certainly not copied yet."""
    time = cluster.chosen[place].broker_time
    return cluster.covered.get(place.copy) if time is None else time


def _blocks(metadata: Metadata) -> Answer:
    tally = Tally(PRODUCER_ID_UNIQUE)
    newest = -1
    for block in metadata.blocks:
        if block.next_producer_id > newest:
            tally.held += 1
        else:
            what = f"the next producer id is {block.next_producer_id}, after {newest}: it was handed out before"
            tally.breach(block.offset, block.next_producer_id, what)
        newest = max(newest, block.next_producer_id)
    return tally.answer()


def _owners(cluster: Cluster) -> Iterator[Placed]:
    """A producer id belongs to one transactional id for ever."""
    first: dict[int, Use] = {}
    for place, history in sorted(cluster.histories.items()):
        tally = Tally(PRODUCER_ID_UNIQUE)
        for use in history.uses:
            owner = first.setdefault(use.producer_id, use)
            if owner.transactional_id == use.transactional_id:
                tally.held += 1
            else:
                what = (
                    f"belongs to the transactional id {owner.transactional_id!r} already ({owner.place}, offset "
                    f"{owner.offset})"
                )
                tally.breach(use.offset, use.producer_id, what, transactional_id=use.transactional_id)
        yield Placed(place, tally.answer())


# Transactional ids ---------------------------------------------------------------------------------------------------


def _homes(cluster: Cluster) -> Iterator[Placed]:
    """Each id is in its partition of `__transaction_state`."""
    setting = cluster.resolved.transaction_state_partitions
    for place, history in cluster.histories.items():
        tally = Tally(ID_IN_ITS_PARTITION)
        for use in {use.transactional_id: use for use in reversed(history.uses)}.values():
            home = partition_of_id(use.transactional_id, setting.value)
            if home == place.partition:
                tally.held += 1
            elif setting.source == DEFAULT:
                tally.lack(_COUNT_ASSUMED)
            else:
                what = f"of {setting.value} partitions, the id's is {home}"
                tally.breach(use.offset, use.producer_id, what, transactional_id=use.transactional_id)
        yield Placed(place, tally.answer())


def _unasked(cluster: Cluster) -> Iterator[Placed]:
    """Every check has an answer, also where there was nothing to ask."""
    missing = cluster.has_transactions and not cluster.of_ids
    place = min(cluster.chosen, default=Place("", TRANSACTION_STATE, 0))
    for check in CHECKS:
        if check in _OF_IDS and missing:
            why = (f"no partition of {TRANSACTION_STATE} was read",)
            yield Placed(place, Answer(check=check, not_checkable=1, lacked=why))
        elif check != REPLICAS_AGREE:
            yield Placed(place, Answer(check=check))

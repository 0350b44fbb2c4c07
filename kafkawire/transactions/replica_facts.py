"""`replica_facts`: all that one replica of a partition says by itself, read once.

Engines differ in where they do this (here, or one replica a task on a cluster); what follows joins replicas, and is one
code (`conclude`). These facts hold no open file and can be sent elsewhere. They grow with the producers, transactional
ids and ended transactions, not with the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from kafkawire import logdir, rows
from kafkawire.records.control import ABORT, COMMIT, CONTROL_TYPES
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.checks.replica_checks import PartitionChecks
from kafkawire.transactions.coordinator_log import IdFacts, UnreadableRecord, registration
from kafkawire.transactions.endings import Endings
from kafkawire.transactions.facts import (
    AssignedProducerIds,
    CoordinatorRecord,
    Open,
    Partition,
    Place,
    ReplicaProducers,
    Segment,
    UnassignedProducerId,
    partition_of,
)
from kafkawire.transactions.id_history import IdHistory
from kafkawire.transactions.producer_append import Append
from kafkawire.transactions.producer_state import Producer
from kafkawire.transactions.replay import PRODUCER_ID_EXPIRATION_MS, Replay
from kafkawire.transactions.replica_files import place_of, read_segment, read_snapshot

MARKERS = frozenset({CONTROL_TYPES[ABORT], CONTROL_TYPES[COMMIT]})


class Replica(NamedTuple):
    """A replica to read, and what its cluster says that its rules count with.

    Attributes:
        producer_expiration_ms: producer.id.expiration.ms of the brokers.
        id_expiration_ms: transactional.id.expiration.ms; None where nobody said it.
        handed_out: the producer ids that were handed out, as each copy of the metadata log has it.
    """

    partition: logdir.Partition
    producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    id_expiration_ms: int | None = None
    handed_out: tuple[AssignedProducerIds, ...] = ()


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one replica.

    Attributes:
        partition: how much was read. `path`: of its directory.
        opens: the transactions that are open after the last batch.
        answers: of `LOG_CHECKS` and, of `__transaction_state`, of `ID_CHECKS`.
        endings: the transactions with data that have ended.
        producers: its producer ids.
        ids: of `__transaction_state`, what its records say.
        damage: of its snapshots.
    """

    partition: Partition
    path: str
    opens: tuple[Open, ...] = ()
    answers: tuple[Placed, ...] = ()
    endings: Endings
    producers: ReplicaProducers
    ids: IdFacts | None = None
    damage: tuple[rows.Damage, ...] = ()


def replica_facts(replica: Replica, *, progress: Callable[[int], None] | None = None) -> ReplicaFacts:
    """Read one replica: replay its producers, and hold it against the rules that its own files can prove.

    Args:
        progress: is told how many bytes were read, after every segment.
    """
    partition, handed_out = replica.partition, replica.handed_out
    place = place_of(partition)
    checks = PartitionChecks(partition, expiration_ms=replica.producer_expiration_ms)
    endings = Endings(place)
    ids: IdHistory | None = None
    segments: list[Segment] = []
    marker: Append | None = None
    log_start = partition.log_start_offset or 0
    entries, damage = read_snapshot(partition, log_start)
    replay = Replay(entries) if entries else checks.replay
    for number, file in enumerate(partition.segments):
        for fact in read_segment(file, segments[-1] if segments else None):
            if isinstance(fact, Append):
                if fact.control in MARKERS:
                    marker = fact
                ended = checks.add(fact)
                if ended is not None:
                    endings.add(ended)
                if entries:
                    replay.add(fact)
            elif isinstance(fact, Segment):
                segments.append(fact)
            else:
                ids = ids or IdHistory(replica.id_expiration_ms)
                _register(ids, place, fact)
        checks.end_segment(segments[-1], last=number + 1 == len(partition.segments))
        if progress is not None:
            progress(segments[-1].bytes)
    id_facts = None if ids is None else ids.facts()
    answers = [*checks.answers(), *(id_facts.answers if id_facts else ())]
    producers = checks.replay.producers
    found = partition_of(place, segments, log_start=log_start, high_watermark=partition.high_watermark)
    beyond = list(_beyond(producers.values(), marker, found.broker_time or 0, handed_out))
    return ReplicaFacts(
        partition=found,
        path=partition.path,
        opens=tuple(open_transactions(place, replay)),
        answers=tuple(Placed(place, answer, partition.path) for answer in answers),
        endings=endings,
        producers=ReplicaProducers(place, len(producers), tuple(beyond)),
        ids=id_facts,
        damage=tuple(damage),
    )


def _beyond(
    producers: Iterable[Producer], marker: Append | None, broker_time: int, handed_out: tuple[AssignedProducerIds, ...]
) -> Iterator[UnassignedProducerId]:
    """The producer ids that no copy of the metadata log has, or that may have been in use before it had them.

    Args:
        marker: the last one of the partition. broker_time: the newest time in it that a broker wrote.
    """
    for producer in producers:
        by = marker.timestamp if marker is not None and producer.last_append <= marker.last_offset else None
        time = max(producer.timestamp, broker_time)
        time = time if by is None else min(time, by)
        free = [
            number
            for copy in handed_out
            if copy.newest is not None and (number := copy.first_free(min(time, copy.newest))) is not None
        ]
        if free and producer.producer_id >= min(free):
            yield UnassignedProducerId(producer.producer_id, producer.last_append, producer.timestamp, by)


def open_transactions(place: Place, replay: Replay) -> Iterator[Open]:
    """The transactions that are open after the last batch."""
    for producer in replay.open():
        yield Open(
            place=place,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            start_offset=producer.first_offset,
            last_offset=max(producer.first_offset, producer.last_data_offset),
            last_timestamp=producer.timestamp,
            coordinator_epoch=None if producer.coordinator_epoch < 0 else producer.coordinator_epoch,
            written_after=producer.written_after,
        )


def _register(ids: IdHistory, place: Place, fact: CoordinatorRecord | UnreadableRecord) -> None:
    if isinstance(fact, UnreadableRecord):
        ids.add(fact)
        return
    ids.reach(fact.offset)
    found = registration(place, fact)
    if found is not None:
        ids.add(found)

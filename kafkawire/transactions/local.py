"""The audit on one machine: replay every partition, batch by batch.

Memory grows with the producers and transactional ids, not with the logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkawire import rows
from kafkawire.logdir import LogDirectory
from kafkawire.transactions.appends import Append
from kafkawire.transactions.assembly import Settings, conclude
from kafkawire.transactions.checking import PartitionChecks
from kafkawire.transactions.coordinator import IdLog, Unreadable, registration
from kafkawire.transactions.facts import (
    TRANSACTION_STATE,
    CoordinatorRecord,
    Facts,
    Open,
    Partition,
    Place,
    Placed,
    Segment,
    partition_of,
)
from kafkawire.transactions.reading import (
    place_of,
    read_segment,
    read_snapshot,
    replicas,
    transaction_state_partitions,
)
from kafkawire.transactions.replay import Replay


def audit(
    directory: LogDirectory,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    paths: tuple[str, ...] = (),
    progress: Callable[[int], None] | None = None,
) -> rows.Audit:
    """Find and judge every open transaction in copied log directories, and hold the logs against the rules (`check`).

    Args:
        paths: what to call them in the answer.
        progress: is told how many bytes were read, after every segment.
    """
    audited = replicas(directory)
    partitions: list[Partition] = []
    opens: list[Open] = []
    answers: list[Placed] = []
    id_logs: dict[Place, IdLog] = {}
    damage: list[rows.Damage] = []
    for partition in audited:
        place = place_of(partition)
        checks = PartitionChecks(partition)
        segments: list[Segment] = []
        log_start = partition.log_start_offset or 0
        entries, damaged = read_snapshot(partition, log_start)
        damage += damaged
        replay = checks.replay if not entries else Replay()
        for entry in sorted(entries, key=lambda entry: entry.start_offset):
            replay.add(entry.as_append())
        for number, file in enumerate(partition.segments):
            for fact in read_segment(file, segments[-1] if segments else None):
                if isinstance(fact, Append):
                    checks.add(fact)
                    if entries:
                        replay.add(fact)
                elif isinstance(fact, Segment):
                    segments.append(fact)
                else:
                    _register(id_logs.setdefault(place, IdLog()), place, fact)
            checks.end_segment(segments[-1], last=number + 1 == len(partition.segments))
            if progress is not None:
                progress(segments[-1].bytes)
        partitions.append(partition_of(place, segments, log_start=log_start, high_watermark=partition.high_watermark))
        opens += open_transactions(place, replay)
        answers += (Placed(place, answer, partition.path) for answer in checks.answers())
    producer_ids = sorted({open_.producer_id for open_ in opens})
    owners = (log.owner(producer_id) for log in id_logs.values() for producer_id in producer_ids)
    facts = Facts(
        paths=paths,
        brokers=node_ids(directory),
        partitions=partitions,
        opens=opens,
        owners=[owner for owner in owners if owner is not None],
        unreadable_ids=frozenset(place for place, log in id_logs.items() if log.unreadable is not None),
        transaction_state_partitions=transaction_state_partitions(audited),
        clusters=cluster_ids(directory),
        damage=tuple(damage),
        gaps=unlisted(directory),
        answers=answers,
    )
    return conclude(facts, settings)


def open_transactions(place: Place, replay: Replay) -> Iterator[Open]:
    """The transactions that are open after the last batch."""
    for producer in replay.open():
        yield Open(
            place=place,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            start_offset=producer.first_offset,
            last_offset=producer.last_data_offset,
            last_timestamp=producer.timestamp,
            coordinator_epoch=None if producer.coordinator_epoch < 0 else producer.coordinator_epoch,
            written_after=producer.written_after,
        )


def node_ids(directory: LogDirectory) -> tuple[int, ...]:
    """The brokers of the log directories, where they say so."""
    return tuple(sorted({broker.node_id for broker in directory.brokers if broker.node_id is not None}))


def cluster_ids(directory: LogDirectory) -> dict[str, str]:
    """The cluster of each log directory that says so."""
    return {broker.root: broker.cluster_id for broker in directory.brokers if broker.cluster_id is not None}


def unlisted(directory: LogDirectory) -> tuple[str, ...]:
    """Sentences on directories that could not be listed."""
    return tuple(f"{found.path} could not be listed: {found.reason}" for found in directory.unreadable)


def _register(log: IdLog, place: Place, fact: CoordinatorRecord | Unreadable) -> None:
    assert place.topic == TRANSACTION_STATE
    found = fact if isinstance(fact, Unreadable) else registration(place, fact)
    if found is not None:
        log.add(found)

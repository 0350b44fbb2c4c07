"""The plan of an audit of a live cluster: the part of each partition's log that is read (from its oldest open
transaction on, or from a given time on), and an estimate of its bytes."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.log_reading import FetchRange, Load
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Metadata, ProducerState, TopicPartition
from kafkawire.client.rpc.log_dirs import log_sizes
from kafkawire.client.rpc.partition_offsets import list_offsets, offsets_at
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import count, duration


class ReadingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of logs that are read.

    Attributes:
        data: partitions of topics; those without an open transaction may have nothing to read.
        of_ids: the partitions of `__transaction_state`, each as a whole.
        errors: partitions that cannot be read. `unsized`: why the sizes of logs are not known.
    """

    data: tuple[FetchRange, ...]
    of_ids: tuple[FetchRange, ...]
    errors: dict[TopicPartition, ClientError]
    load: Load
    unsized: str

    @property
    def size(self) -> int | None:
        """Bytes of all of it, as an estimate."""
        sizes = [asked.size for asked in (*self.data, *self.of_ids) if asked.start < asked.end]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def __str__(self) -> str:
        """A sentence on what is read, and how fast."""
        reading = sum(asked.start < asked.end for asked in self.data)
        offsets = sum(asked.end - asked.start for asked in (*self.data, *self.of_ids))
        what = f"reads {reading} of {count(len(self.data), 'partition')}"
        if self.of_ids:
            what += f" and {TRANSACTION_STATE}"
        load, size = self.load, self.size
        pace = f"{load.side_by_side} side by side, at most {mega(load.bytes_per_s)} a second"
        if size is None:
            return f"{what}: {count(offsets, 'offset')} of unknown size ({self.unsized}); {pace}"
        about = duration(max(1, size // load.bytes_per_s) * 1000)
        return f"{what}: {count(offsets, 'offset')}, about {mega(size)}; {pace}: about {about}"


def mega(size: int) -> str:
    """Bytes as `1.5 MB`; below a tenth of that as `1,500 bytes`."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size:,} bytes"


async def plan_reading(
    cluster: Cluster, metadata: Metadata, load: Load, *, since_ms: int | None, timeout_s: float | None
) -> ReadingPlan:
    """Makes the plan from offsets and producers of the leaders; nothing is fetched.

    Args:
        metadata: of the topics to read, and of `__transaction_state`.
        since_ms: epoch milliseconds; 0: from the beginning; None: from the oldest open transaction of each partition.
    """
    places = [place for place in metadata.partitions if place.topic != TRANSACTION_STATE]
    of_ids = [place for place in metadata.partitions if place.topic == TRANSACTION_STATE]
    offsets = await list_offsets(cluster, [*places, *of_ids], cluster.deadline(timeout_s))
    readable = [place for place in places if place in offsets.values]
    producers = await describe_producers(cluster, readable, cluster.deadline(timeout_s))
    errors = {**offsets.errors, **producers.errors}
    starts: dict[TopicPartition, int | None] = dict.fromkeys(readable)
    if since_ms:
        timed = await offsets_at(cluster, readable, since_ms, cluster.deadline(timeout_s))
        starts |= timed.values
        errors |= timed.errors
    sizes = await log_sizes(
        cluster, [place for place in offsets.values if place not in errors], cluster.deadline(timeout_s)
    )

    def asked(place: TopicPartition, first: int | None, states: tuple[ProducerState, ...] = ()) -> FetchRange:
        known, leader = offsets.values[place], metadata.partitions[place].leader
        end = known.high_watermark
        open_ = [state.transaction_start_offset for state in states if state.transaction_start_offset is not None]
        start = max(known.log_start, min([end if first is None else first, *open_, end]))
        size = sizes.values.get(place)
        share = (end - start) / max(1, end - known.log_start)
        return FetchRange(
            place=place,
            leader=leader,
            start=start,
            offsets=known,
            producers=states,
            size=None if size is None else round(size * share),
        )

    return ReadingPlan(
        data=tuple(
            asked(place, 0 if since_ms == 0 else starts[place], producers.values[place])
            for place in readable
            if place not in errors
        ),
        of_ids=tuple(asked(place, 0) for place in of_ids if place not in errors),
        errors=errors,
        load=load,
        unsized=next((str(error) for error in sizes.errors.values()), ""),
    )


async def refreshed(cluster: Cluster, ranges: Collection[FetchRange], timeout_s: float | None) -> list[FetchRange]:
    """The ranges up to the high watermarks of now. `ranges`: of a plan; one whose offsets cannot be read stays as it
    is. `timeout_s`: seconds for the request with its retries; None as configured."""
    offsets = await list_offsets(cluster, [one.place for one in ranges], cluster.deadline(timeout_s))
    return [msgspec.structs.replace(one, offsets=offsets.values.get(one.place, one.offsets)) for one in ranges]

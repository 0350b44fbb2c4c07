"""The clocks of brokers: the newest time that counts, and which times may be compared.

Copies show of each broker the newest time that it wrote. One that is days before those of others is of a broker that
wrote nothing since, or of one whose clock is behind; no file shows which. So what a broker may have written before
that time is compared with times up to it only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise

import msgspec

from kafkawire.transactions.facts import CLUSTER_METADATA, Leader, PartitionFacts, Place
from kafkawire.transactions.formatting import when

#: Times of two brokers that differ by more than this are not taken for times of clocks that are right.
FAR_MS = 86_400_000
#: The year 2200, epoch milliseconds: a time after it has another unit, also where a broker wrote it.
LATEST_MS = 7_258_118_400_000

#: A broker's id; of partitions whose leader is not known, each is taken for a broker's: topic and partition.
Source = int | tuple[str, int]


class Stamp(msgspec.Struct, frozen=True, order=True):
    """A time that a broker wrote, epoch milliseconds, and where it is."""

    time: int
    place: Place


class BrokerClocks(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of clocks.

    Attributes:
        newest: the newest time that counts; None where no broker wrote a time.
        far: the newest of those that are after it; None where none is.
        behind: the newest time of each broker that is far before those of others.
        alone: the newest time of each partition whose leader is not known, and which is far before those of others.
        reference: the newest time that counts without the metadata log, where that of the metadata log is far after
            it: all brokers wrote nothing since, or its clock is ahead.
        apart: partitions that a broker leads which is far before others: how late it is there is not known.
    """

    newest: Stamp | None = None
    far: Stamp | None = None
    behind: Mapping[int, Stamp] = {}
    alone: Mapping[tuple[str, int], int] = {}
    reference: int | None = None
    apart: frozenset[tuple[str, int]] = frozenset()

    def is_far(self, time: int) -> bool:
        """Whether a time that a broker wrote is after the newest that counts."""
        return time > (LATEST_MS if self.newest is None else self.newest.time)

    def limit(self, partition: tuple[str, int], time: int) -> int | None:
        """Up to which time one can be compared that a leader of a partition wrote; None: with any."""
        known = [stamp.time for stamp in self.behind.values()]
        known += [found for found in (self.alone.get(partition), self.reference) if found is not None]
        return min((found for found in known if found >= time), default=None)

    def of(self, partitions: Collection[tuple[str, int]], leaders: Mapping[tuple[str, int], Leader]) -> BrokerClocks:
        """What is needed to compare the times of some partitions."""
        led = {key: leaders[key].broker for key in partitions if key in leaders}
        return msgspec.structs.replace(
            self,
            alone={key: self.alone[key] for key in partitions if key in self.alone},
            apart=frozenset(key for key, broker in led.items() if broker in self.behind),
        )


def broker_clocks(partitions: Iterable[PartitionFacts], leaders: Mapping[tuple[str, int], Leader]) -> BrokerClocks:
    """The clocks of a cluster.

    The time of one broker counts only where another's is near it or after it; of those that are all far from each
    other, the oldest counts; none that is after `LATEST_MS`. The metadata log, which goes on where nothing else
    happens, counts by itself. `leaders`: of each partition, by the metadata log."""
    found: dict[Source, Stamp] = {}
    for one in partitions:
        for source, time in _written(one, leaders.get((one.place.topic, one.place.partition))):
            stamp = Stamp(time, one.place)
            found[source] = max(found.get(source, stamp), stamp)
    all_times = sorted(found.values(), reverse=True)
    times = [stamp for stamp in all_times if stamp.time <= LATEST_MS]
    if not times:
        return BrokerClocks(far=next(iter(all_times), None))
    counted = (
        newer
        for newer, older in pairwise(times)
        if newer.place.topic == CLUSTER_METADATA or newer.time - older.time <= FAR_MS
    )
    newest = next(counted, times[-1])
    reference = _reference(times)
    return BrokerClocks(
        newest=newest,
        far=all_times[0] if all_times[0].time > newest.time else None,
        behind={key: stamp for key, stamp in found.items() if isinstance(key, int) and reference - stamp.time > FAR_MS},
        alone={
            key: stamp.time
            for key, stamp in found.items()
            if not isinstance(key, int) and reference - stamp.time > FAR_MS
        },
        reference=reference if newest.time - reference > FAR_MS else None,
    )


def apart(limit: int) -> str:
    """Why times after a `limit` are not compared, a sentence that follows another."""
    return (
        f" Times after {when(limit)} are not compared with that: a broker that wrote until then wrote none since, or "
        "its clock is behind."
    )


def earlier_of(limit: int | None, time: int | None) -> int | None:
    """A time up to a limit; None where there is no time. `limit`: None for none."""
    return time if limit is None or time is None else min(limit, time)


def _written(one: PartitionFacts, leader: Leader | None) -> Iterator[tuple[Source, int]]:
    """Who wrote the newest times in a replica: its leader those of its own epoch."""
    time = one.broker_time
    if leader is not None and one.leader_time is not None and one.leader_time[0] >= leader.epoch:
        yield leader.broker, one.leader_time[1]
        time = None if one.leader_time[1] == time else time
    if time is not None:
        yield (one.place.topic, one.place.partition), time


def _reference(times: list[Stamp]) -> int:
    """The newest time of a broker that another's is near to; the oldest where there is none; the metadata log's where
    nothing else has times. `times`: descending."""
    near = {index for index, (newer, older) in enumerate(pairwise(times)) if newer.time - older.time <= FAR_MS}
    of_brokers = [index for index, stamp in enumerate(times) if stamp.place.topic != CLUSTER_METADATA]
    if not of_brokers:
        return times[0].time
    confirmed = (index for index in of_brokers if index in near or index - 1 in near)
    return times[next(confirmed, of_brokers[-1])].time

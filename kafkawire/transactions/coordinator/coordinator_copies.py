"""`CoordinatorLog`: how much of `__transaction_state` copies hold, and who leads its partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from kafkawire.transactions.facts import MissingOffsets, Place, Registration

#: The largest difference between clocks of brokers: what one wrote is after what another wrote where it is later by
#: more. The second number: by how much the clock of one broker may be set back.
SKEW_MS, ONE_CLOCK_MS = 600_000, 1_000
#: The most folders that are named as the source of a premise.
_NAMED = 3
#: What shows more than a copy of the coordinator's log that is not newer than the data.
LATER_COPY = "copy {} again, after the data; or copy the directory of a broker that was stopped cleanly"
#: What shows more than a copy of a partition in which no broker certainly wrote after the coordinator's record.
AFTER_RECORD = "copy {} again, after the coordinator's log; or copy the directory of a broker that was stopped cleanly"
#: Why missing offsets are lost, and what shows more.
NOT_CLEANED = "where no cleaner has been (cleaner-offset-checkpoint)"
OTHER_COPY = "give another copy of {}, or the directories of its other replicas, whose cleaners may have been there"


def _named(found: Sequence[int], places: Mapping[int, Place]) -> str | None:
    more = f"; and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return "; ".join(places[number].path for number in found[:_NAMED]) + more or None


class CoordinatorLog(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How much of `__transaction_state` was read.

    Attributes:
        partitions: how many it has. `read`, `damaged`: their numbers, ascending.
        leader_epochs: highest leader epoch of each partition: its coordinator's epoch.
        newest: of each partition the time of its newest record, the broker's clock; without those that have none.
        places: the replica of each partition that was read.
        until: of those in directories of brokers that were stopped cleanly the newest broker-side time in the
            directory: until then they are whole, unless their leader has more.
        lost: of those in which records are lost, and nothing is damaged, the last offsets of these.
        high_watermarks: of those that a checkpoint names; of several replicas the highest.
        assumed: whether nothing that was read shows how many partitions it has: `partitions` is Kafka's default then.
    """

    partitions: int
    assumed: bool = False
    read: tuple[int, ...] = ()
    damaged: tuple[int, ...] = ()
    leader_epochs: dict[int, int] = {}
    newest: dict[int, int] = {}
    until: dict[int, int] = {}
    places: dict[int, Place] = {}
    lost: dict[int, MissingOffsets] = {}
    high_watermarks: dict[int, int] = {}

    def source(self, chosen: Collection[int] | None = None) -> str | None:
        """The folders of some partitions, of all that were read by default; the first of many; None for none.

        Args:
            chosen: numbers.
        """
        if chosen is None:
            return self._source
        return _named([number for number in chosen if number in self.places], self.places)

    @property
    def losses(self) -> str:
        """The partitions in which records are lost, and the last offsets of these; the first of many."""
        found = [f"partition {number}: {lost}" for number, lost in list(self.lost.items())[:_NAMED]]
        more = len(self.lost) - _NAMED
        return "; ".join(found) + (f"; and {more:,} more" if more > 0 else "")

    @cached_property
    def _source(self) -> str | None:
        return _named([number for number in self.read if number in self.places], self.places)

    @cached_property
    def missing(self) -> list[int]:
        return sorted(set(range(self.partitions)) - set(self.read))

    @cached_property
    def newest_times(self) -> list[int]:
        return sorted(self.newest.values())

    @cached_property
    def until_times(self) -> list[int]:
        return sorted(self.until.values())

    @cached_property
    def short(self) -> dict[tuple[str, int | None, int | None, int | None, int | None], ShortLog]:
        """What is known of partitions that were not read past data: a log directory, and the places among
        `newest_times` and `until_times` that the times of the data have."""
        return {}

    @property
    def complete(self) -> bool:
        """Whether an id that was found nowhere does not exist."""
        return not self.missing and not self.damaged and not self.lost

    def unreplicated(self, record: Registration) -> int | None:
        """The high watermark, where the newest record of an id is not below it: a coordinator acts on no record that
        replicas lack, and it may still be lost."""
        high = self.high_watermarks.get(record.place.partition)
        return None if high is None or record.offset < high else high

    def lost_after(self, record: Registration) -> MissingOffsets | None:
        """The lost offsets above that of the newest record of an id: a newer one may have been there."""
        lost = self.lost.get(record.place.partition)
        return None if lost is None or lost.end <= record.offset else lost


class PartitionLeader(msgspec.Struct, frozen=True):
    """The leader of a partition, by the metadata log.

    Attributes:
        broker, epoch: its id, and the leader epoch. `source`: the metadata log.
        read: its replica was read, so that the one that counts reaches at least as far.
    """

    broker: int
    epoch: int
    read: bool
    source: str


class ShortLog(NamedTuple):
    """Partitions of `__transaction_state` that may not have been read far enough.

    Attributes:
        partitions, names: how many, and their numbers as text. `newest`: the earliest of their newest times.
        led: the leaders of those whose leader was not read.
    """

    partitions: int
    names: str
    led: tuple[PartitionLeader, ...]
    newest: int | None

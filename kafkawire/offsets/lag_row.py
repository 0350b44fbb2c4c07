"""The row of a group in one partition, from its offset and the counted records: the same for copies and brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kafkawire._java_numbers import INT64, number
from kafkawire.offsets.lag_count import LagCounter
from kafkawire.rows import Lag
from kafkawire.transactions.formatting import when

_NONE = -1


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group stands in a partition.

    Attributes:
        committed: None: it has no offset there.
        log_start, stable, high: of the partition. stable_at_most: the highest that the last stable offset may be; None:
            it is known.
        unstable: the offset is in an open transaction.
    """

    group: str
    topic: str
    partition: int
    committed: int | None
    log_start: int
    stable: int
    high: int
    stable_at_most: int | None = None
    unstable: bool = False

    @property
    def start(self) -> int:
        """The offset from which it reads: where the committed one is none or not there, as with
        auto.offset.reset=earliest."""
        if self.committed is None or not self.log_start <= self.committed <= self.high:
            return self.log_start if self.committed is None or self.committed < self.log_start else self.high
        return self.committed

    def counter(self) -> LagCounter:
        """A counter of the batches from `start` on."""
        return LagCounter(self.start, self.stable, self.high, self.stable_at_most)

    def row(
        self,
        counter: LagCounter,
        *,
        as_of: int | None,
        settings: Mapping[str, str] | None,
        held_by: Sequence[str] = (),
        problems: Sequence[str] = (),
    ) -> Lag:
        """What was counted.

        Args:
            as_of: the clock, epoch milliseconds; None: it is not known.
            settings: of the topic, by name; None: they are not known.
            held_by: what holds the last stable offset, a sentence each. `problems`: what could not be read.
        """
        committed, uncommitted, held = counter.counts
        oldest = counter.oldest_timestamp
        after, why = retention(settings, oldest)
        log_start, at = self.log_start, self.committed
        return Lag(
            group=self.group,
            topic=self.topic,
            partition=self.partition,
            as_of=as_of,
            committed_offset=at,
            from_offset=self.start,
            log_start_offset=log_start,
            last_stable_offset=self.stable,
            high_watermark=self.high,
            read_committed=committed,
            read_uncommitted=uncommitted,
            held=held,
            oldest_timestamp=oldest,
            age_ms=None if oldest is None or as_of is None or oldest < 0 else as_of - oldest,
            lost_offsets=0 if at is None else max(0, log_start - at),
            beyond=0 if at is None else max(0, at - self.high),
            deleted_after=after,
            retention=why,
            held_by=tuple(held_by),
            unstable=self.unstable,
            bounds=tuple(counter.uncertain),
            problems=tuple(problems),
        )


def retention(settings: Mapping[str, str] | None, oldest: int | None) -> tuple[int | None, str]:
    """When retention deletes a record at the earliest, epoch milliseconds, and a sentence; None where time does not, or
    it is not known when.

    Args:
        settings: of the topic, with the brokers' defaults as far as they are known; None: not known.
        oldest: time of the record; None: there is none, or it is not known.
    """
    if settings is None:
        return None, "not known: the topic's settings were not read"
    policies = {one.strip() for one in settings.get("cleanup.policy", "delete").split(",")}
    if "delete" not in policies:
        return None, "none: the topic is compacted only"
    given = settings.get("retention.ms")
    by_size, by_time = _number(settings.get("retention.bytes")), _number(given)
    size = "" if by_size == _NONE else "; by size at any time" if by_size is not None else "; by size: not known"
    if by_time is None:
        what = "the brokers' default" if given is None else f"no number: {given[:50]!r}"
        return None, f"not known: retention.ms is {what}{size}"
    if by_time == _NONE:
        return None, f"time deletes nothing (retention.ms=-1){size}"
    if oldest is None or oldest < 0:
        return None, f"after {by_time} ms{size}"
    return oldest + by_time, f"not before {when(oldest + by_time)}{size}"


def _number(text: str | None) -> int | None:
    """A setting as Java reads it; None where it is not set, and for what is no number."""
    try:
        return None if text is None else number(text, INT64)
    except ValueError:
        return None


def unread_row(group: str, topic: str, partition: int, problem: str, committed: int | None = None) -> Lag:
    """The row of a partition of which nothing is known."""
    return Lag(group=group, topic=topic, partition=partition, committed_offset=committed, problems=(problem,))

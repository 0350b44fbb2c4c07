"""The impact of open transactions: the records that they hold back, and those that an abort of each would hide. Pure
functions over counts and settings.

A source counts the log from a partition's first open transaction on (`HeldLogCounter`): `impact_scan` from copies of
it, `client.diagnosis.impact_reading` from a bounded Fetch. `with_impacts` makes the same rows of both. What was not
counted is estimated from the bytes of the whole log, and marked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice

import msgspec
from msgspec.structs import replace

from kafkawire.errors import KafkaWireError
from kafkawire.records import Batch
from kafkawire.rows import Finding, GroupLag, HeldCompaction, Impact, OffsetRange, TransactionData, TransactionRecord
from kafkawire.rows.base import text_or_base64

#: Most bytes of records in which keys are looked for that occur again.
COMPACTION_SAMPLE_BYTES = 32 << 20
#: Settings of topics that an impact depends on, and the time until retention deletes.
TOPIC_SETTINGS = frozenset({"cleanup.policy", "remote.storage.enable", "retention.ms", "retention.bytes"})
#: Topics that brokers create with cleanup.policy=compact.
COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

RETENTION_HELD, RETENTION_NOT_HELD, NO_RETENTION = "held", "not_held", "none"


class CountedRange(msgspec.Struct, frozen=True):
    """The batches from offset `start` up to the next range: number of data records, and bytes."""

    start: int
    records: int
    bytes: int


class HeldLog(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A partition's log from its first open transaction on, as far as it was read.

    Attributes:
        ranges: from each start of an open transaction to the next, up to the high watermark.
        end: it was read up to here. `whole`: that is its end. `damaged`: something before could not be read.
        problems: sentences on what could not be read, with its place.
        data: of the open transactions, by producer id.
        closed_bytes: of batches in segments that are not active; None where segments are not known.
        repeated: share (0 to 1) of the bytes of records whose key occurs again after them; None: not looked for.
    """

    ranges: tuple[CountedRange, ...]
    end: int
    whole: bool
    data: dict[int, TransactionData]
    damaged: bool = False
    problems: tuple[str, ...] = ()
    closed_bytes: int | None = None
    repeated: float | None = None

    def between(self, start: int, end: int) -> tuple[int, int]:
        """Records and bytes of the ranges that begin from `start` on and below `end`."""
        starts, records, sizes = self._totals
        first, last = bisect_left(starts, start), bisect_left(starts, end)
        return records[last] - records[first], sizes[last] - sizes[first]

    @cached_property
    def _totals(self) -> tuple[list[int], list[int], list[int]]:
        """The starts of ranges, and the records and bytes before each."""
        return (
            [one.start for one in self.ranges],
            [0, *accumulate(one.records for one in self.ranges)],
            [0, *accumulate(one.bytes for one in self.ranges)],
        )


class TopicPolicy(msgspec.Struct, frozen=True):
    """Settings of a topic: whether it is compacted (`cleanup.policy`), whether old records are deleted (None: not
    known), and whether its segments are copied to a tier (`remote.storage.enable`)."""

    compacted: bool = False
    deleted: bool | None = True
    tiered: bool = False

    @classmethod
    def of(cls, topic: str, settings: Mapping[str, str]) -> TopicPolicy:
        """The policy by a topic's settings, by name; a setting that is missing has Kafka's default."""
        default = "compact" if topic in COMPACTED_TOPICS else "delete"
        policies = {one.strip() for one in settings.get("cleanup.policy", default).split(",")}
        tiered = settings.get("remote.storage.enable", "false").lower() == "true"
        return cls("compact" in policies, "delete" in policies, tiered)


class PartitionImpact(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a partition with open transactions, beside the findings.

    Attributes:
        held: what was counted of its log; None where nothing was.
        log_bytes: of the whole log (DescribeLogDirs); None where they are not known.
        policy: None where the topic's settings are not known.
        cleaned_offset: from `cleaner-offset-checkpoint`.
        committed: offsets of consumer groups; None where they were not read.
        measured_at: epoch milliseconds; None for copied logs.
        unknown: sentences on what could not be read.
    """

    held: HeldLog | None = None
    log_bytes: int | None = None
    policy: TopicPolicy | None = None
    cleaned_offset: int | None = None
    committed: dict[str, int] | None = None
    measured_at: int | None = None
    unknown: tuple[str, ...] = ()


#: Facts of a finding's partition.
FactsOf = Callable[[Finding], PartitionImpact]


class HeldLogCounter:
    """Counts batches for a `HeldLog`.

    Args:
        starts: first offset of each open transaction, by producer id.
        log_start: what is below is gone.
        end: the high watermark; None where it is not known.
        show_records: number of records of each transaction to keep.
    """

    def __init__(self, starts: Mapping[int, int], log_start: int, end: int | None, show_records: int = 0) -> None:
        self.starts = {producer_id: max(start, log_start) for producer_id, start in starts.items()}
        self.cuts = sorted(set(self.starts.values()))
        self.end = end
        self.read_to = self.cuts[0]
        self.closed_bytes: int | None = None
        self.damaged = False
        self.problem = ""
        self._problems = 0
        self.repetition: KeyRepetition | None = None
        self._sums = [[0, 0] for _ in self.cuts]
        self._data: dict[int, TransactionData] = {}
        self._show = show_records

    def lack(self, problem: str, *, counted: bool = True) -> None:
        """Something cannot be read: of the problems the first is named, and how many there are. `problem`: what, and
        where. `counted`: batches are missing, and not only what is in their records."""
        self.damaged |= counted
        self.problem = self.problem or problem
        self._problems += 1

    def add(self, batch: Batch) -> None:
        """Count a batch."""
        if batch.last_offset < self.cuts[0]:
            return
        if self.end is None or batch.base_offset < self.end:
            records = 0 if batch.is_control else batch.measured().record_count
            self.add_sums(bisect_right(self.cuts, max(batch.base_offset, self.cuts[0])) - 1, records, batch.size)
        if batch.transactional and not batch.is_control and batch.producer_id in self.starts:
            self.add_data(batch)
        self.read_to = max(self.read_to, batch.last_offset + 1)

    def add_sums(self, number: int, records: int, size: int) -> None:
        """Count batches of a range. `number`: index of the range in `cuts`. `records`, `size`: number of data records,
        and bytes, of the batches."""
        self._sums[number][0] += records
        self._sums[number][1] += size

    def add_data(self, batch: Batch) -> None:
        """Count a data batch of one of the transactions."""
        producer_id = batch.producer_id
        if batch.last_offset < self.starts[producer_id]:
            return
        data = self._data.get(producer_id) or TransactionData(first_offset=batch.base_offset)
        shown = list(data.shown)
        if len(shown) < self._show:
            try:
                shown.extend(_shown(batch, self._show - len(shown)))
            except KafkaWireError as error:
                self.lack(f"the records of the batch at offset {batch.base_offset}: {error}", counted=False)
        self._data[producer_id] = replace(
            data,
            last_offset=batch.last_offset,
            records=data.records + batch.record_count,
            bytes=data.bytes + batch.size,
            shown=tuple(shown),
        )

    def held(self, *, whole: bool) -> HeldLog:
        """What was counted. `whole`: the log was read to its end."""
        more = f"; and {self._problems - 1:,} more" if self._problems > 1 else ""
        counted = {producer_id: self._data.get(producer_id, TransactionData()) for producer_id in self.starts}
        return HeldLog(
            ranges=tuple(CountedRange(cut, *sums) for cut, sums in zip(self.cuts, self._sums, strict=True)),
            end=self.read_to if self.end is None else min(self.read_to, self.end),
            whole=whole,
            data={key: replace(one, estimated=self.damaged or not whole) for key, one in counted.items()},
            damaged=self.damaged,
            problems=(self.problem + more,) if self.problem else (),
            closed_bytes=self.closed_bytes,
            repeated=None if self.repetition is None else self.repetition.share,
        )


class KeyRepetition:
    """How many bytes of records have a key that occurs again: what compaction would drop, roughly."""

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}
        self._total = self._repeated = 0

    @property
    def full(self) -> bool:
        """Whether enough was looked at."""
        return self._total >= COMPACTION_SAMPLE_BYTES

    @property
    def share(self) -> float | None:
        return self._repeated / self._total if self._total else None

    def add(self, batch: Batch) -> None:
        """Look at a data batch. Raises KafkaWireError: its records cannot be read."""
        for record in batch.records:
            size = len(record.key or b"") + len(record.value or b"") + 8
            self._total += size
            key = bytes(record.key or b"")
            self._repeated += self._last.get(key, 0)
            self._last[key] = size


def _shown(batch: Batch, most: int) -> Iterator[TransactionRecord]:
    for record in islice(batch.records, most):
        key, key_base64 = text_or_base64(record.key)
        value, value_base64 = text_or_base64(record.value)
        yield TransactionRecord(
            offset=record.offset,
            timestamp=record.timestamp,
            key=key,
            key_base64=key_base64,
            value=value,
            value_base64=value_base64,
        )


def with_impacts(findings: Sequence[Finding], facts_of: FactsOf) -> tuple[Finding, ...]:
    """The findings of one cluster, each with its `impact`, where the end of what is held is known."""
    opens: dict[tuple[str, int], list[int]] = {}
    for one in findings:
        if one.start_offset is not None:
            start = max(one.start_offset, one.log_start_offset or 0)
            opens.setdefault((one.topic, one.partition), []).append(start)
    ordered = {key: sorted(starts) for key, starts in opens.items()}
    return tuple(
        one
        if one.start_offset is None
        else replace(
            one,
            impact=impact_of(
                one.producer_id,
                one.start_offset,
                ordered[one.topic, one.partition],
                facts_of(one),
                log_start=one.log_start_offset or 0,
                last_stable_offset=one.last_stable_offset,
                high_watermark=one.high_watermark,
            ),
        )
        for one in findings
    )


def impact_of(
    producer_id: int,
    start: int,
    starts: Sequence[int],
    facts: PartitionImpact,
    *,
    log_start: int,
    last_stable_offset: int | None,
    high_watermark: int | None,
) -> Impact | None:
    """The impact of one transaction; None where the end of what is held is not known.

    Args:
        start: its first offset. `starts`: of all open transactions of the partition, at or above the log start, sorted.
        log_start, last_stable_offset, high_watermark: of the partition.
    """
    held, start = facts.held, max(start, log_start)
    end = high_watermark if high_watermark is not None else held.end if held is not None else None
    if end is None:
        return None
    end = max(end, start)
    behind = bisect_right(starts, start)
    after = starts[behind] if behind < len(starts) else end
    unknown = [*facts.unknown, *(() if held is None else held.problems)]
    if high_watermark is None:
        unknown.append("the high watermark: it is taken to be the end of the log that was read")
    measured = Measured(facts, log_start, end)
    return Impact(
        held=measured.range(start, end),
        released=measured.range(start, start if starts[0] < start else min(after, end)),
        data=None if held is None else held.data.get(producer_id),
        compaction=_compaction(starts[0], facts),
        retention=_retention(facts.policy),
        groups=_groups(facts.committed, last_stable_offset, high_watermark),
        measured_at=facts.measured_at,
        unknown=tuple(unknown),
    )


class Measured(msgspec.Struct, frozen=True):
    """Counts and estimates of ranges of a partition's log, from `log_start` to `end`."""

    facts: PartitionImpact
    log_start: int
    end: int

    def range(self, start: int, end: int) -> OffsetRange:
        """How much is from `start`, where an open transaction begins, up to `end`: the next one, or the log's end."""
        if end <= start:
            return OffsetRange(start_offset=start, end_offset=start, records=0, bytes=0)
        held = self.facts.held
        counted_to = start if held is None else min(max(held.end, start), end)
        records, size = (0, 0) if held is None else held.between(start, end)
        left = end - counted_to
        if held is not None and (held.whole or not left):
            return OffsetRange(start_offset=start, end_offset=end, records=records, bytes=size, estimated=held.damaged)
        per_offset = self._bytes_per_offset(counted_to - start, size)
        return OffsetRange(
            start_offset=start,
            end_offset=end,
            records=records + (round(left * records / (counted_to - start)) if counted_to > start else left),
            bytes=None if per_offset is None else size + round(left * per_offset),
            estimated=True,
        )

    def _bytes_per_offset(self, offsets: int, size: int) -> float | None:
        whole = self.facts.log_bytes
        if whole is not None and self.end > self.log_start:
            return whole / (self.end - self.log_start)
        return size / offsets if offsets else None


def _compaction(first: int, facts: PartitionImpact) -> HeldCompaction | None:
    if facts.policy is None or not facts.policy.compacted:
        return None
    size = repeated = None
    if facts.held is not None:
        size, repeated = facts.held.closed_bytes, facts.held.repeated
    return HeldCompaction(
        cleaned_offset=facts.cleaned_offset,
        held_offset=first,
        bytes=size,
        freed_bytes=None if size is None or repeated is None else round(size * repeated),
    )


def _retention(policy: TopicPolicy | None) -> str | None:
    if policy is None or (policy.deleted is None and not policy.tiered):
        return None
    if policy.tiered:
        return RETENTION_HELD
    return RETENTION_NOT_HELD if policy.deleted else NO_RETENTION


def _groups(committed: Mapping[str, int] | None, stable: int | None, high: int | None) -> tuple[GroupLag, ...] | None:
    if committed is None or stable is None or high is None:
        return None
    found = [
        GroupLag(
            group=group,
            committed_offset=offset,
            waits=offset == stable < high,
            committed_lag=max(0, stable - offset),
            lag=max(0, high - offset),
        )
        for group, offset in committed.items()
    ]
    return tuple(sorted(found, key=lambda one: (not one.waits, -one.lag, one.group)))


def aged(finding: Finding, before: Impact) -> Impact:
    """An impact of an earlier reading, with the high watermark of a later one: what came since is estimated."""
    high = finding.high_watermark
    if high is None or high <= before.held.end_offset:
        return before
    grown = [
        _grown(one, high) if one.end_offset == before.held.end_offset > one.start_offset else one
        for one in (before.held, before.released)
    ]
    return replace(before, held=grown[0], released=grown[1])


def _grown(one: OffsetRange, end: int) -> OffsetRange:
    factor = (end - one.start_offset) / (one.end_offset - one.start_offset)
    return replace(
        one,
        end_offset=end,
        records=None if one.records is None else round(one.records * factor),
        bytes=None if one.bytes is None else round(one.bytes * factor),
        estimated=True,
    )

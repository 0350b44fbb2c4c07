"""Charts of partitions: the offsets of open transactions, and the range that readers wait for. Numbers for SVG.

Horizontal positions are in per cent of the width, so that a chart fits phones and paper and its text keeps its size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from kafkawire.report.descriptions import waiting_offsets
from kafkawire.rows import Finding

#: Heights in pixels: a transaction's caption and bar, and the scale below them.
ROW_HEIGHT = 34
SCALE_HEIGHT = 40

#: Margin on both sides, in per cent of the width.
EDGE = 1.5

#: Limit of bars in a chart. The earliest transactions are shown.
MOST_BARS = 20


class TransactionBar(msgspec.Struct, frozen=True):
    """The bar of an open transaction: its left end and width in per cent, its row from 0, and its finding."""

    x: float
    width: float
    row: int
    finding: Finding

    @property
    def caption_ends(self) -> bool:
        """Whether the caption ends at the bar's right end, rather than beginning at its left end."""
        return self.x > 35 and self.x + self.width >= 65

    @property
    def caption(self) -> float:
        """Where the caption begins or ends: at the bar, if that leaves enough room on a phone."""
        if self.caption_ends:
            return round(self.x + self.width, 2)
        return self.x if self.x <= 35 else EDGE


class OffsetMark(msgspec.Struct, frozen=True):
    """A vertical line at an offset, with a name. `end`: whether the name is on its left side."""

    x: float
    name: str
    offset: int
    end: bool


class PartitionChart(msgspec.Struct, frozen=True):
    """The chart of one partition.

    Attributes:
        findings: the partition's open transactions, sorted by start offset.
        waiting: number of offsets from the last stable offset to the high watermark, if a transaction holds it back.
        height: height of the chart, in pixels.
        stuck: x and width of the range that read_committed consumers do not see; None if it is unknown.
        first, last: the offsets at the left and right edge.
    """

    cluster_id: str | None
    topic: str
    partition: int
    findings: tuple[Finding, ...]
    log_start: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    waiting: int
    height: int
    bars: tuple[TransactionBar, ...]
    lines: tuple[OffsetMark, ...]
    stuck: tuple[float, float] | None
    first: int
    last: int

    @property
    def hidden(self) -> int:
        return len(self.findings) - len(self.bars)


def partition_charts(findings: Iterable[Finding]) -> list[PartitionChart]:
    """One chart for each partition with open transactions, the most waiting offsets first."""
    groups: dict[tuple[str | None, str, int], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.start_offset is not None:
            groups[finding.cluster_id, finding.topic, finding.partition].append(finding)
    return sorted(map(_chart, groups.values()), key=lambda chart: -chart.waiting)


def _chart(findings: list[Finding]) -> PartitionChart:
    ordered = sorted(findings, key=lambda finding: (finding.start_offset or 0, finding.producer_id))
    one = ordered[0]
    stable, high = one.last_stable_offset, one.high_watermark
    starts = [f.start_offset or 0 for f in ordered]
    ends = [max(f.last_offset or 0, f.start_offset or 0) + 1 for f in ordered]
    offsets = [*starts, *ends, *(n for n in (stable, high) if n is not None)]
    low, top = min(offsets), max(offsets)
    low = max(min(low, one.log_start_offset or 0), low - (top - low) // 12)  # a part of what readers do see

    def x(offset: int) -> float:
        return round(EDGE + (offset - low) * (100 - 2 * EDGE) / (top - low), 2)

    bars = tuple(
        TransactionBar(
            x(finding.start_offset or 0), max(0.6, round(x(end) - x(finding.start_offset or 0), 2)), row, finding
        )
        for row, (finding, end) in enumerate(list(zip(ordered, ends, strict=True))[:MOST_BARS])
    )
    named = [(name, offset) for name, offset in (("LSO", stable), ("high watermark", high)) if offset is not None]
    return PartitionChart(
        cluster_id=one.cluster_id,
        topic=one.topic,
        partition=one.partition,
        findings=tuple(ordered),
        log_start=one.log_start_offset,
        last_stable_offset=stable,
        high_watermark=high,
        waiting=max(map(waiting_offsets, ordered)),
        height=len(bars) * ROW_HEIGHT + SCALE_HEIGHT,
        bars=bars,
        lines=tuple(OffsetMark(x(offset), name, offset, x(offset) > 50) for name, offset in named),
        stuck=None if stable is None or high is None else (x(stable), round(x(high) - x(stable), 2)),
        first=low,
        last=top,
    )

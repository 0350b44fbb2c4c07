"""Where a partition's open transactions lie, and from where on readers wait: numbers for an SVG chart.

Places are per cent of the chart's width, so that it fits a phone and paper, and its text keeps its size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from kafkawire.report.descriptions import waiting_offsets
from kafkawire.rows import Finding

#: Height of a transaction's caption and bar together, and of the scale below them, in pixels.
ROW_HEIGHT = 34
SCALE_HEIGHT = 40

#: Per cent of the width that stay free on both sides.
EDGE = 1.5

#: Transactions in one chart; a partition with more shows the earliest.
MOST_BARS = 20


class TransactionBar(msgspec.Struct, frozen=True):
    """An open transaction: its bar's left end and width, its row, and its finding."""

    x: float
    width: float
    row: int
    finding: Finding

    @property
    def caption_ends(self) -> bool:
        """Whether its caption stands left of its right end, and not right of its left one."""
        return self.x > 35 and self.x + self.width >= 65

    @property
    def caption(self) -> float:
        """Where its caption begins, or ends: at the bar, as far as there is room for it on a phone."""
        if self.caption_ends:
            return round(self.x + self.width, 2)
        return self.x if self.x <= 35 else EDGE


class OffsetLine(msgspec.Struct, frozen=True):
    """A vertical line at an offset, with its name; `end` where the name stands left of it."""

    x: float
    name: str
    offset: int
    end: bool


class PartitionChart(msgspec.Struct, frozen=True):
    """One partition.

    Attributes:
        findings: its open transactions, by start offset. `hidden`: how many of them have no bar.
        stuck: x and width of what readers of committed data do not see; None where that is not known.
        waiting: offsets from there to the high watermark.
        first, last: the offsets at the chart's edges.
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
    lines: tuple[OffsetLine, ...]
    stuck: tuple[float, float] | None
    first: int
    last: int

    @property
    def hidden(self) -> int:
        return len(self.findings) - len(self.bars)


def partition_charts(findings: Iterable[Finding]) -> list[PartitionChart]:
    """A chart for each partition with open transactions: the one where readers wait for most first."""
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
    low = max(min(low, one.log_start_offset or 0), low - (top - low) // 12)  # some of what readers do see

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
        lines=tuple(OffsetLine(x(offset), name, offset, x(offset) > 50) for name, offset in named),
        stuck=None if stable is None or high is None else (x(stable), round(x(high) - x(stable), 2)),
        first=low,
        last=top,
    )

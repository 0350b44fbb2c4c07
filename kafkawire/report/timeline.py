"""Where a partition's open transactions lie, as numbers for an SVG picture: offsets from left to right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from kafkawire.rows import Finding

WIDTH = 720
#: Height of a transaction's bar and its caption together, and of the scale below them.
ROW = 26
SCALE = 34

#: Transactions in one picture; a partition with more shows the earliest.
MOST = 20


class Bar(msgspec.Struct, frozen=True):
    """An open transaction: its bar's left end and width in the picture, its row, and its finding."""

    x: float
    width: float
    row: int
    finding: Finding


class Line(msgspec.Struct, frozen=True):
    """A vertical line at an offset, with its name; `end` where the name stands left of it."""

    x: float
    name: str
    offset: int
    end: bool


class Timeline(msgspec.Struct, frozen=True):
    """The picture of one partition.

    Attributes:
        stuck: x from which on read_committed readers see nothing; None where the last stable offset is not known.
        hidden: open transactions that are not in the picture.
    """

    topic: str
    partition: int
    height: int
    bars: tuple[Bar, ...]
    lines: tuple[Line, ...]
    stuck: float | None
    hidden: int


def timelines(findings: Iterable[Finding]) -> list[Timeline]:
    """A picture for each partition with open transactions, in the order of the findings."""
    groups: dict[tuple[str, int], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.start_offset is not None:
            groups[finding.topic, finding.partition].append(finding)
    return [_timeline(topic, number, group) for (topic, number), group in groups.items()]


def _timeline(topic: str, partition: int, findings: list[Finding]) -> Timeline:
    ordered = sorted(findings, key=lambda finding: (finding.start_offset or 0, finding.producer_id))
    stable, high = ordered[0].last_stable_offset, ordered[0].high_watermark
    ends = [max(f.last_offset or 0, f.start_offset or 0) + 1 for f in ordered]
    offsets = [*(f.start_offset or 0 for f in ordered), *ends, *(n for n in (stable, high) if n is not None)]
    low, top = min(offsets), max(offsets)
    margin = max(1, (top - low) // 20)
    low, top = max(0, low - margin), top + margin

    def x(offset: int) -> float:
        return round((offset - low) * WIDTH / (top - low), 1)

    shown = list(zip(ordered, ends, strict=True))[:MOST]
    bars = tuple(
        Bar(x(finding.start_offset or 0), max(2.0, round(x(end) - x(finding.start_offset or 0), 1)), row, finding)
        for row, (finding, end) in enumerate(shown)
    )
    named = [(name, offset) for name, offset in (("LSO", stable), ("high watermark", high)) if offset is not None]
    return Timeline(
        topic=topic,
        partition=partition,
        height=len(shown) * ROW + SCALE,
        bars=bars,
        lines=tuple(Line(x(offset), name, offset, x(offset) > WIDTH / 2) for name, offset in named),
        stuck=None if stable is None else x(stable),
        hidden=len(ordered) - len(shown),
    )

"""Ranges of versions as schemas write them: "3", "0-2", "3+", "none"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from kafkawire.codegen.quoting import quote

#: Kafka's versions are int16; an open end means this one.
HIGHEST = 32767

_RANGE = re.compile(r"([0-9]{1,9})(?:(\+)|-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A contiguous range, both ends included; empty when `low > high`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """The range that a schema's text means; ValueError with the reason where it means none."""
        text = text.strip()
        if text == "none":
            return NO_VERSIONS
        match = _RANGE.fullmatch(text)
        if match is None:
            raise ValueError(f"{quote(text, 40)} is no range of versions (as in '3', '0-2', '3+', 'none')")
        low = int(match[1])
        high = HIGHEST if match[2] else int(match[3]) if match[3] else low
        if max(low, high) > HIGHEST:
            raise ValueError(f"{text!r} goes beyond {HIGHEST}, the highest version there can be")
        if low > high:
            # Kafka's generator takes this for "no versions" and drops the field silently.
            raise ValueError(f"{text!r} ends before it begins")
        return cls(low, high)

    @classmethod
    def of(cls, versions: Iterable[int]) -> VersionRange:
        """The range of exactly these versions; ValueError where they leave a gap, which no schema text can express."""
        numbers = sorted(set(versions))
        if not numbers:
            return NO_VERSIONS
        if len(numbers) != numbers[-1] - numbers[0] + 1:
            raise ValueError(f"versions {', '.join(map(str, numbers))} have a gap")
        return cls(numbers[0], numbers[-1])

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __and__(self, other: VersionRange) -> VersionRange:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return VersionRange(low, high) if low <= high else NO_VERSIONS

    def hull(self, other: VersionRange) -> VersionRange:
        """The smallest range that covers both."""
        if not self or not other:
            return self or other or NO_VERSIONS
        return VersionRange(min(self.low, other.low), max(self.high, other.high))

    def covers(self, other: VersionRange) -> bool:
        """Whether every version of `other` is in this range (true of an empty `other`)."""
        return not other or (self.low <= other.low and other.high <= self.high)

    @property
    def open_ended(self) -> bool:
        return self.high == HIGHEST

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.open_ended:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


def runs(versions: Iterable[int]) -> list[VersionRange]:
    """Versions in as few ranges as they need."""
    groups = groupby(enumerate(sorted(versions)), lambda item: item[1] - item[0])
    return [VersionRange.of(version for _, version in group) for _, group in groups]


NO_VERSIONS = VersionRange(0, -1)
ALL_VERSIONS = VersionRange(0, HIGHEST)

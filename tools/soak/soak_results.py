"""What a run found, as data: the page and the exit code come from this and nothing else."""

from __future__ import annotations

import msgspec


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Two counts of one thing, made in different ways.

    Attributes:
        expected: as `by` counted it, and `found` as kafkawire says.
        at_least: whether there may be more: `by` does not know of all.
    """

    what: str
    expected: int
    found: int
    by: str
    at_least: bool = False

    @property
    def agrees(self) -> bool:
        return self.found >= self.expected if self.at_least else self.found == self.expected


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of one quantity, in bytes.

    Attributes:
        mean, slope, rise: of the samples behind the warm-up: their mean, bytes a minute as the line through them goes,
            and what that makes from its beginning to its end.
        most: of all samples. `flat`: whether that rise is no growth. `judged`: whether it has to be flat.
        threads, files: the most there were at once, None where no process was sampled.
        points: the samples, each its second and its bytes.
    """

    name: str
    samples: int
    mean: float
    most: float
    slope: float
    rise: float
    flat: bool
    judged: bool
    threads: int | None = None
    files: int | None = None
    points: tuple[tuple[float, float], ...] = ()


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is told and has no count to agree with."""

    what: str
    value: str


class SoakResults(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run.

    Attributes:
        whole: whether it ran to its end; figures so far where it did not.
        minutes: of load. `every_s`: from one sample to the next. `failures`: what went wrong that no count tells.
    """

    command: str
    date: str
    versions: dict[str, str]
    machine: str
    nodes: int
    producers: int
    minutes: float
    every_s: float
    whole: bool
    counts: tuple[Count, ...]
    told: tuple[Figure, ...]
    series: tuple[Series, ...]
    failures: tuple[str, ...] = ()

    @property
    def clear(self) -> bool:
        """Nothing was lost, and nothing grew."""
        return (
            self.whole
            and not self.failures
            and all(count.agrees for count in self.counts)
            and all(series.flat for series in self.series if series.judged)
        )

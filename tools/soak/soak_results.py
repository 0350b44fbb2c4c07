"""The results of a run as data, and as text: on a terminal, and as a section of docs/performance.md.

The page and the exit code are computed from the data alone.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

import msgspec
from rich.console import Console
from rich.markdown import Markdown

from tools.pages import templates

#: Memory has grown that is more than this above its beginning, after the warm-up, along the line through its samples:
#: this part of its mean, and at least so many bytes.
FLAT_PART, FLAT_BYTES = 0.03, 2 << 20
#: Of a run, whose medians the page has.
_PARTS = 6


class ComparedCounts(msgspec.Struct, frozen=True):
    """Two counts of one thing, made in different ways.

    Attributes:
        expected: the count of `by`.
        found: the count of kafkawire.
        at_least: whether `found` may be larger, because `by` does not count everything.
    """

    what: str
    expected: int
    found: int
    by: str
    at_least: bool = False

    @property
    def agrees(self) -> bool:
        return self.found >= self.expected if self.at_least else self.found == self.expected


class MemorySeries(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of one quantity, in bytes.

    Attributes:
        mean: mean of the samples after the warm-up.
        slope: slope of the line through these samples, in bytes a minute.
        rise: difference between the end and the beginning of this line, in bytes.
        most: maximum of all samples.
        flat: whether the rise is no growth.
        judged: whether the series has to be flat.
        threads, files: maximum number of threads and open files; None if no process was sampled.
        points: the samples as pairs of seconds and bytes.
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
    """A figure that is reported without a count to compare it with."""

    what: str
    value: str


class SoakResults(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run.

    Attributes:
        minutes: duration of the load.
        every_s: seconds between two samples.
        whole: whether the run was not interrupted.
        failures: errors apart from counts that differ.
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
    counts: tuple[ComparedCounts, ...]
    figures: tuple[Figure, ...]
    series: tuple[MemorySeries, ...]
    failures: tuple[str, ...] = ()

    @property
    def clear(self) -> bool:
        """Whether nothing was lost and nothing grew."""
        return (
            self.whole
            and not self.failures
            and all(count.agrees for count in self.counts)
            and all(series.flat for series in self.series if series.judged)
        )


def markdown(found: SoakResults) -> str:
    """The section."""
    environment = templates(Path(__file__).parent)
    environment.filters |= {"mib": _mib, "verdict": _verdict, "course": _course}
    return environment.get_template("soak.md.jinja").render(
        found=found, every=f"{found.every_s:g}", part=f"{100 * FLAT_PART:g}", least=FLAT_BYTES >> 20
    )


def show(found: SoakResults, console: Console) -> None:
    """The same on a terminal."""
    console.print(Markdown(markdown(found)))


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _course(series: MemorySeries) -> str:
    """The medians of equal parts of the run, MiB: whether it rose on and on, or once."""
    sizes = [size for _, size in series.points]
    parts = [sizes[len(sizes) * i // _PARTS : len(sizes) * (i + 1) // _PARTS] for i in range(_PARTS)]
    return " ".join(f"{median(part) / 2**20:.1f}" for part in parts if part)


def _verdict(series: MemorySeries) -> str:
    if not series.judged:
        return "reported, not judged"
    return "flat" if series.flat else "**grows**"

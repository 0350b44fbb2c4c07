"""The results of a run as data. Tables and goals are computed from nothing else."""

from __future__ import annotations

from statistics import median, quantiles

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """A contestant's rounds in one case.

    Attributes:
        seconds: CPU time of the thread for one run of the job, one value a round.
        process: median of the CPU time of the whole process for one run: with other threads, and in a JVM with the
            garbage collector and the compiler.
        times: how often a round ran the job.
    """

    contestant: str
    ours: bool
    seconds: tuple[float, ...]
    process: float
    times: int = 1

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def spread(self) -> float:
        """Interquartile range, as a part of the median."""
        if len(self.seconds) < 2 or not self.median:
            return 0.0
        low, _, high = quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / self.median


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one result costs. `taken`: in Python the most bytes at once while it is made, in Java all allocated ones."""

    contestant: str
    retained: int
    blocks: int
    taken: int


class AbsentContestant(msgspec.Struct, frozen=True, kw_only=True):
    """A contestant that took no part in a case, with the reason."""

    contestant: str
    why: str


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: `items` messages, records or rows of `size` bytes in all, handled by each run of the job."""

    key: str
    table: str
    title: str
    unit: str
    items: int
    size: int


class Result(Case, frozen=True, kw_only=True):
    """A case with what was measured."""

    timings: tuple[Timing, ...] = ()
    absent: tuple[AbsentContestant, ...] = ()
    memory: tuple[MemoryUse, ...] = ()

    def timing(self, contestant: str) -> Timing | None:
        return next((timing for timing in self.timings if timing.contestant == contestant), None)

    @property
    def reference(self) -> Timing | None:
        """The timing that others are compared with: kafkawire's first engine, the fastest that took part."""
        return next((timing for timing in self.timings if timing.ours), None)


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Most memory that a command held at once, its interpreter included; `size` are the bytes of the file it read."""

    title: str
    contestant: str
    size: int
    peak: int


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where and with what a run was made. `load`: load averages over a minute, before and after."""

    processor: str
    cores: int
    memory: int
    system: str
    versions: dict[str, str]
    date: str
    command: str
    load: tuple[float, float]
    minutes: float


class BenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    machine: Machine
    rounds: int
    results: tuple[Result, ...]
    peaks: tuple[Peak, ...] = ()

    def result(self, key: str) -> Result | None:
        return next((result for result in self.results if result.key == key), None)

    def table(self, name: str) -> list[Result]:
        return [result for result in self.results if result.table == name]

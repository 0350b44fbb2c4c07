"""Contestants that are functions of this process: they take turns, so that a busy machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

from tools.bench.job import AbsentError
from tools.bench.results import AbsentContestant, Timing

T = TypeVar("T")


class Cost(NamedTuple):
    """Of one run: the seconds that are compared, and seconds of processor time."""

    seconds: float
    process: float


def clocked(job: Callable[[], object]) -> Callable[[], Cost]:
    """A run of a job whose measure is the clock's time; its processor time is that of this process alone."""

    def run() -> Cost:
        started, used = time.monotonic(), time.process_time()
        job()
        return Cost(time.monotonic() - started, time.process_time() - used)

    return run


def in_turn(
    runs: Mapping[str, Callable[[], T]], rounds: int, *, warm_up: bool = True
) -> tuple[dict[str, list[T]], tuple[AbsentContestant, ...]]:
    """What each contestant's runs give, in `rounds` turns; and who could not take part.

    Args:
        runs: of each contestant, one run. AbsentError: it takes no part from then on.
        rounds: number of turns that count. `warm_up`: a turn before them fills caches.
    """
    found: dict[str, list[T]] = {name: [] for name in runs}
    why: dict[str, str] = {}
    for turn in range(0 if warm_up else 1, rounds + 1):
        for name in list(found):
            try:
                result = runs[name]()
            except AbsentError as error:
                why[name] = str(error)
                del found[name]
                continue
            if turn:
                found[name].append(result)
    return found, absences(why)


def absences(why: Mapping[str, str]) -> tuple[AbsentContestant, ...]:
    """Contestants that take no part, with the reason of each."""
    return tuple(AbsentContestant(contestant=name, why=reason) for name, reason in why.items())


def all_absent(names: Iterable[str], error: Exception) -> tuple[AbsentContestant, ...]:
    """The same of all of these contestants, for one reason."""
    return absences(dict.fromkeys(names, str(error)))


def timings(costs: Mapping[str, Sequence[Cost]], ours: Container[str]) -> tuple[Timing, ...]:
    """The timings of a case. `ours`: names of contestants that are kafkawire's."""
    return tuple(
        Timing(
            contestant=name,
            ours=name in ours,
            seconds=tuple(cost.seconds for cost in found),
            process=median(cost.process for cost in found),
        )
        for name, found in costs.items()
    )

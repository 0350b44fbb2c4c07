"""Measures a case: every contestant runs in every round, so that a busy machine slows all of them alike.

A round lasts some hundredths of a second, or one run of the job if that is longer. A very long job runs in fewer
rounds, spread over the case. CPU time is measured, not wall-clock time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median

from tools.bench.cases import BenchCase
from tools.bench.contestants import BrokenContestantError, Contestant
from tools.bench.job import AbsentError
from tools.bench.results import AbsentContestant, Case, MemoryUse, Result, Timing

#: The minimum number of rounds of a contestant, for jobs of any duration.
FEWEST = 3


class BenchError(Exception):
    """One of our own engines fails, or contestants disagree: there is nothing to compare."""


def measure(
    case: BenchCase,
    *,
    rounds: int,
    seconds: float,
    budget: float,
    warm_up: float | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measures one case.

    Args:
        case: the case.
        rounds: number of rounds.
        seconds: intended CPU seconds of one contestant in a round.
        budget: limit of CPU seconds of one contestant in all rounds, beyond `FEWEST` of them.
        warm_up: CPU seconds before the first round; by default those of each contestant.
        notify: called with messages on the progress.

    Raises:
        BenchError: an engine of kafkawire fails, or its result differs from the others'.
    """
    absent: list[AbsentContestant] = []
    with ExitStack() as stack:
        present: list[Contestant] = []
        for entrant in case.entrants:
            try:
                contestant = Contestant(entrant)
            except AbsentError as error:
                absent.append(AbsentContestant(contestant=entrant.name, why=str(error)))
                continue
            except BrokenContestantError as error:
                if entrant.ours:
                    raise BenchError(f"{case.title}: {entrant.name}: {error}") from error
                absent.append(AbsentContestant(contestant=entrant.name, why=f"{entrant.name} fails: {error}"))
                continue
            stack.callback(contestant.close)
            present.append(contestant)
        present = [contestant for contestant in present if _agrees(case, contestant, present, absent)]
        notify(f"{case.table}: {case.title}: {', '.join(contestant.entrant.name for contestant in present)}")
        timings = _timings(present, rounds, seconds, budget, warm_up)
        memory = [
            MemoryUse(contestant=contestant.entrant.name, retained=retained, blocks=blocks, taken=taken)
            for contestant in (present if case.memory else ())
            for retained, blocks, taken in [contestant.memory()]
        ]
    measured = {name: getattr(case, name) for name in Case.__struct_fields__}
    return Result(**measured, timings=tuple(timings), absent=tuple(absent), memory=tuple(memory))


def _agrees(
    case: BenchCase, contestant: Contestant, present: Sequence[Contestant], absent: list[AbsentContestant]
) -> bool:
    """Whether the contestant has the same result as the others. Called before anything is measured."""
    if contestant.check == (case.check or present[0].check):
        return True
    name = contestant.entrant.name
    if contestant.entrant.ours:
        raise BenchError(f"{case.title}: {name} has another result than the others")
    absent.append(AbsentContestant(contestant=name, why=f"{name} has another result than the others"))
    return False


def _timings(
    present: Sequence[Contestant], rounds: int, seconds: float, budget: float, warm_up: float | None
) -> list[Timing]:
    plans = []
    for contestant in present:
        estimate = _warm(contestant, contestant.entrant.warm_up if warm_up is None else warm_up)
        times = max(1, int(seconds / estimate))
        turns = max(FEWEST, min(rounds, int(budget / (times * estimate))))
        plans.append((contestant, times, turns))
    measured: list[list[tuple[float, float]]] = [[] for _ in present]
    for turn in range(rounds):
        for (contestant, times, turns), out in zip(plans, measured, strict=True):
            if (turn + 1) * turns // rounds > turn * turns // rounds:
                thread, process = contestant.run(times)
                out.append((thread / times, process / times))
    return [
        Timing(
            contestant=contestant.entrant.name,
            ours=contestant.entrant.ours,
            seconds=tuple(thread for thread, _ in out),
            process=median(process for _, process in out),
            times=times,
        )
        for (contestant, times, _), out in zip(plans, measured, strict=True)
    ]


def _warm(contestant: Contestant, warm_up: float) -> float:
    """Runs the job until the contestant is warm. Returns the seconds of one run after that.

    CPU time is counted, because on a busy machine a JVM needs more wall-clock time to compile its code.
    """
    times, spent = 1, 0.0
    while True:
        thread, process = contestant.run(times)
        spent += thread
        if spent >= warm_up:
            return max(thread, process, 1e-9) / times
        if max(thread, process) < warm_up / 20:
            times *= 2

"""All comparisons of batches: the sound ones of every source, and mutants of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

from tools.conformance.batches import batch_judging, mutants, sources
from tools.conformance.batches.sources import Sound
from tools.oracle import Oracle

#: The largest batch that is mutated: a change of one place is looked for among few.
_MOST_MUTATED = 6000
_AT_ONCE = 2000


class Amounts(NamedTuple):
    """How much is compared."""

    rounds: int = 40  # of batches that Java writes
    mutants: int = 40_000


class BatchOutcome(NamedTuple):
    """What was compared: sound batches by source and (magic, codec), verdicts by what was read, and failures."""

    sound: Counter[tuple[str, int, str]]
    kinds: Counter[tuple[str, str]]
    failures: list[str]

    @property
    def compared(self) -> int:
        return sum(self.kinds.values())


def compare(oracle: Oracle, amounts: Amounts, note: Callable[[str], None], *, recorded: bool = True) -> BatchOutcome:
    """Runs the comparisons with one release.

    Args:
        oracle: of 4.4 or later.
        amounts: how many batches.
        note: called with what is being compared.
        recorded: also all batches of recorded logs.
    """
    note("batches that are sound")
    sound = [*sources.by_java(oracle, amounts.rounds), *sources.by_libraries(), *sources.recorded_captures()]
    if recorded:
        sound += sources.recorded_logs()
    outcome = BatchOutcome(Counter((each.source, *sources.kind_of(each.data)) for each in sound), Counter(), [])
    _judged(outcome, oracle, "as written", (each.data for each in sound), REFUSALS_OF_SOUND)
    note("mutants of batches")
    _judged(outcome, oracle, "mutated", islice(mutated(sound), amounts.mutants))
    return outcome


#: A batch that a client or a broker wrote is refused by neither.
REFUSALS_OF_SOUND = frozenset({batch_judging.REFUSED, *(each.name for each in batch_judging.REFUSALS)})


def _judged(
    outcome: BatchOutcome, oracle: Oracle, what: str, batches: Iterable[bytes], wrong: frozenset[str] = frozenset()
) -> None:
    rest = iter(batches)
    while part := list(islice(rest, _AT_ONCE)):
        for verdict in batch_judging.judge(oracle, part):
            outcome.kinds[what, verdict.kind] += 1
            if verdict.wrong or verdict.kind in wrong:
                outcome.failures.append(f"{what}: {verdict}")


def mutated(sound: Iterable[Sound], seed: int = 0) -> Iterator[bytes]:
    """Mutants without an end: as many of each magic and codec."""
    random = Random(f"batches {seed}")
    kinds: dict[tuple[int, str], list[bytes]] = defaultdict(list)
    for each in sound:
        if len(each.data) <= _MOST_MUTATED:
            kinds[sources.kind_of(each.data)].append(each.data)
    names = sorted(kinds)
    while True:
        yield mutants.mutant(random.choice(kinds[random.choice(names)]), random)

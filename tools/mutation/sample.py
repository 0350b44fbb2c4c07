"""Which mutants are tried, and what came out: the same for both languages."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Tried:
    """A mutant that was given to the tests: its line, `killed` or how it came through, and its diff."""

    line: int
    outcome: str
    diff: str


def draw(mutants: list[T], sample: int, seed: int, line: Callable[[T], int]) -> list[T]:
    """A sample: one mutant of every line before a second one of any.

    Args:
        mutants: all of a file. sample: number of mutants; 0 for all. seed: equal seeds give equal samples.
        line: the line of a mutant.
    """
    taken: Counter[int] = Counter()

    def rank(mutant: T) -> int:
        """How many mutants of its line were ranked before."""
        taken[line(mutant)] += 1
        return taken[line(mutant)]

    return sorted(random.Random(seed).sample(mutants, len(mutants)), key=rank)[: sample or None]

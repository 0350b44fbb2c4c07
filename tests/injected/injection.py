"""`Injection`: one way to break one check, in a world that is otherwise sound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.worlds import World

#: Done to the world before its files are written, or to the files after that.
Early = Callable[[World], object]
Late = Callable[[World], object]


@dataclass(frozen=True)
class Injection:
    """A way to break a check."""

    check: str
    name: str
    early: Early | None = None
    late: Late | None = None


#: All, once the modules beside this one are imported.
INJECTIONS: list[Injection] = []


def early(check: str, name: str) -> Callable[[Early], Early]:
    """Decorates what is done to the world."""

    def add(step: Early) -> Early:
        INJECTIONS.append(Injection(check, name, early=step))
        return step

    return add


def late(check: str, name: str) -> Callable[[Late], Late]:
    """Decorates what is done to its files."""

    def add(step: Late) -> Late:
        INJECTIONS.append(Injection(check, name, late=step))
        return step

    return add

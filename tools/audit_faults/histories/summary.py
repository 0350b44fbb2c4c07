"""Histories in numbers: a line, and a section of docs/audit.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tools.audit_faults.histories.audit_properties import (
    FALSE_CLEAR,
    FALSE_HANGING,
    NAMES,
    WITH_CAUSE,
    WITHOUT_CAUSE,
    Breach,
    Tried,
)
from tools.pages import templates


class Summary(NamedTuple):
    """Of histories that were tried.

    Attributes:
        tried: how many.
        breaches: of all, in order. `verdicts`: how many findings of their copies have each.
        copies: how copies were made, and what became of them; how many of each.
    """

    tried: int
    breaches: tuple[Breach, ...]
    verdicts: Counter[str]
    copies: Counter[str]

    @property
    def broken(self) -> Counter[str]:
        """By property, how many histories break it."""
        return Counter(name for name, _ in {(breach.name, breach.seed) for breach in self.breaches})

    @property
    def line(self) -> str:
        """The numbers on one line."""
        return (
            f"histories tried {self.tried}, false hanging {self.broken[FALSE_HANGING]}, "
            f"false clear {self.broken[FALSE_CLEAR]}, unknown with cause {self.verdicts[WITH_CAUSE]}, "
            f"unknown without cause {self.verdicts[WITHOUT_CAUSE]}"
        )


def summary(tried: Iterable[Tried]) -> Summary:
    """The numbers of histories."""
    count, breaches = 0, list[Breach]()
    verdicts, copies = Counter[str](), Counter[str]()
    for one in tried:
        count += 1
        breaches += one.breaches
        verdicts.update(one.verdicts)
        copies.update([one.copy])
    return Summary(count, tuple(breaches), verdicts, copies)


def markdown(found: Summary, command: str, by_spark: tuple[int, int] = (0, 0)) -> str:
    """The section. `by_spark`: of how many histories Spark audited the copies, and in how many lines it differs."""
    template = templates(Path(__file__).parent).get_template("histories.md.jinja")
    return template.render(found=found, command=command, names=NAMES, by_spark=by_spark)

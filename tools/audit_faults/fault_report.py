"""The numbers as a section of docs/audit.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkawire.transactions.checks.check_names import OF_FINDINGS
from tools.audit_faults.fault_outcomes import FaultOutcome
from tools.audit_faults.faults import LogFault
from tools.audit_faults.harmless import reason_of
from tools.pages import templates

#: How a fault ends: named by one rule; as damage; not, and that is harmless; by several rules; missed.
NAMED, DAMAGE, HARMLESS, SEVERAL, MISSED = "named", "damage", "harmless", "several", "missed"


class JudgedFault(NamedTuple):
    """A fault and what became of it. `refused`: what Kafka's classes say of the changed files."""

    fault: LogFault
    outcome: FaultOutcome
    refused: tuple[str, ...] = ()

    @property
    def rules(self) -> frozenset[str]:
        """That name it. A transaction that is open in consequence is a finding, and has a rule beside the cause's."""
        rules = self.outcome.rules
        return rules - OF_FINDINGS or rules

    @property
    def end(self) -> str:
        if self.rules:  # what is swapped is wrong at two places
            most = 2 if self.fault.change.startswith("swapped") else 1
            return NAMED if len(self.rules) <= most else SEVERAL
        if self.outcome.damage:
            return DAMAGE
        return MISSED if reason_of(self.fault) is None else HARMLESS


class Figures(NamedTuple):
    """What the template needs.

    Attributes:
        ends: by structure, number of faults by their end. `rules`: number of faults that a rule names.
        harmless: reasons, with the number of faults. `refused`: how many Kafka's classes refuse, and how many of these
            are neither named nor damage.
        sound: number of sound directories. `alarms`: violations in them.
        by_spark: number of faults that Spark judged, and how many of these differ; None: none.
    """

    ends: dict[str, Counter[str]]
    rules: Counter[str]
    harmless: list[tuple[str, int]]
    refused: tuple[int, int]
    sound: int
    alarms: int
    by_spark: tuple[int, int] | None
    command: str

    @property
    def total(self) -> Counter[str]:
        return sum(self.ends.values(), Counter())


def figures(
    judged: Sequence[JudgedFault], *, sound: int, alarms: int, by_spark: tuple[int, int] | None, command: str
) -> Figures:
    """The figures of a run."""
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    for one in judged:
        ends[one.fault.structure][one.end] += 1
    refused = [one for one in judged if one.refused]
    silent = sum(one.end in (HARMLESS, MISSED) for one in refused)
    reasons = Counter(reason_of(one.fault) or "" for one in judged if one.end == HARMLESS)
    rules = Counter(rule for one in judged if one.end == NAMED for rule in one.rules)
    found = dict(sorted(ends.items()))
    return Figures(found, rules, reasons.most_common(), (len(refused), silent), sound, alarms, by_spark, command)


def markdown(found: Figures) -> str:
    """The section."""
    template = templates(Path(__file__).parent).get_template("faults.md.jinja")
    return template.render(found=found, ends=(NAMED, DAMAGE, HARMLESS, SEVERAL, MISSED))


def failures(judged: Iterable[JudgedFault]) -> list[str]:
    """The faults that are missed, that several rules name, or that Kafka refuses and the audit does not name; a line
    each."""
    return [
        f"{one.end}: {one.fault}: {', '.join(sorted(one.rules)) or '; '.join(one.refused) or 'nothing named'}"
        for one in judged
        if one.end in (MISSED, SEVERAL) or (one.end == HARMLESS and one.refused)
    ]

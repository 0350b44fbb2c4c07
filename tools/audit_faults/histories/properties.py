"""The audit of a copy, compared with what is true."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafkawire import logdir, rows, transactions
from kafkawire.logdir.isolation import outcomes_of
from kafkawire.logdir.view import View
from kafkawire.records import Batch
from kafkawire.transactions.completeness import outcome
from tools.audit_faults.histories.cluster import DATA, Place
from tools.audit_faults.histories.copies import Copy, plan, replicated, whole, write
from tools.audit_faults.histories.history import History
from tools.audit_faults.histories.truth import Truth, truth_of

#: Names of what must never be.
FALSE_HANGING, FALSE_CLEAR, FALSE_RULE, FALSE_ROW, NO_CAUSE, UNDECIDED = (
    "false hanging", "false clear", "false violation", "row no consumer gets", "unknown without cause", "not decided",
)  # fmt: skip
#: Default of --blocked-after, and how far the clocks of brokers differ at most, but for one that is far off.
_BLOCKED_AFTER, _CLOCKS_APART = 300_000, 10 * 60_000
_MEMORY = "/dev/shm"


class Breach(NamedTuple):
    """A property that does not hold. `what`: the finding, or the rows."""

    seed: int
    name: str
    copy: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: seed {self.seed}, {self.copy}: {self.what}"


class Tried(NamedTuple):
    """A history, and what the audits of its copies are.

    Attributes:
        breaches: what does not hold.
        verdicts: of all findings, with the cause of an unknown one: "unknown with cause", "unknown without cause".
    """

    seed: int
    breaches: tuple[Breach, ...]
    verdicts: tuple[str, ...]


def tried(seed: int) -> Tried:
    """Run a history, copy it while it goes on and when it is at its end, and audit both copies."""
    history = History(seed)
    truth = truth_of(history)
    copies = {"copy": plan(history, random.Random(seed)), "end": whole(history)}
    breaches: list[Breach] = []
    verdicts: list[str] = []
    for name, copy in copies.items():
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as folder:
            directories = write(history, copy, Path(folder))
            audit = transactions.audit(logdir.open(*directories))
            found = [*judged(history, truth, copy, audit), *_rows(truth, directories)]
        if name == "end":
            found += _undecided(truth, audit)
        described = f"{name} ({copy.order})"
        breaches += [Breach(seed, breach, described, what) for breach, what in found]
        verdicts += [_verdict(audit, one) for one in audit.findings]
    return Tried(seed, tuple(breaches), tuple(verdicts))


def judged(history: History, truth: Truth, copy: Copy, audit: rows.Audit) -> Iterator[tuple[str, str]]:
    """What the answer says that is not so."""
    for finding in audit.findings:
        true = truth.transactions.get((_place(finding), finding.start_offset or 0))
        if finding.verdict == "hanging" and (true is None or true.ended is not None):
            yield FALSE_HANGING, _text(finding)
        elif finding.verdict == "unknown" and sound(history, copy):
            yield NO_CAUSE, _text(finding)
    if not history.hangs:
        for violation in audit.violations:
            yield FALSE_RULE, f"{violation.check}: {violation.place}: {violation.what}"
    end = outcome(audit)
    if end.found or not end.complete or any(finding.attention for finding in audit.findings):
        return
    for place in DATA:
        event = max(replicated(history, broker, place, copy.moments[broker, place]) for broker in copy.brokers)
        for true in truth.transactions.values():
            if true.place == place and true.open_at(event):
                held = history.moment(event) - history.moment(true.opened)
                if held > _BLOCKED_AFTER + _CLOCKS_APART:
                    yield FALSE_CLEAR, f"{place} offset {true.start} is open for {held // 1000} s"


def sound(history: History, copy: Copy) -> bool:
    """Whether a copy is complete, of one moment, and its times are plausible: then nothing in it is a cause for doubt."""
    return (
        copy.order == "stopped"
        and len(copy.brokers) == history.brokers
        and history.plausible
        and history.far is None
    )


def _undecided(truth: Truth, audit: rows.Audit) -> Iterator[tuple[str, str]]:
    """Of the copy of everything at the end: what is open has a verdict that needs attention."""
    open_ = {(one.place, one.start) for one in truth.transactions.values() if one.ended is None}
    found = {(_place(finding), finding.start_offset or 0): finding for finding in audit.findings}
    for place, start in open_ ^ found.keys():
        yield UNDECIDED, f"{place} offset {start}"
    for finding in found.values():
        if finding.verdict != "hanging" and finding.reason != "stuck_prepare":
            yield UNDECIDED, _text(finding)


def _rows(truth: Truth, directories: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Rows of read_committed that are no beginning of what a consumer gets."""
    for partition in logdir.open(*directories).partitions:
        place = partition.topic, partition.partition
        if place in DATA:
            view = View(outcomes=outcomes_of(partition), isolation_level="read_committed")
            found = [
                offset
                for batch in partition
                if isinstance(batch, Batch) and view.reads(batch) is True
                for offset in range(batch.base_offset, batch.last_offset + 1)
            ]
            if truth.consumed[place][: len(found)] != found:
                yield FALSE_ROW, f"{partition.path}: {found} are not the first of {truth.consumed[place]}"


def _place(finding: rows.Finding) -> Place:
    return finding.topic, finding.partition


def _verdict(audit: rows.Audit, finding: rows.Finding) -> str:
    """With the cause of an unknown one: a premise that does not hold, or a gap."""
    if finding.verdict != "unknown":
        return finding.verdict
    named = audit.read.gaps or any(not premise.holds for premise in finding.premises)
    return "unknown with cause" if named else "unknown without cause"


def _text(finding: rows.Finding) -> str:
    return (
        f"{finding.topic}-{finding.partition} offset {finding.start_offset}: {finding.verdict} {finding.reason}: "
        + " ".join(finding.evidence)
    )

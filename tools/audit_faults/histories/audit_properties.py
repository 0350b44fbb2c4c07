"""Properties of an audit: each answer about a copy is true of the history, or unknown with a cause; and histories in
numbers, a line and a section of docs/audit.md.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafkawire import logdir, rows, transactions
from kafkawire.logdir.isolation import outcomes_of
from kafkawire.logdir.view import View
from kafkawire.records import Batch
from kafkawire.transactions.attention import BLOCKED_AFTER_MS
from kafkawire.transactions.cluster.broker_clocks import FAR_MS
from kafkawire.transactions.verdict.completeness import outcome
from tools.audit_faults.histories.copies import HARMLESS, HARMS, Copy, plan, replicated, whole, write
from tools.audit_faults.histories.history import History, TrueTransaction, Truth, truth_of
from tools.audit_faults.histories.remedies import patched, remedied
from tools.audit_faults.histories.true_cluster import DATA, Place
from tools.pages import templates

#: Names of what must never be.
FALSE_HANGING, FALSE_CLEAR, FALSE_ATTENTION, FALSE_RULE, FALSE_ROW, NO_CAUSE, INSUFFICIENT, UNDECIDED = (
    "false hanging", "false clear", "false attention", "false violation", "row that no consumer gets",
    "unknown of a sound copy", "unknown with what it needs", "not decided at the end",
)  # fmt: skip
#: An unknown finding names what is missing: a premise that does not hold, or a gap; or it does not.
WITH_CAUSE, WITHOUT_CAUSE = "unknown with cause", "unknown without cause"
NAMES = (FALSE_HANGING, FALSE_CLEAR, FALSE_ATTENTION, FALSE_RULE, FALSE_ROW, NO_CAUSE, INSUFFICIENT, UNDECIDED)
_MEMORY = "/dev/shm"
#: Between a coordinator's record of a partition and the first data in it, milliseconds.
_REGISTERED = 5


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
        copy: how the first was made, and what became of it.
        breaches: what does not hold.
        verdicts: of all findings, with the cause of an unknown one.
    """

    seed: int
    copy: str
    breaches: tuple[Breach, ...]
    verdicts: tuple[str, ...]


class Harmed(NamedTuple):
    """A copy on a disk.

    Attributes:
        copy: the plan. `harm`: what became of it on its way, of `HARMS`.
        directories: its log directories.
    """

    copy: Copy
    harm: str
    directories: list[Path]

    def __str__(self) -> str:
        return f"{self.copy.order}, {self.harm}"


def copied(history: History, seed: int, root: Path, cluster: str = "test") -> Harmed:
    """A copy made while a history goes on; half of them have no harm.

    Args:
        root: a folder for it. `cluster`: its cluster's id.
    """
    draw = random.Random(seed)
    copy = plan(history, draw)
    harm = draw.choice(["nothing"] * len(HARMS) + list(HARMS))
    directories = write(history, copy, root, cluster)
    HARMS[harm](draw, directories)
    return Harmed(copy, harm, directories)


def tried(seed: int) -> Tried:
    """Run a history, copy it while it goes on and when it is at its end, and audit both copies."""
    history = History(seed)
    truth = truth_of(history)
    with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as folder:
        first = copied(history, seed, Path(folder, "copy"))
        at_end = whole(history)
        last = Harmed(at_end, "nothing", write(history, at_end, Path(folder, "end")))
        breaches: list[Breach] = []
        verdicts: list[str] = []
        for harmed in (first, last):
            audit = transactions.audit(logdir.open(*harmed.directories))
            found = [
                *(_remedies(history, truth, audit, Path(folder)) if harmed is first else ()),
                *judged(history, truth, harmed.copy, audit, sound=is_sound(history, harmed)),
                *_rows(truth, harmed.directories, whole=harmed.harm in HARMLESS),
                *(_undecided(truth, audit) if harmed is last else ()),
            ]
            place = f"{harmed}{', at the end' if harmed is last else ''}"
            breaches += [
                Breach(seed, name, place, what)
                for name, what in found
                if name != FALSE_RULE or not _is_true(harmed.harm, what)
            ]
            verdicts += [_verdict(audit, one) for one in audit.findings]
        if history.far is None:  # a clock that is a day off shows by times that were copied within hours
            again = patched(history, seed, Path(folder, "again"))
            breaches += [Breach(seed, name, "stopped", what) for name, what in _false_after(truth, *again)]
    return Tried(seed, str(first), tuple(breaches), tuple(verdicts))


def _is_true(harm: str, violation: str) -> bool:
    """Whether a violation may be what became of a copy: no broker wrote a flipped bit, nor a batch of zeros, which is
    another than in other replicas."""
    return harm == "flipped" or (harm == "zeroed" and violation.startswith("replicas_agree"))


def judged(history: History, truth: Truth, copy: Copy, audit: rows.Audit, *, sound: bool) -> Iterator[tuple[str, str]]:
    """What the answer says that is not so. `sound`: nothing in the copy is a cause for doubt."""
    for finding in audit.findings:
        true = truth.transactions.get((_place(finding), finding.start_offset or 0))
        ends = true is None or true.ended is not None
        if finding.verdict == "hanging" and ends:
            yield FALSE_HANGING, _text(finding)
        elif {"stuck": ends, "blocked": _is_short(history, true)}.get(finding.attention or ""):
            yield FALSE_ATTENTION, _text(finding)
        elif finding.verdict == "unknown" and sound:
            yield NO_CAUSE, _text(finding)
    if not history.hangs:
        for violation in audit.violations:
            yield FALSE_RULE, f"{violation.check}: {violation.place}: {violation.what}"
    end = outcome(audit)
    if end.found or not end.complete:
        return
    clock = newest_time(history, copy, audit.as_of or 0)
    for true in truth.transactions.values():
        event = min(
            clock, max(replicated(history, one, true.place, copy.moments[one, true.place]) for one in copy.brokers)
        )
        if true.open_at(event) and _lasted(history, true, event) - history.clocks_apart > BLOCKED_AFTER_MS:
            yield FALSE_CLEAR, f"{true.place} offset {true.start}, {_lasted(history, true, event) // 1000} s: {true}"


def _remedies(history: History, truth: Truth, audit: rows.Audit, root: Path) -> Iterator[tuple[str, str]]:
    """What is not so once an unknown finding of the first copy has what it needs, and on the way there."""
    for number, finding in enumerate(one for one in audit.findings if one.verdict == "unknown"):
        done = remedied(history, root / "copy", finding, root / f"remedy-{number}")
        for step in done.audits:
            yield from _false_after(truth, step, done.steps)
        true = truth.transactions.get((_place(finding), finding.start_offset or 0))
        if done.finding is None and true is not None and true.ended is None:
            yield FALSE_CLEAR, f"after a copy of {', '.join(done.steps)}: {_text(finding)}"
        if not done.sufficient:
            yield INSUFFICIENT, f"after a copy of {', '.join(done.steps)}: {_text(done.finding or finding)}"


def _false_after(truth: Truth, audit: rows.Audit, copied_again: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in false_hangs(truth, audit.findings):
        yield FALSE_HANGING, f"after a copy of {', '.join(copied_again)}: {text}"


def false_hangs(truth: Truth, findings: Iterable[rows.Finding]) -> Iterator[str]:
    """The findings with the verdict *hanging* of transactions that end."""
    for one in findings:
        true = truth.transactions.get((_place(one), one.start_offset or 0))
        if one.verdict == "hanging" and (true is None or true.ended is not None):
            yield _text(one)


def newest_time(history: History, copy: Copy, as_of: int) -> int:
    """The newest event in a copy that has a broker's time: until then, what is open can be seen to be. One whose time
    is far from the audit's clock shows nothing of that."""
    events = (
        appended.event
        for (broker, place), moment in copy.moments.items()
        if place is not None
        for until in [replicated(history, broker, place, moment)]
        for appended in history.logs[place].appended
        if appended.stamped
        and appended.event <= until
        and abs(history.moment(appended.event) + history.clock_at(place, appended.event) - as_of) <= FAR_MS
    )
    return max(events, default=-1)


def _is_short(history: History, true: TrueTransaction | None) -> bool:
    """Whether a transaction ends before it has blocked its partition for long."""
    if true is None or true.ended is None:
        return true is None
    lasted = history.moment(true.ended) - history.moment(true.begun)  # coordinators know no other beginning
    return lasted + history.clocks_apart + _REGISTERED < BLOCKED_AFTER_MS


def _lasted(history: History, true: TrueTransaction, event: int) -> int:
    """For how long a transaction was open at an event, milliseconds."""
    return history.moment(event) - history.moment(true.opened)


def is_sound(history: History, harmed: Harmed) -> bool:
    """Whether a copy is complete, of one moment, and its times plausible: nothing in it is a cause for doubt."""
    copy = harmed.copy
    everything = copy.order == "stopped" and len(copy.brokers) == history.brokers and harmed.harm in HARMLESS
    return everything and history.plausible and history.far is None


def _undecided(truth: Truth, audit: rows.Audit) -> Iterator[tuple[str, str]]:
    """Of the copy of everything at the end: what is open has a verdict that needs attention."""
    open_ = {(one.place, one.start) for one in truth.transactions.values() if one.ended is None}
    found = {(_place(finding), finding.start_offset or 0): finding for finding in audit.findings}
    for place, start in open_ ^ found.keys():
        yield UNDECIDED, f"{place} offset {start}"
    for finding in found.values():
        if finding.verdict != "hanging" and finding.reason != "stuck_prepare":
            yield UNDECIDED, _text(finding)


def _rows(truth: Truth, directories: Iterable[Path], *, whole: bool) -> Iterator[tuple[str, str]]:
    """Rows of read_committed that are no beginning of what a consumer gets; of a copy that is not whole, those that no
    consumer gets."""
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
            expected = truth.consumed[place]
            if expected[: len(found)] != found if whole else not set(found) <= set(expected):
                yield FALSE_ROW, f"{partition.path}: {found} are not the first of {expected}"


def _place(finding: rows.Finding) -> Place:
    return finding.topic, finding.partition


def _verdict(audit: rows.Audit, finding: rows.Finding) -> str:
    """With the cause of an unknown one: a premise that does not hold, or a gap."""
    if finding.verdict != "unknown":
        return finding.verdict
    named = audit.read.gaps or any(not premise.holds for premise in finding.premises)
    return WITH_CAUSE if named else WITHOUT_CAUSE


def _text(finding: rows.Finding) -> str:
    return (
        f"{finding.topic}-{finding.partition} offset {finding.start_offset}: {finding.verdict} {finding.reason}: "
        + " ".join(finding.evidence)
    )


# Numbers --------------------------------------------------------------------------------------------------------------


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

"""Whether the audit names a fault, and by which rules; the faults that it need not name, as data; and the numbers as a
section of docs/audit.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from kafkawire import logdir, rows, transactions
from kafkawire.transactions.checks.check_names import OF_FINDINGS
from kafkawire.transactions.coordinator.coordinator_rules import NEVER, state_name
from tools.audit_faults.faults import EPOCHS, LogFault
from tools.audit_faults.layouts import Row
from tools.audit_faults.sound import Files
from tools.pages import templates


class Harmless(NamedTuple):
    """Faults that are harmless for one reason.

    Attributes:
        faults: patterns (`fnmatch`) of `structure.field change`.
        when: which of these; None: all that the audit does not name.
    """

    reason: str
    faults: tuple[str, ...]
    when: Callable[[LogFault], bool] | None = None


def _lags(fault: LogFault) -> bool:
    """Whether a high watermark of these directories is below the end (`sound`)."""
    return fault.seed % 3 == 1


def _is_retained(fault: LogFault) -> bool:
    """Whether a log of these directories begins after deleted segments (`sound`)."""
    return fault.seed % 3 == 2


def _before(holds: Callable[[Row], bool]) -> Callable[[LogFault], bool]:
    """Of the element that is changed."""
    return lambda fault: holds(fault.row)


def _after(holds: Callable[[Row], bool]) -> Callable[[LogFault], bool]:
    """Of what the element becomes."""
    return lambda fault: fault.after is not None and holds(fault.after)


def _state(*names: str) -> Callable[[LogFault], bool]:
    return _before(lambda row: state_name(row["transaction_status"]) in names)


#: The first that fits counts.
REASONS = (
    Harmless("not under the checksum; which leader wrote a batch decides no rule", ("*.partitionLeaderEpoch *",)),
    Harmless(
        "records count their times from it; rules use the newest", ("batch.baseTimestamp *", "marker.baseTimestamp *")
    ),
    Harmless("whose clock it is; no rule rests on it", ("batch.timestampType *", "marker.timestampType *")),
    Harmless(
        "a time that no other record contradicts",
        (
            "batch.maxTimestamp *", "marker.maxTimestamp *", "TransactionLogValue.timestamp *",
            "TransactionLogValue.transaction_last_update_timestamp_ms *", "ProducerIdsRecord.timestamp *",
        ),
    ),
    Harmless(
        "offsets are missing: what rests on them is reported as not checkable",
        (
            "batch.baseOffset *", "marker.baseOffset *", "batch.lastOffsetDelta *", "batch removed", "marker removed",
            "TransactionLogValue removed", "ProducerIdsRecord removed",
        ),
    ),
    Harmless("rules count offsets, not records; `dump` reports what cannot be read", ("batch.recordsCount *",)),
    Harmless(
        "of no producer: no rule of transactions is about it",
        ("batch.baseSequence *", "batch.producerEpoch *", "batch.isControl *"),
        _before(lambda row: row["producerId"] < 0),
    ),
    Harmless(
        "of no transaction: a producer without other batches before may begin with any number",
        ("batch.producerId *",),
        _before(lambda row: not row["isTransactional"]),
    ),
    Harmless(
        "the log does not show what was before: the producer's first batch may have any number and epoch",
        ("batch.baseSequence *", "batch.producerEpoch *"),
        _before(lambda row: row["baseSequence"] == 0),
    ),
    Harmless(
        "in a committed transaction, and of no producer then: no rule is about it, and all readers get it either way",
        ("batch.producerId *",),
        _after(lambda row: row["producerId"] < 0),
    ),
    Harmless("its transaction is committed: all readers get it either way", ("batch.isTransactional *",)),
    Harmless("Kafka reads later versions as the one that it knows", ("marker.keyVersion *", "marker.valueVersion *")),
    Harmless("an epoch is compared with those before; later elections are legal", ("marker.coordinatorEpoch *",)),
    Harmless(
        "a producer may ask for any timeout when it begins",
        ("TransactionLogValue.transaction_timeout_ms *",),
        _state("Empty"),
    ),
    Harmless(
        "clients of any version may go on with an id",
        ("TransactionLogValue.client_transaction_version *",),
        _state("Empty", "Ongoing"),
    ),
    Harmless(
        "under two-phase commit (KIP-939) ids are announced at other times",
        ("TransactionLogValue.next_producer_id *",),
        _before(lambda row: row["transaction_timeout_ms"] == NEVER),
    ),
    Harmless("brokers neither write nor read it (KIP-939)", ("TransactionLogValue.next_producer_epoch *",)),
    Harmless(
        "the next record may add it with others", ("TransactionLogValue.partitions one removed",), _state("Ongoing")
    ),
    Harmless("a set: Kafka counts a partition once", ("TransactionLogValue.partitions one repeated",)),
    Harmless("a transaction may list a partition without data", ("TransactionLogValue.partitions one added",)),
    Harmless("a retry is answered by the same record (KIP-360)", ("TransactionLogValue repeated*",)),
    Harmless("those of different ids are in no order", ("TransactionLogValue swapped*", ".snapshot swapped*")),
    Harmless(
        "the last of a segment: what follows it may not have been copied", ("* of one replica removed",)
    ),
    Harmless("not below both high watermarks", ("* of one replica*",), _lags),
    Harmless("who asked for the block; nothing follows from it", ("ProducerIdsRecord.broker_*",)),
    Harmless(
        "the transaction, or what held it, may have begun where the log is deleted",
        (".txnindex.first_offset *", ".txnindex.last_stable_offset *"),
        _is_retained,
    ),
    Harmless(
        "what begins after the marker may be of the same append",
        (".txnindex.last_stable_offset *",),
        _after(lambda row: row["last_stable_offset"] > row["last_offset"]),
    ),
    Harmless(
        "brokers forget idle producers",
        (".snapshot removed", ".snapshot.producer_id *"),
        _before(lambda row: row["current_txn_first_offset"] < 0),
    ),
    Harmless("Kafka keeps the last entry of a producer", (".snapshot repeated",)),
    Harmless(
        "-1: the producer was forgotten and has come back",
        (".snapshot.coordinator_epoch *",),
        _after(lambda row: row["coordinator_epoch"] == -1),
    ),
    Harmless("the log below is deleted: the file alone knows", (".snapshot.*", ".snapshot removed"), _is_retained),
    Harmless(
        "no producer's batch is between the offsets, or the log ends below the file's", (".snapshot file named*",)
    ),
    Harmless("a replica may lag: it is written every 5 s", ("checkpoint.offset *",)),
    Harmless("no tier is here to be joined along it, and no rule of a log rests on it", (f"{EPOCHS}*",)),
    Harmless(
        "a file that may not have been copied: what needs it is reported as not checkable",
        ("checkpoint*", "* file removed", "* file emptied"),
    ),
    Harmless("the end of the last line: Kafka reads it", ("*checkpoint file last byte missing",)),
)  # fmt: skip


def reason_of(fault: LogFault) -> str | None:
    """Why the audit need not name a fault; None where it must."""
    name = f"{fault.structure}.{fault.field} {fault.change}" if fault.field else f"{fault.structure} {fault.change}"
    for one in REASONS:
        if any(fnmatchcase(name, pattern) for pattern in one.faults) and (one.when is None or one.when(fault)):
            return one.reason
    return None


# What the audit says --------------------------------------------------------------------------------------------------


class FaultOutcome(NamedTuple):
    """What the audit says of a fault.

    Attributes:
        rules: that are violated. `damage`: reasons of damage.
        violations: the rows.
        new: what else differs from the audit of the sound directories: verdicts, gaps, what could not be checked.
    """

    rules: frozenset[str]
    damage: frozenset[str]
    violations: tuple[rows.Violation, ...]
    new: frozenset[str]


def write(root: Path, files: Files) -> None:
    """Writes files below a folder."""
    for path, data in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


@contextmanager
def broken(root: Path, files: Files, fault: LogFault) -> Iterator[None]:
    """The sound directories below a folder, with the fault inside the block."""
    changed = fault.changed()
    try:
        for path, data in changed.items():
            if data is None:
                (root / path).unlink()
            else:
                (root / path).write_bytes(data)
        yield
    finally:
        for path in changed:
            if path in files:
                (root / path).write_bytes(files[path])
            else:
                (root / path).unlink()


def outcome(audit: rows.Audit, sound: rows.Audit | None = None) -> FaultOutcome:
    """Of an audit."""
    new = frozenset[str]() if sound is None else _rest(audit) - _rest(sound)
    return FaultOutcome(
        frozenset(violation.check for violation in audit.violations),
        frozenset(damage.reason for damage in audit.damage),
        audit.violations,
        new,
    )


def _rest(audit: rows.Audit) -> frozenset[str]:
    found = {f"{one.verdict} {one.reason} {one.topic}-{one.partition} {one.start_offset}" for one in audit.findings}
    found |= set(audit.read.gaps)
    for answer in audit.answers:
        found |= {f"{answer.check}: {why}" for why in answer.lacked}
    return frozenset(found)


def audit_of(*roots: Path) -> rows.Audit:
    """The audit of all directories below folders."""
    return transactions.audit(logdir.open(*roots))


def outcomes(
    root: Path, of_seed: dict[int, Files], chosen: Iterable[LogFault]
) -> Iterator[tuple[LogFault, FaultOutcome]]:
    """The outcome of each fault; all faults of a seed one after the other."""
    for number, files in of_seed.items():
        folder = root / str(number)
        write(folder, files)
        whole = audit_of(folder)
        for fault in chosen:
            if fault.seed == number:
                with broken(folder, files, fault):
                    yield fault, outcome(audit_of(folder), whole)


# The page -------------------------------------------------------------------------------------------------------------

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

"""Whether the audit names a fault, and by which rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kafkawire import logdir, rows, transactions
from tools.audit_faults.faults import LogFault
from tools.audit_faults.sound import Files


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

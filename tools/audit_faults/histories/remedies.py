"""What an unknown finding needs, provided: it is decided then, or asks for the copy of a broker that was stopped.

Each step does what the premises that do not hold ask for, as an operator would: the partitions, or the brokers'
directories, that they name are copied again at the end of the history, while the brokers run. Where partitions are
named that the cluster does not have, its metadata log is: without it the default number of partitions is expected. What
an audit says in between has to be true, too, also where the first copy was that of a stopped broker.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafkawire import logdir, rows, transactions
from tools.audit_faults.histories.copies import Copy, whole, write
from tools.audit_faults.histories.history import History
from tools.audit_faults.histories.true_cluster import DATA, METADATA, STATE

_TOPICS = "|".join(sorted({topic for topic, _ in (*DATA, *STATE)}))
_PARTITION = re.compile(rf"\b({_TOPICS})-(\d+)")
_NUMBERS = re.compile(r"\b(?:brokers?|partitions) ([\d, -]+)|\(([\d, -]+)\)")
#: The last resort that a premise names: the copy of everything at the end, which decides all, is one.
CLEANLY = "stopped cleanly"
_ALL_STATE = ("these partitions of", f"{STATE[0][0]} (partitions")
_BROKERS = "the log director"
_HELD = {f"{topic}-{number}" for topic, number in (*STATE, *DATA)}


class Remedied(NamedTuple):
    """What became of an unknown finding.

    Attributes:
        audits: of each step. finding: in the last one; None: the transaction has ended there.
        steps: what was copied again, in order.
    """

    audits: tuple[rows.Audit, ...]
    finding: rows.Finding | None
    steps: tuple[str, ...]

    @property
    def sufficient(self) -> bool:
        """Whether it is decided, or what is missing names a copy that decides it."""
        one = self.finding
        return one is None or one.verdict != "unknown" or all(CLEANLY in (need or "") for need in _needs(one))


def remedied(history: History, copied: Path, finding: rows.Finding, root: Path) -> Remedied:
    """Provide what a finding needs until nothing new is asked for.

    Args:
        copied: the folder of the log directories, `broker-N`. root: a new folder.
    """
    later = _later(history, root / "later")
    now = root / "now"
    shutil.copytree(copied, now)
    key = finding.topic, finding.partition, finding.start_offset
    audits: list[rows.Audit] = []
    steps: list[str] = []
    found: rows.Finding | None = finding
    while found is not None and found.verdict == "unknown" and (new := _asked(found) - {*steps}):
        for name in sorted(new):
            steps.append(name)
            _copy_again(name, now, later)
        audits.append(transactions.audit(logdir.open(*sorted(now.glob("broker-*")))))
        found = next((one for one in audits[-1].findings if (one.topic, one.partition, one.start_offset) == key), None)
    return Remedied(tuple(audits), found, tuple(steps))


def patched(history: History, seed: int, root: Path) -> tuple[rows.Audit, tuple[str, ...]]:
    """The audit of directories of brokers that were stopped cleanly while a history went on, in which some partitions
    were copied again at its end; and which.

    Args:
        root: a folder.
    """
    draw = random.Random(seed)
    everything = whole(history)
    moments = dict.fromkeys(everything.moments, draw.randrange(history.end // 4, history.end + 1))
    directories = write(history, Copy("stopped", everything.brokers, moments), root / "stopped")
    names = draw.sample([f"{topic}-{number}" for topic, number in (*STATE, *DATA)], draw.randint(1, len(STATE)))
    later = _later(history, root / "after")
    for name in names:
        _copy_again(name, root / "stopped", later, alone=draw.random() < 0.5)
    return transactions.audit(logdir.open(*directories)), tuple(names)


def _later(history: History, root: Path) -> dict[str, Path]:
    """The log directories at the end of a history, of brokers that run, by name."""
    later = write(history, whole(history), root)
    for path in later:
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (path / name).unlink()
    return {path.name: path for path in later}


def _needs(finding: rows.Finding) -> Iterator[str | None]:
    return (premise.needs for premise in finding.premises if not premise.holds)


def _asked(finding: rows.Finding) -> set[str]:
    """The names of folders that it asks for: of partitions, or `broker-N`."""
    found = set()
    for premise in finding.premises:
        needs = premise.needs or ""
        if premise.holds:
            continue
        found |= {f"{topic}-{number}" for topic, number in _PARTITION.findall(needs)}
        if any(text in needs for text in _ALL_STATE):
            found |= {f"{STATE[0][0]}-{number}" for number in _numbers(f"{needs} {premise.what}")}
        if _BROKERS in needs:
            found |= {f"broker-{number}" for number in _numbers(needs)}
    absent = {name for name in found - _HELD if not name.startswith("broker-")}
    return found - absent | ({"-".join(map(str, METADATA))} if absent else set())


def _numbers(text: str) -> set[int]:
    """Of `partitions 0-2, 5`, and of numbers in parentheses."""
    found: set[int] = set()
    for named in _NUMBERS.findall(text):
        for part in filter(None, (one.strip(" -") for one in "".join(named).split(","))):
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _copy_again(name: str, now: Path, later: dict[str, Path], *, alone: bool = False) -> None:
    """`alone`: without the checkpoint beside it."""
    if name.startswith("broker-"):
        shutil.rmtree(now / name, ignore_errors=True)
        shutil.copytree(later[name], now / name)
        return
    for directory in now.glob("broker-*"):
        for old in directory.glob(f"{name}*"):
            old.unlink() if old.is_symlink() else shutil.rmtree(old)
        there = later[directory.name]
        shutil.copytree(there / name, directory / name)
        if not alone:
            shutil.copy(there / "replication-offset-checkpoint", directory)

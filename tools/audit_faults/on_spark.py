"""Audits on Spark: of faults, each in the directories of a cluster of its own, many clusters in one job; and of copies
of histories, whose answer has to be that of the audit on one machine.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kafkawire import logdir, rows, transactions
from tools.audit_faults.fault_outcomes import write
from tools.audit_faults.faults import LogFault
from tools.audit_faults.histories.audit_properties import FALSE_HANGING, copied, false_hangs
from tools.audit_faults.histories.history import History, truth_of
from tools.audit_faults.sound import Files, with_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAULTS_A_JOB = 400


def rules_by_spark(
    session: SparkSession, root: Path, of_seed: Mapping[int, Files], chosen: Iterable[LogFault]
) -> Iterator[tuple[LogFault, frozenset[str]]]:
    """The rules that the Spark job names for each fault.

    Args:
        root: a folder, for the directories.
    """
    left = iter(chosen)
    while several := list(islice(left, _FAULTS_A_JOB)):
        folder = root / "spark"
        for number, fault in enumerate(several):
            changed = with_cluster({**of_seed[fault.seed], **fault.changed()}, f"cluster-{number}")
            write(folder / str(number), changed)
        found = _named(session, folder)
        yield from ((fault, found[str(number)]) for number, fault in enumerate(several))
        shutil.rmtree(folder)


def _named(session: SparkSession, folder: Path) -> Mapping[str, frozenset[str]]:
    from kafkawire import spark

    found: dict[str, frozenset[str]] = defaultdict(frozenset)
    for violation in spark.audit(sorted(map(str, folder.glob("*/broker-*"))), spark=session).violations:
        assert violation.file is not None
        found[Path(violation.file).relative_to(folder).parts[0]] |= {violation.check}
    return found


# Histories ------------------------------------------------------------------------------------------------------------


def differing(session: SparkSession, root: Path, seeds: Iterable[int]) -> list[str]:
    """What one of the two audits says and the other does not, of copies of many clusters in one job; and what hangs by
    Spark's, and ends.

    Args:
        root: a folder for the copies.
    """
    from kafkawire import spark

    histories = {f"cluster-{seed}": (seed, History(seed)) for seed in seeds}
    directories = [
        str(directory)
        for name, (seed, history) in histories.items()
        for directory in copied(history, seed, root / str(seed), name).directories
    ]
    local = set(_said(transactions.audit(logdir.open(*directories), paths=tuple(directories))))
    answer = spark.audit(directories, spark=session)
    by_spark = set(_said(answer))
    return sorted(
        [
            *(f"one machine: {line}" for line in local - by_spark),
            *(f"Spark: {line}" for line in by_spark - local),
            *(
                f"{FALSE_HANGING}: {name}: {line}"
                for name, (_, history) in histories.items()
                for line in false_hangs(truth_of(history), [one for one in answer.findings if one.cluster_id == name])
            ),
        ]
    )


def _said(audit: rows.Audit) -> Iterator[str]:
    """All of an answer, a line each."""
    for part in (*audit.findings, *audit.violations, *audit.damage, *audit.answers):
        yield str(part)
    yield from audit.read.gaps
    yield f"{audit.as_of}, {audit.read.clock}, {audit.read.premises}"

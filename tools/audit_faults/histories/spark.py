"""The audit of copies of histories on Spark, whose answer has to be that of the audit on one machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kafkawire import logdir, rows, transactions
from tools.audit_faults.histories.history import History
from tools.audit_faults.histories.properties import FALSE_HANGING, copied, false_hangs
from tools.audit_faults.histories.truth import truth_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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

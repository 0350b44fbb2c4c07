"""The faults, audited on Spark: each in the directories of a cluster of its own, many clusters in one job."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tools.audit_faults.faults import LogFault
from tools.audit_faults.judging import write
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
    for violation in spark.audit(brokers(folder), spark=session).violations:
        assert violation.file is not None
        found[Path(violation.file).relative_to(folder).parts[0]] |= {violation.check}
    return found


def brokers(folder: Path) -> Sequence[str]:
    """The log directories below a folder of cases."""
    return sorted(str(path) for path in folder.glob("*/broker-*"))

"""CONTRIBUTING.md's way to add a rule, taken in a copy of the checkout: the rule finds its violation wherever that is,
and however the log is read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.guide import ROOT
from tools.guide.rules import PAGE, SECTION, table
from tools.pages import sections

NAME = "batch_of_1000"
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

#: Writes logs of 40 batches of 8 KiB, of which one has 1,001 records: the second or the thirtieth of its producer; and
#: reads them in several ways, each of which has to find it.
FINDS = """
import sys
from pathlib import Path
from kafkawire import logdir, transactions
from kafkawire.records import Record, build
from kafkawire.transactions import Settings
from kafkawire.transactions.auditing import local_audit, replica_workers
from kafkawire.transactions.parts.part_scan import PART_BYTES
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaMerge, parts_of
from tests.audit_logs import NOON, LogDirectory


def offsets(answers):
    return [breach.offset for one in answers if one.check == "batch_of_1000" for breach in one.breaches]


def main(root, place):
    logs = LogDirectory(root, ids=0)
    log = logs.partition("orders")
    for number in range(40):
        if number == place - 1:
            expected = log.data(7, records=1001, transactional=False)
            continue
        sequence = log.sequences.get((7, 0), 0)
        log.sequences[7, 0] = sequence + 1
        record = Record(key=b"k", value=bytes(8192), timestamp=NOON)
        log._append(build([record], base_offset=log.end, producer_id=7, producer_epoch=0, base_sequence=sequence), 1)
    logs.write()
    found = {}
    directory = logdir.open(root)
    for way, jobs, threads in (("one thread", 1, True), ("two threads", 2, True), ("two processes", 2, False)):
        local_audit.THREADS = threads
        audit = transactions.audit(directory, jobs=jobs)
        found[way] = [one.offset for one in audit.violations if one.check == "batch_of_1000"]
    for size in (PART_BYTES, 64 << 10):
        (partition,) = directory.partitions
        replica = AuditedReplica(partition)
        merge, count = ReplicaMerge(replica), 0
        for segment, task in parts_of(replica, size):
            merge.take(segment, task.read())
            count += 1
        assert (count > 1) == (size < PART_BYTES), count
        found[f"parts of {size}"] = offsets(one.answer for one in merge.facts().answers)
    if len(sys.argv) > 3:
        from kafkawire import spark
        with spark.local_session("local[1]") as session:
            for size in (PART_BYTES, 8 << 10):  # a replica by one task, and in parts
                audit = spark.audit([str(root)], spark=session, part_bytes=size)
                broken = [one for one in audit.violations if one.check == "batch_of_1000"]
                found[f"Spark, parts of {size}"] = [one.offset for one in broken]
    wrong = {way: places for way, places in found.items() if places != [expected]}
    assert not wrong, (expected, wrong)
    assert "batch_of_1000" in {one.check for one in audit.answers}
    print(len(found), "ways")


if __name__ == "__main__":
    local_audit.BYTES_A_JOB = 1
    replica_workers.PART_BYTES = 64 << 10
    main(Path(sys.argv[1]), int(sys.argv[2]))
"""


def copied_checkout(root: Path) -> Path:
    """A copy of what commands and tests need, in an empty folder."""
    skipped = shutil.ignore_patterns("__pycache__", "golden")
    for name in ("kafkawire", "tests", "tools"):
        shutil.copytree(ROOT / name, root / name, ignore=skipped, symlinks=False)
    (root / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
    for name in ("pyproject.toml", "schemas"):
        (root / name).symlink_to(ROOT / name)
    return root


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the rule."""
    root = copied_checkout(tmp_path_factory.mktemp("checkout"))
    rule = re.search(rf"`kafkawire/\S+/{NAME}\.py`:\n\n   ```python\n(.*?)   ```\n", TEXT, re.DOTALL)
    assert rule is not None
    rules = root / "kafkawire" / "transactions" / "log" / "batch_rules"
    (rules / f"{NAME}.py").write_text(textwrap.dedent(rule[1]), "utf-8")
    registered = (rules / "__init__.py").read_text("utf-8")
    if NAME not in registered:  # this also runs in a checkout where the steps were taken
        registered = registered.replace("import (\n", f"import (\n    {NAME},\n", 1)
        registered = registered.replace("    mixed_batches.RULE,\n", f"    mixed_batches.RULE,\n    {NAME}.RULE,\n")
    (rules / "__init__.py").write_text(registered, "utf-8")
    (root / "finds.py").write_text(FINDS, "utf-8")
    return root


def run(checkout: Path, *words: str, backend: str | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {} if backend is None else {"KAFKAWIRE_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, *words], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("place", [2, 30])
def test_a_rule_finds_its_violation_wherever_it_is(checkout: Path, tmp_path: Path, place: int) -> None:
    for backend in (None, "python"):
        logs = tmp_path / f"logs-{backend}"
        assert run(checkout, "finds.py", str(logs), str(place), backend=backend) == "5 ways\n"


@pytest.mark.slow
@pytest.mark.parametrize("place", [2, 30])
def test_on_spark_too(checkout: Path, tmp_path: Path, place: int) -> None:
    pytest.importorskip("pyspark")
    assert run(checkout, "finds.py", str(tmp_path / "logs"), str(place), "spark").endswith("7 ways\n")


@pytest.mark.slow
def test_its_faults_are_injected_and_named(checkout: Path) -> None:
    chosen = f"{NAME} or engine or drawn or bounded or any_batches"
    files = ("tests/transactions/checks/test_injected.py", "tests/transactions/test_ordered_replay.py")
    found = run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *files)
    assert int(re.findall(r"(\d+) passed", found)[0]) >= 4


def test_the_page_has_the_table_of_the_rules() -> None:
    """`python -m tools.guide.rules` writes it."""
    assert sections(PAGE.read_text("utf-8"))[SECTION].splitlines()[1:-1] == table().splitlines()

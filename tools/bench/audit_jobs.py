"""What the audit on one machine gains from a second thread (`--jobs 2`).

    python -m tools.bench.audit_jobs                        # prints a row for each size; exit code 1: a gate is missed
    python -m tools.bench.audit_jobs --write                # also writes the section of docs/performance.md
    python -m tools.bench.audit_jobs 1x5000000 2000x2000    # partitions and the transactions of each
    python -m tools.bench.audit_jobs --keep FOLDER          # generated logs stay there, for the next time

Whole commands are measured, start included, in turns of one thread and two; of each the fastest counts. Python's
bytecode is there, as that of an installed package is. Two threads can only be compared with one on a machine that does
nothing else: where the load is higher than one, that is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools import ROOT
from tools.bench.measurement import BenchError
from tools.bench.spark_scale import write_partitions
from tools.pages import write_section

#: Partitions, and the transactions of each.
SIZES = ((1, 5_000_000), (1, 20_000_000), (2000, 2000), (2000, 10_000))
#: How many times as fast two threads are, at the sizes above that have at least as many batches.
GATE, GATED_BATCHES = 1.7, 40_000_000
_ROUNDS = 5
_PAGE, _SECTION = ROOT / "docs" / "performance.md", "audit-jobs"


class Run(NamedTuple):
    """Seconds of one audit, those of CPU, and the most memory in bytes."""

    seconds: float
    cpu: float
    memory: int


class Compared(NamedTuple):
    """A size, the bytes of its logs, and its fastest audits by one thread and by two."""

    partitions: int
    transactions: int
    size: int
    one: Run
    two: Run

    @property
    def gain(self) -> float:
        """How many times as fast two threads are."""
        return self.one.seconds / self.two.seconds

    @property
    def batches(self) -> int:
        return 2 * self.partitions * self.transactions

    @property
    def row(self) -> str:
        what = f"{self.partitions:,} partitions of" if self.partitions > 1 else "one partition of"
        one, two = self.one, self.two
        return (
            f"| {what} {self.transactions:,} transactions | {self.batches / 1e6:.0f} M | {self.size >> 20:,} MiB "
            f"| {one.seconds:.2f} s | {two.seconds:.2f} s | {self.gain:.2f} | {one.cpu:.2f} s | {two.cpu:.2f} s "
            f"| {one.memory >> 20} MiB | {two.memory >> 20} MiB |"
        )


HEAD = (
    "| logs | batches | bytes | `--jobs 1` | `--jobs 2` | times as fast | CPU | CPU | memory | memory |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)
_ABOUT = """## The audit, by one thread and two

Seconds of the whole command, start included, in turns, the fastest of {rounds} each; its processor time and its most
memory (`python -m tools.bench.audit_jobs --write`). A transaction is a batch of data and its marker. Python's bytecode
is there, as that of an installed package is.

{head}
{rows}

Goal: {gate} times as fast from {gated:.0f} M batches on: {verdict}. The start (imports) and the last steps of the
answer are not divided. Of one large partition, parts are read side by side and replayed in order; many partitions are
read side by side.
"""


def audited(root: Path, jobs: int, bytecode: Path) -> tuple[Run, bytes]:
    """An audit's cost, and its answer.

    Args:
        bytecode: where Python's is kept.

    Raises:
        BenchError: the audit failed.
    """
    command = [sys.executable, "-m", "kafkawire", "audit", str(root), "--jobs", str(jobs), "--format", "json"]
    with tempfile.TemporaryFile() as answer:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=answer, stderr=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 3, 4, 5):
            raise BenchError(f"{' '.join(command[1:])}: exit code {child.returncode}")
        answer.seek(0)
        return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10), answer.read()


def compared(root: Path, partitions: int, transactions: int, rounds: int) -> Compared:
    """The fastest audits of logs that lie there.

    Raises:
        BenchError: the answers differ.
    """
    runs: dict[int, list[Run]] = {1: [], 2: []}
    answers = set()
    with tempfile.TemporaryDirectory() as bytecode:
        _, answer = audited(root, 2, Path(bytecode))
        answers.add(answer)
        for jobs in (1, 2) * rounds:
            run, answer = audited(root, jobs, Path(bytecode))
            runs[jobs].append(run)
            answers.add(answer)
    if len(answers) > 1:
        raise BenchError(f"{root}: two threads find something else than one")
    size = sum(file.stat().st_size for file in root.glob("*/*.log"))
    return Compared(partitions, transactions, size, *(min(of_jobs) for of_jobs in runs.values()))


def written(folder: Path, partitions: int, transactions: int) -> Path:
    """The logs of a size, which may be there already."""
    root = folder / f"{partitions}x{transactions}"
    if not root.exists():
        unfinished = folder / f"{root.name}.unfinished"
        write_partitions(unfinished, partitions, transactions)
        unfinished.rename(root)
    return root


def markdown(found: Sequence[Compared], rounds: int) -> str:
    """The section of docs/performance.md."""
    gated = [one for one in found if one.batches >= GATED_BATCHES]
    missed = [f"{one.gain:.2f}" for one in gated if one.gain < GATE]
    verdict = f"not met ({', '.join(missed)})" if missed else "met" if gated else "not measured"
    rows = "\n".join(one.row for one in found)
    return _ABOUT.format(
        rounds=rounds, head=HEAD, rows=rows, gate=GATE, gated=GATED_BATCHES / 1e6, verdict=verdict
    ).rstrip("\n")


def _size(text: str) -> tuple[int, int]:
    partitions, transactions = map(int, text.split("x"))
    return partitions, transactions


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=_size, metavar="PARTITIONSxTRANSACTIONS")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"turns (default {_ROUNDS})")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where logs are, or are written and stay")
    parser.add_argument("--write", action="store_true", help="write the section of docs/performance.md")
    given = parser.parse_args(words)
    found = []
    print(HEAD, flush=True)
    for partitions, transactions in given.sizes or SIZES:
        with tempfile.TemporaryDirectory() as folder:
            root = written(given.keep or Path(folder), partitions, transactions)
            found.append(compared(root, partitions, transactions, given.rounds))
        print(found[-1].row, flush=True)
    if (load := os.getloadavg()[1]) > 2.5:
        print(f"others used the processors (load {load:.1f}): these times say little", file=sys.stderr)
    if given.write:
        write_section(_PAGE, _SECTION, markdown(found, given.rounds))
    return int(any(one.batches >= GATED_BATCHES and one.gain < GATE for one in found))


if __name__ == "__main__":
    sys.exit(main())

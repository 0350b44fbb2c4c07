"""`python -m tools.package_coverage [PACKAGE...]`: lines and branches of each package that its own quick tests reach.

Prints each file that is not reached whole, and writes the table in CONTRIBUTING.md: rows of packages that were not run
stay. Without names: the packages whose tests need no other program. Tests of packages that the native engine serves
run with it and without it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kafkawire import backend
from tools import ROOT
from tools.bench.machine_info import commit
from tools.pages import write_rows

PAGE = ROOT / "CONTRIBUTING.md"
PACKAGES = (
    "wire", "frames", "records", "rows", "capture", "logdir", "transactions", "offsets", "client", "report", "testing",
)  # fmt: skip
SERVED = ("wire", "records", "capture")
HEAD = ("| package | files | lines | branches | reached | at |", "|---|---:|---:|---:|---:|---|")


def main(packages: list[str]) -> int:
    for package in packages:
        if not all((ROOT / folder / package).is_dir() for folder in ("kafkawire", "tests")):
            sys.exit(f"tools.package_coverage: {package} is no package with tests of its own")
    failed = False
    for package in packages or PACKAGES:
        totals, files, passed = measured(package)
        failed = failed or not passed
        write_rows(PAGE, "coverage", HEAD, [row(package, totals, files)])
    return int(failed)


def measured(package: str) -> tuple[dict[str, Any], int, bool]:
    """The totals of coverage's report, the number of files, and whether the tests passed."""
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        data, report = Path(folder, "data"), Path(folder, "report.json")
        coverage = [sys.executable, "-m", "coverage"]
        tests = ["-m", "pytest", "-q", "-m", "not slow", f"tests/{package}"]
        environment = os.environ | {"COVERAGE_FILE": str(data), "HYPOTHESIS_PROFILE": "quick"}
        run = [*coverage, "run", "--branch", "--append", "--source", f"kafkawire/{package}", *tests]
        engines = {backend, "python"} if package in SERVED else {backend}
        ended = [
            subprocess.run(run, cwd=ROOT, env=environment | {"KAFKAWIRE_BACKEND": engine}).returncode
            for engine in sorted(engines)
        ]
        subprocess.run([*coverage, "report", "-m", "--skip-covered"], cwd=ROOT, env=environment, check=True)
        subprocess.run([*coverage, "json", "-q", "-o", report], cwd=ROOT, env=environment, check=True)
        found = json.loads(report.read_bytes())
    return found["totals"], len(found["files"]), not any(ended)


def row(package: str, totals: dict[str, Any], files: int) -> str:
    """A line of the table."""
    reached = f"{totals['percent_covered']:.1f} %"
    return (
        f"| {package} | {files} | {totals['num_statements']:,} | {totals['num_branches']:,} | {reached} | {commit()} |"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

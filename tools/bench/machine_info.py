"""The machine of a run, and the versions of its software."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tools import ROOT
from tools.bench.results import Machine
from tools.broker.errors import BrokerUnavailableError
from tools.broker.jars import BROKER_VERSION, TOOLS_VERSION, java

_PACKAGES = ("msgspec", "numpy", "pyarrow", "kio", "kafka-python")


def machine(command: str, load_before: float, minutes: float) -> Machine:
    """The machine of this process.

    Args:
        command: the command line of the run. `load_before`: load average over a minute, before the run.
        minutes: duration of the run.
    """
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 0,
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()}",
        versions=_versions(),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        load=(load_before, os.getloadavg()[0]),
        minutes=minutes,
    )


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def commit() -> str:
    """The commit of this checkout, with `-dirty` where files are changed, apart from pages: runs write these."""
    git = ["git", "-C", str(ROOT)]
    changed = [*git, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)*.md"]
    found, edited = _first_line([*git, "describe", "--always", "--exclude=*"]), _first_line(changed)
    clean = edited in ("unknown", found)  # no output; or both failed alike, as there is no git or no checkout
    return found if clean else f"{found}-dirty"


def _versions() -> dict[str, str]:
    found = {"kafkawire": commit()}
    found["Python"] = platform.python_version()
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    found["Rust"] = _first_line(["rustc", "--version"])
    try:
        found["Java"] = _first_line([java(), "-version"])
        found["kafka-clients"], found["kafka-dump-log"] = BROKER_VERSION, TOOLS_VERSION
    except BrokerUnavailableError as error:
        found["Java"] = str(error)
    return found


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "not installed"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"

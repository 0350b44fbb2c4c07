"""Jobs that run a command. The CPU time of its process is measured, including its start and end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from tools.bench.job import AbsentError, Job, digest
from tools.bench.sample_data import ROOT

#: The exit code of an incomplete result: the example has a request of a version that does not exist.
_INCOMPLETE = 4


def capture(engine: str, path: str, options: str) -> Job:
    """`kafkawire capture`.

    Args:
        engine: "native" or "python". `path`: of the capture.
        options: of the command line, separated by blanks.
    """
    # As for users: compiled modules are cached, and output is buffered.
    set_here = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    environment = {name: value for name, value in os.environ.items() if name not in set_here}
    environment["KAFKAWIRE_BACKEND"] = engine
    command = [sys.executable, "-m", "kafkawire", "capture", path, *options.split()]

    def run(out: int | IO[bytes] = subprocess.DEVNULL) -> None:
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.PIPE, env=environment, cwd=ROOT, text=True, check=False
        )
        if "native engine is not installed" in done.stderr:
            raise AbsentError(done.stderr.strip())
        if done.returncode not in (0, _INCOMPLETE):
            raise RuntimeError(f"kafkawire capture ended with {done.returncode}: {done.stderr}")

    with tempfile.TemporaryFile() as printed:
        run(printed)
        printed.seek(0)
        rows = list(map(msgspec.json.decode, printed))
    found = sum((row["request_bytes"] is not None) + (row["response_bytes"] is not None) for row in rows)
    return Job(run, digest(b"%d" % found), Path(path).stat().st_size)


_FIELDS = ("frame.time_epoch", "kafka.api_key", "kafka.correlation_id", "kafka.client_id")


def tshark(path: str, form: str) -> Job:
    """tshark: `json` of everything, `kafka` JSON of Kafka's layer alone, or four `fields` a packet."""
    program = shutil.which("tshark")
    if program is None:
        raise AbsentError("tshark is not installed")
    options = {
        "json": ["-T", "json"],
        "kafka": ["-T", "json", "-Y", "kafka", "-J", "kafka"],
        "fields": ["-T", "fields", "-Y", "kafka", *(word for field in _FIELDS for word in ("-e", field))],
    }

    def run(form: str = form, out: int | IO[bytes] = subprocess.DEVNULL) -> None:
        command: Sequence[str] = [program, "-r", path, *options[form]]
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)

    with tempfile.TemporaryFile() as printed:
        run("fields", printed)
        printed.seek(0)
        found = sum(len(line.split(b"\t")[2].split(b",")) for line in printed)
    return Job(run, digest(b"%d" % found), Path(path).stat().st_size)

"""Jobs that run a command. The CPU time of its process is measured, including its start and end."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec

from tools.bench.job import AbsentError, Job, digest
from tools.bench.measured_commands import run, users_environment

#: The exit code of an incomplete result: the example has a request of a version that does not exist.
_INCOMPLETE = 4


def capture(engine: str, path: str, options: str) -> Job:
    """`kafkawire capture`.

    Args:
        engine: "native" or "python". `path`: of the capture.
        options: of the command line, separated by blanks.
    """
    command = [sys.executable, "-m", "kafkawire", "capture", path, *options.split()]
    once = partial(run, command, users_environment(KAFKAWIRE_BACKEND=engine), codes=(0, _INCOMPLETE))
    rows = list(map(msgspec.json.decode, once().printed.splitlines()))
    found = sum((row["request_bytes"] is not None) + (row["response_bytes"] is not None) for row in rows)
    return Job(partial(once, out=subprocess.DEVNULL), digest(b"%d" % found), Path(path).stat().st_size)


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

    def once(form: str, out: int | None = None) -> bytes:
        return run([program, "-r", path, *options[form]], out=out).printed

    found = sum(len(line.split(b"\t")[2].split(b",")) for line in once("fields").splitlines())
    return Job(partial(once, form, subprocess.DEVNULL), digest(b"%d" % found), Path(path).stat().st_size)

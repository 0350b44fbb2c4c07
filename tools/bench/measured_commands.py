"""Commands in processes of their own: what they cost by the clock and of the processor, and what they print."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from tools import ROOT
from tools.bench.job import AbsentError

#: What developers set, and users do not: their modules are compiled once, and what is printed is buffered.
_SET_HERE = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")


class CommandError(Exception):
    """A command that gave no answer. The message is its last line of standard error, `whole` is the command and all."""

    def __init__(self, command: Sequence[str], code: int, errors: str) -> None:
        lines = errors.strip().splitlines()
        super().__init__(lines[-1] if lines else f"it ended with {code}")
        self.whole = f"{' '.join(command)} ended with {code}: {errors.strip()}"


class Done(NamedTuple):
    """A command that ended: seconds by the clock and of the processor (user and system), start and end included."""

    seconds: float
    processor: float
    printed: bytes
    errors: str


def users_environment(**more: str) -> dict[str, str]:
    """The variables of this process without those that only developers set, and with `more`."""
    return {name: value for name, value in os.environ.items() if name not in _SET_HERE} | more


def run(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    codes: Collection[int] = (0,),
    out: int | IO[bytes] | None = None,
    folder: Path = ROOT,
) -> Done:
    """Runs a command without input.

    Args:
        environment: all of its variables; by default those of this process.
        codes: exit codes of answers.
        out: a file or `subprocess.DEVNULL` that takes standard output; by default it is in the result.
        folder: the working directory.

    Raises:
        AbsentError: the native engine is not installed. CommandError: another exit code.
    """
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed if out is None else out,
            stderr=errors,
            env=environment,
            cwd=folder,
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read().decode("utf-8", "replace")
        if "native engine is not installed" in text:
            raise AbsentError(text.strip())
        if child.returncode not in codes:
            raise CommandError(command, child.returncode, text)
        printed.seek(0)
        return Done(seconds, usage.ru_utime + usage.ru_stime, printed.read(), text)


def least_processor_time(
    command: Sequence[str], environment: Mapping[str, str], rounds: int, codes: Collection[int]
) -> float:
    """Processor time of the fastest of some runs, whose output goes into a file. Raises as `run` does."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryFile() as out:
            found.append(run(command, environment, codes=codes, out=out).processor)
    return min(found)

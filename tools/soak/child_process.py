"""A process of the run. A thread reads its standard output line by line; its standard error goes to a file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools import ROOT
from tools.broker import orphans

_END_S = 60.0
_TAIL = 2000


class ChildProcess:
    """A running process.

    Attributes:
        name: its name in errors.
        process: the process.
        temporary: its folder for temporary files (TMPDIR).
        failure: the exception of a line of its output that could not be read.
    """

    def __init__(
        self, name: str, process: subprocess.Popen[bytes], folder: Path, take: Callable[[bytes], None]
    ) -> None:
        self.name = name
        self.process = process
        self.temporary = folder / "tmp"
        self.failure: Exception | None = None
        self._errors = folder / "stderr"
        self._take = take
        self._reading = threading.Thread(target=self._read, name=f"reads {name}", daemon=True)
        self._reading.start()

    @property
    def complaints(self) -> str:
        """Its standard error so far."""
        return self._errors.read_text("utf-8", "replace")

    def check(self) -> None:
        """Raises SoakError if it has ended, or if its output could not be read."""
        if self.failure is not None:
            raise SoakError(f"{self.name} printed what cannot be read: {self.failure}")
        status = self.process.poll()
        if status is not None:
            raise SoakError(f"{self.name} has ended with {status}: {self.complaints[-_TAIL:].strip()}")

    def send(self, line: str) -> None:
        """Writes a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, by: signal.Signals | None = None, *, expected: int = 0) -> None:
        """Waits for its end, after sending the signal `by`, and until its output is read.

        Raises SoakError if it does not end, or ends with another status than the expected one."""
        if by is not None:
            self.process.send_signal(by)
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise SoakError(f"{self.name} does not end: {self.complaints[-_TAIL:].strip()}") from None
        self._reading.join(_END_S)
        if self.failure is not None:
            raise SoakError(f"{self.name} printed what cannot be read: {self.failure}")
        if status != expected:
            raise SoakError(f"{self.name} ended with {status}: {self.complaints}")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self._take(line)
            except Exception as error:  # raised by `check` and `end`
                self.failure = self.failure or error


@contextlib.contextmanager
def child(name: str, command: Sequence[str], folder: Path, take: Callable[[bytes], None]) -> Iterator[ChildProcess]:
    """Runs a command until the block ends. If it has not ended then, it is killed with its child processes.

    Args:
        name: its name in errors.
        command: the command.
        folder: created for its standard error and its temporary files.
        take: called with each line of its standard output, in a separate thread.
    """
    (folder / "tmp").mkdir(parents=True)
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
            start_new_session=True,  # Ctrl-C at a terminal reaches the run, which ends its processes in good order
        )
    orphans.watch(process.pid)
    try:
        yield ChildProcess(name, process, folder, take)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a JVM and its workers, too
        process.wait()
        orphans.forget(process.pid)


class SoakError(Exception):
    """A process of the run ended, did not start, or did not end in time. The message has its name and its errors."""

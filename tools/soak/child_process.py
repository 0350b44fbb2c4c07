"""A process of the run: what it prints is taken line by line, what it complains about is kept in a file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.bench.sample_data import ROOT
from tools.broker import orphans

from .errors import SoakError

_END_S = 60.0
_TAIL = 2000


class ChildProcess:
    """See the module.

    Attributes:
        temporary: its folder for temporary files (TMPDIR).
        failure: what went wrong with a line that it printed.
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
        """What it wrote on standard error."""
        return self._errors.read_text("utf-8", "replace")

    def check(self) -> None:
        """Raises SoakError where it has ended, or printed what nobody expects."""
        if self.failure is not None:
            raise SoakError(f"{self.name} printed what cannot be read: {self.failure}")
        status = self.process.poll()
        if status is not None:
            raise SoakError(f"{self.name} has ended with {status}: {self.complaints[-_TAIL:].strip()}")

    def tell(self, line: str) -> None:
        """Writes a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, by: signal.Signals | None = None) -> int:
        """Its status, once it has ended (by that signal) and all that it printed is taken.

        Raises SoakError where it does not end."""
        if by is not None:
            self.process.send_signal(by)
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise SoakError(f"{self.name} does not end: {self.complaints[-_TAIL:].strip()}") from None
        self._reading.join(_END_S)
        if self.failure is not None:
            raise SoakError(f"{self.name} printed what cannot be read: {self.failure}")
        return status

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self._take(line)
            except Exception as error:  # told by whoever looks after the child
                self.failure = self.failure or error


@contextlib.contextmanager
def child(name: str, command: Sequence[str], folder: Path, take: Callable[[bytes], None]) -> Iterator[ChildProcess]:
    """Runs a command until the block ends; it is killed with whatever it started if it does not end before.

    folder: is made; for what it complains about, and its temporary files.
    take: is given each line of its standard output, in a thread of its own.
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

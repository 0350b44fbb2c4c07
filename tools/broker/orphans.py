"""Kills the child processes of a Python process when it ends, even by SIGKILL.

A watcher process reads a pipe from its parent; end of file means that the parent has ended. `atexit` and `finally` do
not run when a test run is killed, and Linux sends the parent-death signal when the parent's *thread* ends.
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import sys
import threading

_WATCH = """
import os, signal, sys
left = set()
for line in sys.stdin:
    (left.add if line[0] == "+" else left.discard)(int(line[1:]))
for pid in left:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""

#: Seconds for the watcher to end; a process that was forked from this one may still hold the pipe.
_PATIENCE_S = 5

_lock = threading.Lock()
_watcher: subprocess.Popen[str] | None = None


def watch(pid: int) -> None:
    """From now on, the process with this id is killed when the current process ends."""
    _send(f"+{pid}\n")


def forget(pid: int) -> None:
    """To be called when the process has ended: its id may be used again."""
    _send(f"-{pid}\n")


def _send(line: str) -> None:
    global _watcher
    with _lock, contextlib.suppress(BrokenPipeError):
        if _watcher is None:
            _watcher = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", _WATCH], stdin=subprocess.PIPE, text=True, start_new_session=True
            )
            atexit.register(_end)
        assert _watcher.stdin is not None
        _watcher.stdin.write(line)
        _watcher.stdin.flush()


def _end() -> None:
    """Closes the pipe and waits for the watcher, which kills what is left: at its exit Python warns of what is open."""
    global _watcher
    with _lock, contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
        if _watcher is not None:
            ending, _watcher = _watcher, None
            ending.communicate(timeout=_PATIENCE_S)  # closes the pipe

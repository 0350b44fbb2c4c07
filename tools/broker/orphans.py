"""Ends what a Python process has started when that process is gone, however it went (SIGKILL, too).

A child of its own holds the other end of a pipe, whose end of file is the end of its parent. `atexit` and `finally` do
not run when a test run is killed; and the signal for the death of a parent comes when the parent's *thread* ends.
"""

from __future__ import annotations

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

_lock = threading.Lock()
_watcher: subprocess.Popen[str] | None = None


def watch(pid: int) -> None:
    """From now on the process with that id is killed when this one is gone."""
    _say(f"+{pid}\n")


def forget(pid: int) -> None:
    """The process has ended; somebody else may get its id."""
    _say(f"-{pid}\n")


def _say(line: str) -> None:
    global _watcher
    with _lock, contextlib.suppress(BrokenPipeError):
        if _watcher is None:
            _watcher = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", _WATCH], stdin=subprocess.PIPE, text=True, start_new_session=True
            )
        assert _watcher.stdin is not None
        _watcher.stdin.write(line)
        _watcher.stdin.flush()

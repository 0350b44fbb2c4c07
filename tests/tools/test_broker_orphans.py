"""What a test run has started does not outlive it, even where it is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 30

#: Starts two children, each with a pipe that is open for as long as it lives; the second is forgotten.
_PARENT = """
import subprocess, sys
from tools.broker import orphans
children = [subprocess.Popen(["sleep", "600"], stdout=int(fd), start_new_session=True) for fd in sys.argv[1:]]
for child in children:
    orphans.watch(child.pid)
orphans.forget(children[1].pid)
print(children[1].pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_children_end_with_their_parent(how: signal.Signals) -> None:
    (watched, end), (forgotten, other) = os.pipe(), os.pipe()
    os.set_inheritable(end, True)
    os.set_inheritable(other, True)
    command = [sys.executable, "-c", _PARENT, str(end), str(other)]
    pid = None
    try:
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(end, other)
        ) as parent:
            os.close(end)
            os.close(other)
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            os.set_blocking(forgotten, False)
            parent.send_signal(how)
            assert parent.wait(TIMEOUT_S) == -how
            assert select.select([watched], [], [], TIMEOUT_S)[0], "the child is still there"
            assert os.read(watched, 1) == b""
            with pytest.raises(BlockingIOError):
                os.read(forgotten, 1)  # still open
    finally:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        os.close(watched)
        os.close(forgotten)


def test_leaves_no_process_and_no_pipe_open_at_exit() -> None:
    program = "import os; from tools.broker import orphans; orphans.watch(os.getppid()); orphans.forget(os.getppid())"
    done = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", program], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")

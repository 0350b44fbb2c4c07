"""Ctrl-C while `capture` reads growing input: what was read until then is printed; what is missing is reported."""

from __future__ import annotations

import array
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.cli import interrupt
from kafkawire.cli.interrupt import ending_input
from kafkawire.messages import ApiVersionsRequest, ApiVersionsResponse
from tests.capture.wiretap import Conversation, ethernet, pcap

if sys.platform == "win32":
    pytest.skip("signals as Unix has them", allow_module_level=True)

import fcntl
import termios

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("terminal_signals")]

WAIT_S = 60.0


def waits_for_an_answer() -> bytes:
    """A capture: a request without an answer, behind which others wait for their turn; and at last half a packet."""
    silent, other = Conversation(client=("10.0.0.1", 40001)), Conversation(client=("10.0.0.1", 40002))
    silent.request(ApiVersionsRequest(), version=0, correlation_id=1)
    for number in (2, 3):
        other.request(ApiVersionsRequest(), version=0, correlation_id=number)
        other.response(ApiVersionsResponse(), version=0, correlation_id=number)
    return pcap(map(ethernet, silent.packets + other.packets + other.packets[:1]))[:-20]


@contextmanager
def capture(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "kafkawire", "capture", *arguments, "--format", "jsonl"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def check(process: subprocess.Popen[bytes], file: str) -> None:
    out, err = process.communicate(timeout=WAIT_S)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["correlation_id"], row["response_bytes"] is not None) for row in rows if row["api"]] == [
        (1, False),
        (2, True),
        (3, True),
    ]
    assert rows[0]["problem"] == "no response was captured"
    assert err.decode().startswith(f"incomplete: {file}: the file is damaged after packet 11: ")
    assert len(err.splitlines()) == 1
    assert process.returncode == 130


@pytest.mark.skipif(not os.path.exists("/proc/self/fdinfo"), reason="needs /proc: how far a file has been read")
def test_first_ctrl_c_ends_a_followed_file(tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(waits_for_an_answer())
    with capture("--follow", str(path)) as process:

        def has_read() -> bool:
            for number in os.listdir(f"/proc/{process.pid}/fd"):
                try:
                    if os.readlink(f"/proc/{process.pid}/fd/{number}") == str(path.resolve()):
                        info = Path(f"/proc/{process.pid}/fdinfo/{number}").read_text().split()
                        return int(info[1]) == path.stat().st_size
                except FileNotFoundError:
                    continue
            return False

        until(has_read)
        process.send_signal(signal.SIGINT)
        check(process, str(path))


def test_first_ctrl_c_ends_a_pipe_and_its_writer() -> None:
    with capture("-") as process:
        assert process.stdin is not None
        process.stdin.write(waits_for_an_answer())
        process.stdin.flush()
        left = array.array("i", [1])

        def has_read() -> bool:
            fcntl.ioctl(process.stdin, termios.FIONREAD, left)  # type: ignore[arg-type]
            return not left[0]

        until(has_read)
        process.send_signal(signal.SIGINT)
        check(process, "-")  # closes the pipe first


def test_second_ctrl_c_ends_at_once() -> None:
    with ending_input(wanted=True) as ended:
        assert not ended()
        os.kill(os.getpid(), signal.SIGINT)
        until(ended)
        with pytest.raises(KeyboardInterrupt):
            interrupted()


def test_input_that_continues_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_GRACE_S", 0.01)
    with ending_input(wanted=True) as ended:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert ended()


def test_work_after_the_input_has_no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_GRACE_S", 3600.0)
    with ending_input(wanted=True) as ended:
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0)
        assert ended()
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_restores_the_signal_handler() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
    with ending_input(wanted=True):
        os.kill(os.getpid(), signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_leaves_ctrl_c_alone_when_not_wanted() -> None:
    with ending_input(wanted=False) as ended:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert not ended()


def test_leaves_an_ignored_ctrl_c_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ending_input(wanted=True) as ended:
            os.kill(os.getpid(), signal.SIGINT)
            assert not ended()
    finally:
        signal.signal(signal.SIGINT, before)


def test_does_nothing_outside_the_main_thread() -> None:
    found: list[bool] = []

    def work() -> None:
        with ending_input(wanted=True) as ended:
            found.append(ended())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


def interrupted() -> None:
    """A Ctrl-C, and time for its handler."""
    os.kill(os.getpid(), signal.SIGINT)
    until(lambda: False)


def test_python_m_keeps_the_exit_code_where_ctrl_c_came_in_an_exec(tmp_path: Path) -> None:
    """As in a dataclass that is imported. CPython would end the process by SIGINT after that."""
    text = "try:\n    exec('raise KeyboardInterrupt')\nexcept KeyboardInterrupt:\n    raise ImportError\n"
    (tmp_path / "rich.py").write_text(text)
    command = [sys.executable, "-m", "kafkawire", "--version"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs" in done.stderr

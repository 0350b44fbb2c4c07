"""Ctrl-C for a command that reads growing input: the input ends, the command prints its results and exits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERRUPTED = 130
#: How long the input has for its end.
_GRACE_S = 2.0


@contextmanager
def ending_input(*, wanted: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C was pressed.

    The first Ctrl-C in the block is only noted: the writer of a pipe (`tcpdump`) gets it too, and exits; a reader that
    waits at a file's end calls the function. If it returns True, the input ends there, and the remaining work has no
    time limit. A second Ctrl-C, or input that continues for 2 seconds, raises KeyboardInterrupt. `wanted`: if False, or
    where Ctrl-C is ignored (background jobs), nothing changes."""
    before = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if not (wanted and here and callable(before) and hasattr(signal, "setitimer")):
        yield lambda: False
        return
    got: list[int] = []

    def note(number: int, _frame: object) -> None:
        got.append(number)
        signal.signal(signal.SIGINT, before)
        signal.setitimer(signal.ITIMER_REAL, _GRACE_S)

    def give_up(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    def ended() -> bool:
        if got:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return bool(got)

    alarm = signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGINT, note)
    try:
        yield ended
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, before)


class TerminationSignal(KeyboardInterrupt):
    """A signal to terminate was received. `code`: the exit code, 128 plus the signal's number."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.code = 128 + signal_number


def interruption(error: BaseException) -> KeyboardInterrupt | None:
    """The interruption that caused an error; None where there is none. Before Python 3.12, one that arrives in a
    `__set_name__`, as when a module of messages is imported, is the cause of a RuntimeError."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, KeyboardInterrupt):
            return found
        found = found.__cause__
    return None


def unhandled_terminations() -> list[signal.Signals]:
    """SIGTERM, and SIGHUP where the system has it, without those that have a handler or are ignored (nohup)."""
    found = [one for one in signal.Signals if one.name in ("SIGTERM", "SIGHUP")]
    return [one for one in found if signal.getsignal(one) is signal.SIG_DFL]


@contextmanager
def terminating() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise `TerminationSignal` in the body, so that it can clean up.

    Signals that have a handler, or are ignored (nohup), are left as they are. Only a program's main thread can handle
    signals: in other threads nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: object) -> None:
        raise TerminationSignal(number)

    taken = unhandled_terminations()
    for one in taken:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)

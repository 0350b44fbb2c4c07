"""Ctrl-C of a command that reads what is still written: its input ends, and it tells what it has, before it ends."""

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
    """Gives what tells whether there was a Ctrl-C.

    The first one in the block does no more than that: whoever writes into a pipe (`tcpdump`) gets it too, and ends; who
    waits at a file's end asks. A second one, or input that goes on for 2 seconds, is a KeyboardInterrupt as ever.

    wanted: without, the first one is that, too. So it is where Ctrl-C is ignored, as in background jobs.
    """
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

    alarm = signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(got)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, before)

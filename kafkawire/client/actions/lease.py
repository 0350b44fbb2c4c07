"""`Lease`: the time for which a reading may be acted on, measured with every clock of the machine.

CLOCK_MONOTONIC stands still on Linux while the machine is suspended; the wall clock goes on, but can be set. After a
process was stopped or a machine was suspended, at least one of them shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafkawire.client.errors import ClientError

#: Seconds from the start of the reading to the moment at which the request is given to the system.
LIMIT_S = 1.0


def _clocks() -> tuple[Callable[[], float], ...]:
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux: monotonic, and counts while the machine is suspended
    return time.monotonic, time.time, *((lambda: time.clock_gettime(boot),) if boot is not None else ())


#: Monotonic and wall clock, and where there is one the clock since the start of the machine; seconds.
CLOCKS = _clocks()


class JudgeAgain(ClientError):
    """Nothing was carried out: what it rests on could not be read again in time, or its broker changed. It may be
    judged again from the start."""


class Lease:
    """The time for which a reading may be acted on; it begins now."""

    def __init__(self) -> None:
        self._began = [clock() for clock in CLOCKS]

    @property
    def age_s(self) -> float:
        """Seconds since the start of the reading, by the clock that advanced the most. A clock that was set back counts
        as well."""
        return max(abs(clock() - began) for clock, began in zip(CLOCKS, self._began, strict=True))

    @property
    def left_s(self) -> float:
        """Seconds that are left; a millisecond at least, so that what waits fails with its own reason."""
        return max(0.001, LIMIT_S - self.age_s)

    def check(self) -> None:
        """Raises JudgeAgain where the limit is over."""
        age = self.age_s
        if age > LIMIT_S:
            raise JudgeAgain(f"{age:.3g} s passed since what it rests on was read again, and {LIMIT_S:.3g} s may")

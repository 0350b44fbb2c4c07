"""Reports of a command's waits on standard error: on a terminal one line that is redrawn, elsewhere one line per wait.

Short waits are not reported.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

import typer

from kafkawire.cli.formatting import and_more, counted, printable

if TYPE_CHECKING:
    from kafkawire.client.cluster.current_waits import CurrentWait, CurrentWaits

#: Seconds after which a wait is reported.
AFTER_S = 1.5
_TICK_S = 0.5
#: Waits that are remembered as reported.
_MOST = 10_000


class Counting:
    """How many partitions, or bytes, were read, and of how many."""

    def __init__(self, noun: str = "partition") -> None:
        self.noun = noun
        self.done = self.total = 0

    def advance(self, done: int, total: int) -> None:
        """`done` more were read."""
        self.done, self.total = self.done + done, total


class Reporter:
    """Reports waits on a stream, by default standard error."""

    def __init__(self, waits: CurrentWaits, counting: Counting | None = None, stream: TextIO | None = None) -> None:
        self._waits = waits
        self._counting = counting or Counting()
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False
        self._reported: dict[str, None] = {}
        waits.ended = self._ended

    def look(self) -> None:
        """Reports the waits that have lasted too long."""
        long = self._long()
        if self._terminal:
            self._draw(long)
            return
        for wait in long:
            if wait.subject not in self._reported:
                self._reported[wait.subject] = None
                typer.echo(f"note: {note_of(wait)}", self._stream)
        while len(self._reported) > _MOST:
            del self._reported[next(iter(self._reported))]

    def clear(self) -> None:
        """Removes the line from a terminal."""
        if self._shown:
            self._shown = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _long(self) -> list[CurrentWait]:
        return [wait for wait in self._waits.now if wait.elapsed_s >= AFTER_S]

    def _ended(self, wait: CurrentWait) -> None:
        if wait.elapsed_s < AFTER_S:  # it is fast again: the next long wait is reported
            self._reported.pop(wait.subject, None)
        if self._shown and not self._long():
            self.clear()

    def _draw(self, long: list[CurrentWait]) -> None:
        parts = []
        if self._counting.done < self._counting.total:
            parts.append(f"{self._counting.done:,} of {counted(self._counting.total, self._counting.noun)}")
        if long:
            lasted, limit, text = long[0].elapsed_s, long[0].limit_s, printable(long[0].text)
            parts.append(f"waiting {lasted:.0f} s of {limit:.3g} s: {text}{and_more(len(long))}")
        if not parts:
            self.clear()
            return
        width = max(20, shutil.get_terminal_size().columns - 1)
        self._stream.write("\r\x1b[K" + "; ".join(parts)[:width])
        self._stream.flush()
        self._shown = True


def note_of(wait: CurrentWait) -> str:
    """A wait as a sentence for a log: since when, until when at most, and for what."""
    from kafkawire.transactions.formatting import when

    return f"waiting since {when(wait.began_ms)}, for {wait.limit_s:.3g} s at most: {printable(wait.text)}"


@asynccontextmanager
async def reported(waits: CurrentWaits, counting: Counting | None = None) -> AsyncIterator[None]:
    """Reports what the body waits for."""
    import asyncio

    reporter = Reporter(waits, counting)

    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            reporter.look()

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        waits.ended = None
        ticking.cancel()
        reporter.clear()

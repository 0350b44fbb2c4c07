"""Exit codes of commands that read: 0 where all was read, 4 where some was damaged, 1 where nothing could be read."""

from __future__ import annotations

import typer

from kafkawire.cli.arguments import InputError
from kafkawire.cli.formatting import brief

#: Exit codes, beside 0: something was found; not everything could be read, or judged; both.
FOUND, INCOMPLETE, FOUND_INCOMPLETE = 3, 4, 5


class ReadOutcome:
    """Counts what was read and what was not. A command calls `read` and `problem` as it goes, and `end` at last."""

    def __init__(self) -> None:
        self._read = False
        self._problems = 0
        self._first = ""

    def problem(self, text: str) -> None:
        """Records that something could not be read. `text`: where, and why."""
        self._first = self._first or text
        self._problems += 1

    def read(self) -> None:
        """Records that something could be read."""
        self._read = True

    def end(self) -> None:
        """Raises the command's exit; returns where all was read."""
        if not self._problems:
            return
        more = f" (and {self._problems - 1} more)" if self._problems > 1 else ""
        if not self._read:
            raise InputError(self._first + more)
        typer.echo(f"incomplete: {brief(self._first)}{more}", err=True)
        raise typer.Exit(INCOMPLETE)

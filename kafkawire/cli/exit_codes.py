"""Exit codes of commands that read: 0 where all was read, 4 where some was damaged, 1 where nothing could be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import typer

from kafkawire import rows
from kafkawire.cli.arguments import InputError
from kafkawire.cli.formatting import and_more, brief
from kafkawire.cli.notes import print_note
from kafkawire.records.damage import UNKNOWN_OUTCOME

if TYPE_CHECKING:
    from kafkawire.logdir import LogDirectory

    Made = TypeVar("Made")

#: Exit codes, beside 0: something was found; not everything could be read, or judged; both.
FOUND, INCOMPLETE, FOUND_INCOMPLETE = 3, 4, 5


def end(outcome: rows.Outcome) -> None:
    """Raises the exit of a command that judges what it reads."""
    if not outcome.complete:
        _note_incomplete(outcome.missing[0], len(outcome.missing))
    if outcome.found:
        raise typer.Exit(FOUND if outcome.complete else FOUND_INCOMPLETE)
    if not outcome.complete:
        raise typer.Exit(INCOMPLETE)


def _note_incomplete(first: str, count: int) -> None:
    print_note("incomplete", f"{brief(first)}{and_more(count)}")


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

    def counted(self, directory: LogDirectory, found: Iterator[Made]) -> Iterator[Made | rows.DamageRow]:
        """The rows of a log directory, which are recorded; those of what could not be listed come first."""
        for unreadable in directory.unreadable:
            self.problem(f"{unreadable.path}: {unreadable.reason}")
            yield rows.DamageRow(file=unreadable.path, reason="unreadable", detail=unreadable.reason)
        for row in found:
            if not isinstance(row, rows.DamageRow):
                if not isinstance(row, rows.Stats) or row.batches:
                    self.read()
            elif not row.harmless:
                place = "" if row.position is None else f"at byte {row.position}: "
                self.problem(f"{row.file}: {place}{row.detail or row.reason}")
                if row.reason == UNKNOWN_OUTCOME:
                    self.read()
            yield row

    def end(self) -> None:
        """Raises the command's exit; returns where all was read."""
        if not self._problems:
            return
        if not self._read:
            raise InputError(self._first + and_more(self._problems))
        _note_incomplete(self._first, self._problems)
        raise typer.Exit(INCOMPLETE)

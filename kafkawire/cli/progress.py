"""Progress bars on standard error, where that is a terminal and nothing else is written to it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from kafkawire.cli.formatting import printable
from kafkawire.cli.notes import print_note

Advance = Callable[[int], None]


class Sized(Protocol):
    """A file; its size is an OSError where it cannot be looked at."""

    @property
    def size(self) -> int: ...


def watched(output: str | None) -> bool:
    """Whether a bar can be shown: standard error is a terminal, and the rows go elsewhere."""
    return sys.stderr.isatty() and (output not in (None, "-") or not sys.stdout.isatty())


def total_size(files: Iterable[Sized]) -> int:
    """Bytes of files. Those without access count as 0, and fail when they are read."""
    total = 0
    for file in files:
        try:
            total += file.size
        except OSError:
            continue
    return total


@contextmanager
def progress(total: int, *, shown: bool) -> Iterator[Advance]:
    """Yields a function to call with the number of bytes that were read, out of `total`."""
    if not shown:
        yield lambda done: None
        return
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    with _bar(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, advance=done)


@contextmanager
def tasks(*, shown: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yields a function that shows a job's description, the number of its finished tasks and of all its tasks; None if
    not `shown`."""
    if not shown:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    with _bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("Spark starts", total=None)
        yield lambda description, done, total: bar.update(task, description=description, completed=done, total=total)


@contextmanager
def spark_tasks() -> Iterator[Callable[[str, int, int], None] | None]:
    """The progress of Spark's tasks, shown on a terminal. Warnings about workers are printed at the end."""
    with warnings.catch_warnings(record=True) as caught, tasks(shown=sys.stderr.isatty()) as progress:
        warnings.simplefilter("always", RuntimeWarning)
        try:
            yield progress
        finally:
            for text in dict.fromkeys(str(one.message) for one in caught if one.category is RuntimeWarning):
                print_note("warning", printable(text))


def _bar(*columns: Any) -> Any:
    """A bar that is gone when it ends."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)

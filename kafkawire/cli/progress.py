"""A progress bar on standard error, where somebody watches it and nothing else is written to the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


def watched(output: str | None) -> bool:
    """Whether a bar disturbs nothing: it is seen, and the rows go elsewhere."""
    return sys.stderr.isatty() and (output not in (None, "-") or not sys.stdout.isatty())


@contextmanager
def progress(total: int, *, shown: bool) -> Iterator[Advance]:
    """Calls the body with a function that is told of bytes that were read, of `total`."""
    if not shown:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, advance=done)

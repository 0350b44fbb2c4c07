"""Lines on standard error: `note:`, `warning:`, `incomplete:` and `error:`, wrapped to the width of a terminal."""

from __future__ import annotations

import shutil
import sys

from kafkawire.cli.formatting import wrapped


def print_note(kind: str, text: str) -> None:
    """Prints a line. Untrusted text in it has to be made harmless before (`printable`, `brief`).

    Args:
        kind: the word before the colon.
        text: one sentence or several. On a terminal it is wrapped and indented below its first word; a command stays on
            one line.
    """
    line = f"{kind}: {text}"
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else len(line)
    for part in wrapped(line, width):
        print(part, file=sys.stderr, flush=True)

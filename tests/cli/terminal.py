"""Command lines on a real terminal (a pseudo-terminal), as users see them."""

from __future__ import annotations

import array
import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

COMMAND = [sys.executable, "-m", "kafkawire"]
#: What parts the output of one command line from the next.
_PARTED = "\x1e\n"
_MANY = f"""
import json, sys
from kafkawire.cli import main
for arguments in json.load(open(sys.argv[1])):
    main(arguments)
    sys.stdout.flush()
    print({_PARTED!r}, end="", flush=True)
"""


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What the command writes on a terminal of 80 columns."""
    return _shown([*COMMAND, *arguments], 80, environment)


def many_on_a_terminal(lines: Sequence[Sequence[str]], folder: Path, *, columns: int) -> list[str]:
    """What each of several command lines writes there, one after the other in one process. `folder`: for a file."""
    script = folder / "lines.json"
    script.write_text(json.dumps(lines))
    *shown, last = _shown([sys.executable, "-c", _MANY, str(script)], columns, {}).split(_PARTED)
    assert last == ""
    assert len(shown) == len(lines)
    return shown


def _shown(command: list[str], columns: int, environment: dict[str, str]) -> str:
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, array.array("H", [24, columns, 0, 0]))
    env = {**os.environ, "TERM": "xterm", **environment}
    env.pop("COLUMNS", None)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env=env)
    os.close(writer)
    chunks = []
    try:
        while chunk := os.read(reader, 65536):
            chunks.append(chunk)
    except OSError:
        pass  # the error of a terminal whose other side is closed
    os.close(reader)
    process.wait(60)
    return b"".join(chunks).decode(environment.get("PYTHONIOENCODING", "utf-8")).replace("\r\n", "\n")

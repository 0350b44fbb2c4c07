"""Golden files: what a reader sees, kept in `tests/golden/`. `UPDATE_GOLDEN=1 pytest ...` writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"
_HEADING = re.compile(r"^=== (.+) ===\n", re.MULTILINE)


def check(name: str, text: str, part: str | None = None) -> None:
    """Asserts that `text` is what the golden file `name` holds.

    Args:
        part: heading of the part of the file that holds the text: similar texts, as of several formats, share a file.
    """
    path = FOLDER / name
    parts = _parts(path) if part is not None else {}
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if part is not None:
            parts[part] = text
        whole = "".join(f"=== {heading} ===\n{held}" for heading, held in parts.items()) or text
        path.write_text(whole, "utf-8")
    assert path.is_file(), f"{path} is missing: run with UPDATE_GOLDEN=1 and review what it writes"
    assert text == (path.read_text("utf-8") if part is None else parts.get(part))


def _parts(path: Path) -> dict[str, str]:
    """The parts of a file, by heading."""
    _, *found = _HEADING.split(path.read_text("utf-8")) if path.is_file() else [""]
    return dict(zip(found[::2], found[1::2], strict=True))

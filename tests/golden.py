"""Golden files: what a reader sees, kept in `tests/golden/`. `UPDATE_GOLDEN=1 pytest ...` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check(name: str, text: str) -> None:
    """Asserts that `text` is what the golden file `name` holds."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert path.is_file(), f"{path} is missing: run with UPDATE_GOLDEN=1 and review what it writes"
    assert text == path.read_text("utf-8")

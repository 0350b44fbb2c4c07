"""Files that an input becomes: whoever reads them wants a path."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path


@cache
def _held() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kafkawire-fuzz-")


def folder(name: str) -> Path:
    """A folder that is there until the process ends."""
    path = Path(_held().name) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def written(name: str, files: Iterable[tuple[str, bytes]]) -> Path:
    """A folder with these files, by relative path, and nothing else; what comes twice is one behind the other."""
    root = folder(name)
    shutil.rmtree(root)
    root.mkdir()
    for relative, data in files:
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
    return root

"""Inputs as files, for functions that take a path."""

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
    """A folder that is deleted when the process ends."""
    path = Path(_held().name) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def written(name: str, files: Iterable[tuple[str, bytes]]) -> Path:
    """A folder with exactly these files, by relative path. Contents of the same path are concatenated."""
    root = folder(name)
    shutil.rmtree(root)
    root.mkdir()
    for relative, data in files:
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
    return root

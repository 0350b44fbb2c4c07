"""Folders that are made once and kept: of jars, classes, unpacked recordings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path


def kept(folder: Path, fill: Callable[[Path], None]) -> Path:
    """The folder, made if it is not there. It is complete or absent, whichever processes make it at the same time.

    Args:
        fill: called with an empty folder, whose content becomes that of `folder`.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        made = Path(scratch) / folder.name
        made.mkdir()
        fill(made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process was faster: its folder is as good
                raise
    return folder

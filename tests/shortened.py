"""Files that become shorter between being opened and being read, as a follower's logs do."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

import pytest

from kafkawire.logdir import located_file
from kafkawire.records import Memory


class Shrinking(Memory):
    """A source that lost what is behind `cut` after its size was read."""

    def __init__(self, data: bytes, cut: int) -> None:
        super().__init__(data[:cut])
        self.size = len(data)


def cut_when_read(monkeypatch: pytest.MonkeyPatch, path: Path, size: int) -> None:
    """Makes the first read of the file at `path` cut it to `size` bytes."""

    class Cutting(FileIO):
        def read(self, wanted: int | None = -1, /) -> bytes:
            self._cut()
            return super().read(wanted) or b""

        def fileno(self) -> int:
            """The engine reads next."""
            self._cut()
            return super().fileno()

        def _cut(self) -> None:
            if os.path.samefile(str(self.name), path) and path.stat().st_size > size:
                os.truncate(path, size)

    monkeypatch.setattr(located_file, "open_file", Cutting)

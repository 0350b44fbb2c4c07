"""Archives of loaded classes (JEP 350): a JVM that maps one needs two thirds of the processor time until it serves.

An archive belongs to one `java`, one folder of jars and one program, and lies beside that folder. A JVM writes it when
it ends by itself; a JVM checks it against its own version and the jars, and starts without it where they differ.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path


class ClassArchive:
    """The archive of a program's classes, whether it exists or not yet.

    Args:
        java: The path of the `java` that maps it. `jars`: the folder that is the class path. `main`: the main class.
    """

    def __init__(self, java: str, jars: Path, main: str) -> None:
        binary = os.path.realpath(java)
        digest = hashlib.sha256(f"{binary} {os.stat(binary).st_mtime_ns}".encode()).hexdigest()[:8]
        self._path = jars.with_name(f"{jars.name}-{main}-{digest}.jsa")

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def options(self, part: Path | None = None) -> list[str]:
        """Options of a JVM: to map the archive, or where there is none yet to write one to `part`, for `keep`."""
        if self.exists:
            return [f"-XX:SharedArchiveFile={self._path}", "-Xlog:disable"]
        return [] if part is None else [f"-XX:ArchiveClassesAtExit={part}", "-Xlog:disable"]

    def keep(self, part: Path) -> None:
        """Move what a JVM, which has ended, wrote to `part`, to its place."""
        if part.exists() and not self.exists:
            with tempfile.TemporaryDirectory(dir=self._path.parent) as folder:
                copy = Path(folder) / part.name
                shutil.copyfile(part, copy)
                copy.replace(self._path)  # the archive is complete or absent
        part.unlink(missing_ok=True)

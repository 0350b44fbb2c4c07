"""What spares a cluster's JVMs time: formatted log directories, and archives of loaded classes (JEP 350).

Formatted log directories are copies of what Kafka's storage tool wrote once, which spares a JVM for each node. What the
tool writes depends on the release and the features. The ids in meta.properties alone are a node's own.

A JVM that maps an archive needs two thirds of the processor time until it serves. An archive belongs to one `java`, one
folder of jars and one program, and lies beside that folder. A JVM writes it when it ends by itself; a JVM checks it
against its own version and the jars, and starts without it where they differ.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from tools.kept_folder import kept

#: Broker properties that decide what the storage tool writes, or where.
_OF_STORAGE = frozenset(
    {
        "inter.broker.protocol.version",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "unstable.feature.versions.enable",
    }
)
_META = "meta.properties"


class StorageTemplate:
    """The log directory of a formatted node, whether it is kept already or not.

    Args:
        jars: the broker's; the template lies beside that folder. `feature_levels`: as given to the storage tool.
    """

    def __init__(self, jars: Path, feature_levels: Mapping[str, int]) -> None:
        digest = hashlib.sha256(repr(sorted(feature_levels.items())).encode()).hexdigest()[:8]
        self._folder = jars.with_name(f"{jars.name}-storage-{digest}")

    @staticmethod
    def fits(config: Mapping[str, object]) -> bool:
        """Whether nodes with this configuration can be formatted by a copy."""
        return _OF_STORAGE.isdisjoint(config)

    @property
    def exists(self) -> bool:
        return self._folder.is_dir()

    def keep(self, log_dir: Path) -> None:
        """Copies the log directory of a node that was formatted and has not been started yet."""

        def fill(folder: Path) -> None:
            shutil.copytree(log_dir, folder, dirs_exist_ok=True)

        kept(self._folder, fill)

    def copy(self, log_dir: Path, *, node_id: int, cluster_id: str) -> None:
        """Makes the log directory of a node."""
        shutil.copytree(self._folder, log_dir)
        own = {"node.id": str(node_id), "cluster.id": cluster_id, "directory.id": random_uuid()}
        meta = log_dir / _META
        lines = meta.read_text(encoding="ascii").splitlines()
        names = (line.partition("=")[0] for line in lines)
        changed = [f"{name}={own[name]}" if name in own else line for name, line in zip(names, lines, strict=True)]
        meta.write_text("".join(f"{line}\n" for line in changed), encoding="ascii")


def random_uuid() -> str:
    """A Kafka Uuid in its base64url form; never with a "-" in front, which the storage tool takes for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


# Archives of classes --------------------------------------------------------------------------------------------------


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

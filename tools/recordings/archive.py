"""One folder as one file, and back: the same folder always gives the same bytes."""

from __future__ import annotations

import hashlib
import lzma
import shutil
import tarfile
from functools import partial
from io import BytesIO
from pathlib import Path

from tools.kept_folder import kept

#: The end of an archive's name: a tar file, compressed with LZMA.
SUFFIX = ".tar.xz"

#: The recordings that are one broker's log directory, each of another release.
LOG_DIRECTORIES = ("kafka-2.8.2", "kafka-3.9.1", "kafka-4.4.0-running")

ROOT = Path(__file__).parents[2]
#: The archives that are committed.
ARCHIVES = ROOT / "tests" / "recordings"
#: Where they are unpacked, each in a folder named after its content.
_UNPACKED = ROOT / "build" / "recordings"


def pack(folder: Path, archive: Path) -> None:
    """Writes all files of `folder` into `archive`, without owners, modes and times.

    Args:
        folder: a folder of regular files and folders.
        archive: the file to write; one that exists is replaced.
    """
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                member = tarfile.TarInfo(path.relative_to(folder).as_posix())
                member.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(member, file)
            elif not any(path.iterdir()):
                member = tarfile.TarInfo(path.relative_to(folder).as_posix())
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(lzma.compress(packed.getvalue(), preset=9))


def unpack(archive: Path, folder: Path) -> None:
    """Writes the files of `archive` below `folder`.

    Raises:
        tarfile.FilterError: a member's path or type leads out of `folder`.
    """
    with tarfile.open(archive, mode="r:xz") as tar:
        tar.extractall(folder, filter="data")


def unpacked(name: str) -> Path:
    """The folder with the files of the committed archive `name`, unpacked once for all processes. Read only.

    Args:
        name: the archive's name without its suffix, such as "kafka-2.8.2".
    """
    archive = ARCHIVES / (name + SUFFIX)
    return kept(_folder_of(archive) / name, partial(unpack, archive))


def _folder_of(archive: Path) -> Path:
    return _UNPACKED / hashlib.sha256(archive.read_bytes()).hexdigest()[:16]


def replace(name: str, folder: Path) -> Path:
    """Makes the committed archive `name` anew from `folder`; returns the archive's path."""
    archive = ARCHIVES / (name + SUFFIX)
    if archive.exists():
        shutil.rmtree(_folder_of(archive), ignore_errors=True)
    pack(folder, archive)
    return archive

"""The folders below a path of this machine, also those that links lead to; broken links are reported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kafkawire.logdir.file_names import file_name, partition_name


class Unreadable(msgspec.Struct, frozen=True):
    """A path that could not be examined, and why."""

    path: str
    reason: str


class Listing(NamedTuple):
    """The files in a folder, by name."""

    path: str
    files: list[os.DirEntry[str]]


class Links:
    """Which links to folders are followed below a path: each target once, and none that leads back.

    What lies below the path is listed there. Only under the name of a partition it is followed as well: it is a
    partition of the log directory that the link is in. `top`: the path."""

    def __init__(self, top: str) -> None:
        self._top = os.path.realpath(top)
        self._followed: set[str] = set()

    def follows(self, path: str) -> bool:
        """Whether to list the folder that a link leads to, now."""
        target = os.path.realpath(path)
        here = os.path.realpath(os.path.dirname(path))
        listed = _within(target, self._top) and partition_name(os.path.basename(path)) is None
        if listed or target in self._followed or _within(here, target):
            return False
        self._followed.add(target)
        return True

    def folders(self, folders: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
        """The folders in a folder that are listed, too."""
        return [entry for entry in folders if not entry.is_symlink() or self.follows(entry.path)]


def listings(path: str, links: Links, *, deep: bool = True) -> Iterator[Listing | Unreadable]:
    """The files in a folder, then those in the folders below, by name. `links`: those that are followed; the object
    must be used once. `deep`: with the folders below."""
    waiting = [path]
    while waiting:
        path = waiting.pop()
        try:
            files, folders = scanned(path)
        except OSError as error:
            yield Unreadable(path, error.strerror or str(error))
            continue
        if files:
            yield Listing(path, files)
        elif not folders and partition_name(os.path.basename(path)) is not None:
            yield Unreadable(path, "it is empty, and its name is a partition's")
        yield from (Unreadable(entry.path, "a link to what is not there") for entry in files if _leads_nowhere(entry))
        if deep:
            waiting += (entry.path for entry in reversed(links.folders(folders)))


def scanned(path: str) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """The files in a folder, and the folders in it, by name. A link to a folder is a folder. Raises OSError: it is not
    there or may not be read."""
    with os.scandir(path) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    kinds = [(entry, _is_folder(entry)) for entry in found]
    return [entry for entry, folder in kinds if not folder], [entry for entry, folder in kinds if folder]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a broken link. One under the name of a log's file is read, and that reports it."""
    return entry.is_symlink() and file_name(entry.name) is None and not os.path.exists(entry.path)


def _within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)

"""Copies of log directories, file by file, in an order of names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

from tools.broker import RunningCluster
from tools.recordings.log_directories import copy_file

#: Bytes that are kept of the metadata log's indexes, which are preallocated: a multiple of the sizes of all entries.
_METADATA_INDEX_BYTES = 2040
#: Files of a running copy between two steps of clients.
_FILES_A_STEP = 4

T = TypeVar("T")


def copy_all(
    running: RunningCluster, target: Path, *, backwards: bool = False, step: Callable[[], None] | None = None
) -> None:
    """Copies the log directories of all nodes to `target/node-1`, ..., of several disks to `target/node-1/data`, ...

    Args:
        target: is made. `backwards`: the last name first. `step`: is called after every few files.
    """
    files = count(1)
    for node in _ordered(running.every_node, backwards):
        for disk in _ordered(node.log_dirs, backwards):
            to = target / f"node-{node.node_id}"
            to = to if len(node.log_dirs) == 1 else to / disk.name
            to.mkdir(parents=True)
            for source in _files(disk, backwards):
                file = to / source.relative_to(disk)
                file.parent.mkdir(exist_ok=True)
                copy_file(source, file, _METADATA_INDEX_BYTES)
                if step and not next(files) % _FILES_A_STEP:
                    step()


def _files(disk: Path, backwards: bool) -> Iterator[Path]:
    """The files of a log directory, each folder listed when its turn comes."""
    for path in _ordered(sorted(disk.iterdir()), backwards):
        if not path.is_dir():
            if path.name != ".lock":
                yield path
        elif path.exists():
            yield from _ordered(sorted(path.iterdir()), backwards)


def _ordered(items: Sequence[T], backwards: bool) -> list[T]:
    return list(reversed(items)) if backwards else list(items)

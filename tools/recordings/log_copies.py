"""Copies of brokers' log directories: whole or of some topics, with what brokers derive from a log or without it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from tools.broker import RunningCluster

#: What brokers derive from a log, but for transaction indexes; and what they are about to delete.
_DERIVED = ("*.index", "*.timeindex", "*.deleted", ".lock")
#: Bytes that are kept of the metadata log's indexes, which have 10 MiB of zeros: a multiple of the entries' sizes.
_METADATA_INDEX_BYTES = 2040
#: Files of a running copy between two steps of clients.
_FILES_A_STEP = 4

T = TypeVar("T")


def copy_logs(log_dir: Path, to: Path, topics: Iterable[str], *files: str) -> None:
    """Copies the partitions of topics, without indexes of offsets and times, and files of the log directory itself.

    Args:
        to: is made. `topics`: those that are not there are left out. `files`: patterns;
            by default checkpoints, and who the broker is.
    """
    to.mkdir(parents=True)
    for path in {path for pattern in files or ("meta.properties", "*-checkpoint") for path in log_dir.glob(pattern)}:
        if path.is_file() and path.name != ".lock":
            shutil.copy(path, to / path.name)
    names = frozenset(topics)
    for path in log_dir.iterdir():
        name, _, number = path.name.rpartition("-")
        if path.is_dir() and name in names and number.isdecimal():
            copy_without_indexes(path, to / path.name)


def copy_without_indexes(log_dir: Path, to: Path) -> None:
    """Copies a log directory, or a partition of one, without indexes of offsets and times."""
    shutil.copytree(log_dir, to, ignore=shutil.ignore_patterns(*_DERIVED))


def copy_log_directory(log_dir: Path, to: Path, metadata_index_bytes: int = _METADATA_INDEX_BYTES) -> None:
    """Copies as an operator would; files that disappear during the copy are skipped.

    Args:
        metadata_index_bytes: as of `copy_file`.
    """

    def copy(source: str, target: str) -> None:
        copy_file(Path(source), Path(target), metadata_index_bytes)

    shutil.copytree(log_dir, to, copy_function=copy, ignore=shutil.ignore_patterns(".lock"))


def copy_file(source: Path, target: Path, metadata_index_bytes: int = _METADATA_INDEX_BYTES) -> None:
    """Copies a file as long as it is now, unless it has disappeared.

    Args:
        metadata_index_bytes: of an index of the metadata log its entries are kept, and at least so many bytes. A clean
            stop cuts the zeros after the entries off every index but those.
    """
    try:
        size = source.stat().st_size
        if source.parent.name.startswith("__cluster_metadata") and source.name.endswith("index"):
            entry = 12 if source.suffix == ".timeindex" else 8
            used = -(-len(source.read_bytes().rstrip(b"\0")) // entry) * entry
            size = min(size, max(metadata_index_bytes, used))
        with source.open("rb") as read:
            data = read.read(size)
    except FileNotFoundError:
        return
    target.write_bytes(data)


def copy_all(
    running: RunningCluster, target: Path, *, backwards: bool = False, step: Callable[[], None] | None = None
) -> None:
    """Copies the log directories of all nodes to `target/node-1`, ..., of several disks to `target/node-1/data`, ...

    Args:
        target: is made. `backwards`: the last name first. `step`: is called after every few files.
    """
    ordered, files = partial(_ordered, backwards), count(1)
    for node in ordered(running.every_node):
        for disk in ordered(node.log_dirs):
            to = target / f"node-{node.node_id}"
            to = to if len(node.log_dirs) == 1 else to / disk.name
            to.mkdir(parents=True)
            for source in _files(disk, backwards):
                file = to / source.relative_to(disk)
                file.parent.mkdir(exist_ok=True)
                copy_file(source, file)
                if step and not next(files) % _FILES_A_STEP:
                    step()


def _files(disk: Path, backwards: bool) -> Iterator[Path]:
    """The files of a log directory, each folder listed when its turn comes."""
    for path in _ordered(backwards, sorted(disk.iterdir())):
        if not path.is_dir():
            if path.name != ".lock":
                yield path
        elif path.exists():
            yield from _ordered(backwards, sorted(path.iterdir()))


def _ordered(backwards: bool, items: Sequence[T]) -> Sequence[T]:
    return items[::-1] if backwards else items

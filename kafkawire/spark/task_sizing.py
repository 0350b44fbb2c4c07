"""Spark tasks: their number follows from the bytes, each gets about as many bytes, and reads its rows (`by_task`) or
batches (`by_batches`)."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

T = TypeVar("T")

#: Rows of a task, one after another.
Rows = Iterator[dict[str, Any]]

#: Bytes that are worth a task of their own.
TASK_BYTES = 32 << 20
FEWEST_TASKS = 4


def split_into_tasks(items: Sequence[T], size: Callable[[T], int]) -> list[list[T]]:
    """Divide items into tasks of similar size. The largest items are spread over all tasks; no task is empty.

    Args:
        items: the work.
        size: bytes of an item.
    """
    sizes = [size(item) for item in items]
    shares = min(len(items), max(FEWEST_TASKS, sum(sizes) // TASK_BYTES))
    order = sorted(range(len(items)), key=lambda i: sizes[i], reverse=True)
    return [[items[i] for i in order[share::shares]] for share in range(shares)]


@contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    """Work where the driver was started, which paths count from: a cluster's workers are in folders of their own. Where
    there is no such folder, only absolute paths can be right."""
    if os.path.isdir(folder):
        with chdir(folder):
            yield
    else:
        yield


@cache
def keep_imports() -> None:
    """Exempt what is imported by now from garbage collection, once in a process. Spark's worker collects all objects
    after each task, which takes as long as a small task does. At the end of the first task all modules are imported."""
    gc.collect()
    gc.freeze()


def by_batches(
    frame: DataFrame, read: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """A table that tasks compute from record batches, in the folder that relative paths count from.

    Args:
        frame: the rows that tasks get. `read`: yields the batches for those of a task; their schema is `schema`.
    """
    folder = os.getcwd()

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _in_folder(folder):
            yield from read(batches)
        keep_imports()

    return frame.mapInArrow(of_task, schema)


def by_task(frame: DataFrame, read: Callable[[Rows], Iterable[pa.RecordBatch]], schema: StructType | str) -> DataFrame:
    """As `by_batches`, of rows.

    Args:
        frame: the rows that tasks get. `read`: yields the batches for those of a task; their schema is `schema`.
    """
    return by_batches(frame, lambda batches: read(row for batch in batches for row in batch.to_pylist()), schema)

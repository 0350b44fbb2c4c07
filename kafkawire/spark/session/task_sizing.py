"""Spark tasks: their number follows from the bytes and the files, each gets about as many, and reads its rows
(`by_task`) or batches (`by_batches`).

    work = bytes + files * OPEN_COST
    tasks = min(most, max(min(4, 1 + work / SMALL_BYTES), work / TASK_BYTES))

Of a shuffle between `tasks` and `reducers`, Spark's index files have `8 * tasks * reducers` bytes: both have a most,
which two settings of a session change.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafkawire._java_numbers import INT32, whole_number

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")

#: Rows of a task, one after another.
Rows = Iterator[dict[str, Any]]

#: Bytes that are worth a task of their own.
TASK_BYTES = 32 << 20
FEWEST_TASKS = 4
#: Of so few bytes one task is made: to start one takes as much time as to read them.
SMALL_BYTES = 8 << 20
#: What a file costs, besides its bytes, as bytes: to open it, to look for where it begins.
OPEN_COST = 1 << 20
#: The most tasks that read, and that take what others read, by default; and the settings of a session.
MOST_TASKS, MOST_REDUCERS = 40_000, 8_000
#: The most tasks that plan what others read.
MOST_PLANNERS = 1_000
_SETTINGS = ("spark.kafkawire.maxTasks", "spark.kafkawire.maxReducers")


class TaskLimits(NamedTuple):
    """The most tasks that read, and that take what others read."""

    tasks: int = MOST_TASKS
    reducers: int = MOST_REDUCERS

    @classmethod
    def of(cls, spark: SparkSession) -> TaskLimits:
        """The limits that a session has set.

        Raises:
            ValueError: a setting that is no positive number.
        """
        found = []
        for name, default in zip(_SETTINGS, cls(), strict=True):
            text = spark.conf.get(name, str(default)) or ""
            number = whole_number(text, INT32)
            if number is None or number < 1:
                raise ValueError(f"{name} is a positive number, not {text[:50]!r}")
            found.append(number)
        return cls(*found)


def tasks_for(size: int, files: int, most: int) -> int:
    """The number of tasks that read.

    Args:
        size, files: how many bytes, in how many files. `most`: tasks.
    """
    work = size + files * OPEN_COST
    return max(1, min(most, max(at_least(work, SMALL_BYTES), work // TASK_BYTES)))


def at_least(work: int, small: int) -> int:
    """The number of tasks among which even little work is divided.

    Args:
        small: so much is done by one.
    """
    return min(FEWEST_TASKS, 1 + work // small)


def split_into_tasks(
    items: Sequence[T], size: Callable[[T], int], *, least: int = FEWEST_TASKS, most: int = MOST_TASKS
) -> list[list[T]]:
    """Divide items into tasks of similar size. The largest items are spread over all tasks; no task is empty.

    Args:
        items: the work.
        size: bytes of an item.
        least, most: number of tasks, where there are as many items.
    """
    sizes = [size(item) + OPEN_COST for item in items]
    shares = min(len(items), max(least, tasks_for(sum(sizes), 0, most)))
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
    """A table that tasks compute from rows, in the folder that relative paths count from.

    Args:
        frame: the rows that tasks get. `read`: yields the batches for those of a task; their schema is `schema`.
    """
    return by_batches(frame, lambda batches: read(row for batch in batches for row in batch.to_pylist()), schema)

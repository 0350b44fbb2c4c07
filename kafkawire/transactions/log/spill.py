"""`Spill`: packed rows by producer id, in a temporary file where they are too many for memory."""

from __future__ import annotations

import os
import tempfile
from threading import Lock
from types import TracebackType
from typing import IO, NamedTuple, Self

import numpy as np
import numpy.typing as npt

#: Groups of producer ids. One of them is in memory when rows are read again.
GROUPS = 64
#: Bytes of rows that are in memory, of all replicas, before some are written.
MOST_BYTES = 512 << 20

Packed = npt.NDArray[np.void]


class Groups:
    """Rows in groups by their producer ids: each group has all rows of its ids, in their order. They are sorted once,
    not looked through for each group.

    Args:
        count: number of groups, at most 2^16.
    """

    __slots__ = ("_order", "bounds")

    def __init__(self, producer_ids: npt.NDArray[np.int64], count: int) -> None:
        groups = (producer_ids % count).astype(np.uint16)
        self._order = np.argsort(groups, kind="stable").astype(np.int32)
        self.bounds = np.cumsum(np.append(0, np.bincount(groups, minlength=count)))

    def take(self, rows: Packed, number: int) -> Packed:
        """The rows of a group, out of all. Of packed rows `take` needs a third of the time of an index."""
        return rows.take(self._order[self.bounds[number] : self.bounds[number + 1]])

    def ordered(self, rows: Packed) -> Packed:
        """All rows, group by group."""
        return rows.take(self._order)


class Block(NamedTuple):
    """Rows that were written.

    Attributes:
        start: position in the file. `bounds`: of each group the first row, and the number of all.
    """

    spill: Spill
    start: int
    bounds: npt.NDArray[np.int64]
    kind: np.dtype[np.void]

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def group(self, number: int) -> Packed:
        """The rows of one group (`Groups`)."""
        size = self.kind.itemsize
        first, end = (int(at) * size for at in self.bounds[number : number + 2])
        return np.frombuffer(self.spill.read(self.start + first, end - first), self.kind)


class Spill:
    """Counts the bytes of rows in memory. Threads may share it. The file is removed at the end of the block.

    Where the file cannot be written, as the disk is full, rows stay in memory.

    Args:
        most_bytes: as `MOST_BYTES`.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = Lock()
        self._held = self._end = 0
        self._file: IO[bytes] | None = None
        self._refused = False

    @property
    def is_full(self) -> bool:
        """Whether rows should be written now."""
        return self._held > self._most and not self._refused

    @property
    def is_used(self) -> bool:
        return self._end > 0

    def hold(self, size: int) -> None:
        """Count more bytes in memory, or less."""
        with self._lock:
            self._held += size

    def write(self, rows: Packed) -> Block | None:
        """Write rows, whose bytes are counted; None: they cannot be written."""
        groups = Groups(rows["producer_id"], GROUPS)
        data = groups.ordered(rows).view(np.uint8)
        with self._lock:
            try:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="kafkawire-")  # noqa: SIM115 (until the end of the block)
                self._file.seek(self._end)
                self._file.write(data.data)
                self._file.flush()
            except OSError:
                self._refused = True
                return None
            start = self._end
            self._end += len(data)
            self._held -= len(data)
        return Block(self, start, groups.bounds, rows.dtype)

    def read(self, position: int, size: int) -> bytes:
        """Bytes of the file.

        Raises:
            OSError: they cannot be read.
        """
        assert self._file is not None
        with self._lock:
            self._file.seek(position, os.SEEK_SET)
            data = self._file.read(size)
        if len(data) < size:
            raise OSError(f"the temporary file of ended transactions has {len(data)} bytes of {size} at {position}")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()


def of_group(chunks: list[Packed], blocks: list[Block], number: int) -> list[Packed]:
    """The rows of one group of `GROUPS`: of arrays in memory, and of those that were written."""
    in_memory = (chunk[chunk["producer_id"] % GROUPS == number] for chunk in chunks)
    return [rows for rows in (*(block.group(number) for block in blocks), *in_memory) if len(rows)]

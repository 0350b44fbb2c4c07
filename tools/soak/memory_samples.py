"""Memory, threads and open files of processes, from Linux's /proc, and lines fitted to them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from .soak_results import FLAT_BYTES, FLAT_PART, MemorySeries

_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Of a run, the part after which what a process builds up when it starts is there.
WARM_UP = 1 / 3
_LEAST = 4

#: Gives the ids of the processes that are counted as one.
Pids = Callable[[], Iterable[int]]


class Sampler:
    """Takes samples every few seconds, in a thread of its own, of the processes and folders that it was given."""

    def __init__(self, *, every_s: float) -> None:
        self._every_s = every_s
        self._begun = time.monotonic()
        self._processes: dict[str, Pids] = {}
        self._folders: dict[str, Path] = {}
        self._judged: dict[str, bool] = {}
        self._found: dict[str, list[tuple[float, float]]] = {}
        self._open: dict[str, tuple[int, int]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)

    def processes(self, name: str, pids: Pids, *, judged: bool = True) -> None:
        """Resident memory of processes, counted as one.

        Args:
            name: of the series. `pids`: called for each sample. `judged`: whether it must not grow.
        """
        self._processes[name] = pids
        self._judged[name] = judged

    def folder(self, name: str, folder: Path, *, judged: bool = True) -> None:
        """Bytes that a folder has on disk.

        Args:
            name: of the series. `judged`: whether it must not grow.
        """
        self._folders[name] = folder
        self._judged[name] = judged

    def add(self, name: str, value: float) -> None:
        """Adds a sample from elsewhere, in bytes."""
        self._found.setdefault(name, []).append((time.monotonic() - self._begun, value))

    def start(self) -> None:
        """Takes them from now on."""
        self._thread.start()

    def end(self) -> None:
        """Takes no more of them."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def series(self) -> list[MemorySeries]:
        """What was found, by name; those with too few samples for a line are left out."""
        return [
            series_of(name, points, judged=self._judged.get(name, True), threads_and_files=self._open.get(name))
            for name, points in self._found.items()
            if len(points) >= _LEAST
        ]

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            for name, pids in self._processes.items():
                self._sample(name, list(pids()))
            for name, folder in self._folders.items():
                self.add(name, on_disk(folder))

    def _sample(self, name: str, pids: list[int]) -> None:
        found = [state for pid in pids if (state := state_of(pid)) is not None]
        if found:
            memory, threads, files = (sum(values) for values in zip(*found, strict=True))
            self.add(name, memory)
            most = self._open.get(name, (0, 0))
            self._open[name] = max(most[0], threads), max(most[1], files)


def state_of(pid: int) -> tuple[int, int, int] | None:
    """Resident bytes, threads and open files of a process; None where it has ended."""
    place = Path(f"/proc/{pid}")
    try:
        resident = int((place / "statm").read_text().split()[1]) * _PAGE
        threads = len(os.listdir(place / "task"))
        return resident, threads, len(os.listdir(place / "fd"))
    except (OSError, IndexError):
        return None


def program(pid: int) -> str:
    """The name of what a process runs; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    """The processes that one has started, and those that these have."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += [int(word) for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except OSError:
        return []
    return [one for one_pid in found for one in (one_pid, *descendants(one_pid))]


def on_disk(folder: Path) -> int:
    """Bytes that the files in a folder occupy."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except OSError:
                continue  # gone since it was listed
    return total


def series_of(
    name: str,
    points: Sequence[tuple[float, float]],
    *,
    judged: bool = True,
    threads_and_files: tuple[int, int] | None = None,
) -> MemorySeries:
    """The summary of samples, each its second and its bytes: the line through those after the warm-up, by least
    squares.

    Args:
        points: seconds and bytes of each sample. `judged`: whether it must not grow.
        threads_and_files: the most of each; None where no process was sampled.
    """
    x, y = np.array(points).T
    warm = x >= x[0] + (x[-1] - x[0]) * WARM_UP
    seconds, kept = x[warm] - x[warm][0], y[warm]
    slope = float(np.polyfit(seconds, kept, 1)[0]) if len(kept) > 1 else 0.0
    rise = slope * float(seconds[-1])
    mean = float(kept.mean())
    threads, files = threads_and_files or (None, None)
    return MemorySeries(
        name=name,
        samples=len(y),
        mean=mean,
        most=float(y.max()),
        slope=slope * 60,
        rise=rise,
        flat=rise <= max(FLAT_BYTES, FLAT_PART * mean),
        judged=judged,
        threads=threads,
        files=files,
        points=tuple(points),
    )

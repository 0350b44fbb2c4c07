"""Mutated files of every kind, the properties of their rows, and a program that checks these for any number of mutants.

    python -m tests.logdir.fuzzing 50000 [SEED]

No exception, work in proportion to the bytes, positions inside of the file, and every batch outside of what was changed
is still read.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import copy
from typing import Any, NamedTuple

from kafkawire import logdir
from kafkawire.logdir import stats
from kafkawire.records import Batch
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"
#: Files that are mutated whole; a larger one costs more time and shows no more.
LARGEST = 64 << 10
#: Reading may go over a file, and over the log beside an index, so often; and what a small file costs at least.
MOST_READ, LEAST = 24, 40 << 20

_NUMBERS = [
    bytes(8), b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1",
    b"\0\0\xff\xff", b"\2", b"\1", b"\0", b"\x20", b"\x07",
]  # fmt: skip
OPTIONS = [
    logdir.Options(deep=True, payloads=True),
    logdir.Options(),
    logdir.Options(deep=True, payloads=True, metadata=False, decode_as="__consumer_offsets"),
    logdir.Options(indexes="verify"),
    logdir.Options(indexes="sanity"),
    logdir.Options(deep=True, selection=logdir.Selection(offsets=(5, 20))),
    logdir.Options(deep=True, selection=logdir.Selection(times=(1, 1 << 50), key=b"1")),
    logdir.Options(max_bytes=500),
    logdir.Options(check_crc=False),
    logdir.Options(max_batch_bytes=100),
]


class Mutated(NamedTuple):
    """Bytes of which some at the beginning and some at the end are as they were."""

    data: bytes
    head: int
    tail: int


@cache
def files_of_every_kind() -> dict[str, list[Path]]:
    """Real files, small ones, by kind: all kinds are to come up as often as the others."""
    roots = [
        *EXAMPLES.iterdir(),
        *(unpacked(name) / "data" for name in LOG_DIRECTORIES),
    ]
    found: dict[str, list[Path]] = {}
    for file in logdir.open(*roots).files:
        if file.kind != "unknown" and 0 < file.size <= LARGEST:
            found.setdefault(file.kind, []).append(Path(file.path))
    return found


def mutate(chance: random.Random, data: bytes) -> Mutated:
    """Changes, removes, inserts, repeats or cuts some bytes."""
    start = chance.randrange(len(data) + 1)
    length = min(len(data) - start, chance.choice((1, 1, 2, 4, 8, 16, 64, 300)))
    end = start + length
    put = chance.choice(
        (
            lambda: bytes(byte ^ 1 << chance.randrange(8) for byte in data[start:end]),
            lambda: chance.randbytes(length),
            lambda: chance.choice(_NUMBERS),
            lambda: bytes(length),
            lambda: b"",
            lambda: data[start:end] * chance.choice((2, 3, 20)),
            lambda: data[chance.randrange(len(data)) :][:length],
            lambda: data[start:end] + chance.randbytes(length),
        )
    )()
    if chance.random() < 0.1:
        end = len(data)  # cut, with something at the end
    return Mutated(data[:start] + put + data[end:], start, len(data) - end)


class Case:
    """A real file in a folder of its own, with the files of its segment beside it, to be mutated again and again."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.original = path.read_bytes()
        (named,) = logdir.open(path).files
        home = folder / path.parent.name
        home.mkdir(parents=True, exist_ok=True)
        for beside in path.parent.glob(f"{path.name.partition('.')[0]}.*"):
            if beside.is_file():
                copy(beside, home)
        self.path = home / path.name
        self.path.write_bytes(self.original)
        self.kind = named.kind
        self.sizes = sum(file.stat().st_size for file in home.iterdir())
        self.batches = list(self._batches()) if self.kind in ("log", "kraft-snapshot") else []

    def _batches(self) -> Iterator[tuple[int, bytes]]:
        (file,) = logdir.open(self.path).files
        for item in file.batches():
            if isinstance(item, Batch):
                yield item.position, bytes(item.data)

    def check(self, mutated: Mutated, options: logdir.Options) -> Counter[str]:
        """Reads the mutated file; returns how many rows of each kind there were."""
        self.path.write_bytes(mutated.data)
        (file,) = logdir.open(self.path).files
        read = _Reads()
        with read:
            found = list(logdir.rows_of(file, options))
            if self.kind == "log":
                found += stats.stats_of([file], options)
        assert read.bytes <= LEAST + MOST_READ * (len(mutated.data) + self.sizes), read.bytes
        for row in found:
            position = getattr(row, "position", None)
            assert position is None or 0 <= position <= len(mutated.data), row
        assert len(found) <= 10 + 2 * len(mutated.data)
        if self.batches and options == OPTIONS[0]:
            self._still_there(mutated)
        return Counter(row.kind for row in found)  # type: ignore[attr-defined]

    def _still_there(self, mutated: Mutated) -> None:
        """Every batch that lies before or behind what was changed."""
        shift = len(mutated.data) - len(self.original)
        expected = {
            (position if position + len(data) <= mutated.head else position + shift, data)
            for position, data in self.batches
            if position + len(data) <= mutated.head or position >= len(self.original) - mutated.tail
        }
        found = set(self._batches())
        whole = {data for _, data in self.batches}
        for position, data in expected - found:
            # Where bytes that look alike were removed between two batches, the first may have them, not the second.
            taken = (
                at for at, other in found if other in whole and at < position + len(data) and position < at + len(other)
            )
            assert any(True for _ in taken), position


class _Reads:
    """Counts the bytes that are read from files."""

    bytes = 0

    def __enter__(self) -> _Reads:
        self.before = logdir.FileSource._read

        def counted(source: Any, position: int, length: int) -> bytes:
            data = self.before(source, position, length)
            self.bytes += len(data)
            return data

        logdir.FileSource._read = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        logdir.FileSource._read = self.before  # type: ignore[method-assign]


def run(count: int, seed: int, folder: Path) -> Counter[str]:
    """Mutates `count` times, each time one of all files in one of all ways; returns what was read, by kind of row."""
    chance = random.Random(seed)
    by_kind = files_of_every_kind()
    cases: dict[Path, Case] = {}
    seen: Counter[str] = Counter()
    for _ in range(count):
        path = chance.choice(by_kind[chance.choice(sorted(by_kind))])
        if path not in cases:
            cases[path] = Case(path, folder / str(len(cases)))
        case = cases[path]
        mutated = mutate(chance, case.original)
        for _ in range(chance.choice((0, 0, 0, 1, 3))):
            again = mutate(chance, mutated.data or b"\0")
            mutated = Mutated(again.data, min(mutated.head, again.head), min(mutated.tail, again.tail))
        options = chance.choice(OPTIONS) if chance.random() < 0.5 else OPTIONS[0]
        try:
            seen += case.check(mutated, options)
        except BaseException:
            print(f"{case.path.name} of {case.kind}, {options}: {mutated.data.hex()[:4000]}", file=sys.stderr)
            raise
        case.path.write_bytes(case.original)
    return seen


def main() -> None:
    count, seed = int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0])
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seen = run(count, seed, Path(folder))
    print(f"{count} mutations in {time.monotonic() - began:.0f} s: {dict(seen)}")


if __name__ == "__main__":
    main()

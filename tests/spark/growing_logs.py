"""A log directory that a broker works on, after Kafka's rules: it appends, rolls, cleans, deletes, cuts off, elects.

What is in the log is kept beside the files, so that a stream can be compared with a consumer.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import NamedTuple
from uuid import UUID

from kafkawire.records import Record, build

CLUSTER = "b7f2c1d0T0uKkP4cQ3v1xA"


class Written(NamedTuple):
    offset: int
    epoch: int
    key: bytes
    value: bytes


class Batched(NamedTuple):
    """A batch as it was appended. Cleaning leaves its range of offsets, and fewer records."""

    base: int
    last: int
    epoch: int
    records: tuple[Written, ...]

    def encoded(self) -> bytes:
        made = [Record(one.key, one.value, offset=one.offset) for one in self.records]
        return build(made, base_offset=self.base, last_offset=self.last, partition_leader_epoch=self.epoch)


class GrowingLog:
    """A replica of `t-0` in the directory of one broker.

    Attributes:
        segments: first offset -> batches. `start`: the log start offset. `epochs`: (epoch, first offset).
        generation: how often the topic was created.

    Args:
        has_epochs: whether there is a `leader-epoch-checkpoint`.
    """

    def __init__(self, root: Path, random: Random, name: str = "t-0", *, has_epochs: bool = True) -> None:
        self.has_epochs = has_epochs
        self.root, self.folder, self.random = root, root / name, random
        root.mkdir(parents=True, exist_ok=True)
        (root / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
        self.generation = 0
        self.values = 0
        self.create()

    # What a consumer has ---------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        last = max(self.segments)
        batches = self.segments[last]
        return batches[-1].last + 1 if batches else last

    @property
    def records(self) -> list[Written]:
        found = [one for base in sorted(self.segments) for batch in self.segments[base] for one in batch.records]
        return [one for one in found if one.offset >= self.start]

    # What a broker does ----------------------------------------------------------------------------------------------

    def create(self) -> None:
        """The topic, again: with another id."""
        self.generation += 1
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.topic_id = UUID(int=(self.generation << 64) + 1)
        from base64 import urlsafe_b64encode

        text = urlsafe_b64encode(self.topic_id.bytes).decode().rstrip("=")
        (self.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}\n")
        self.segments: dict[int, list[Batched]] = {0: []}
        self.start, self.epochs = 0, [(0, 0)]
        self._write(0)
        self._write_epochs()
        self._write_start()

    def append(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            base, count = self.end, self.random.randint(1, 4)
            made = []
            for number in range(count):
                self.values += 1
                key = b"k%d" % self.random.randint(0, 9)
                made.append(Written(base + number, self.epochs[-1][0], key, b"v%d" % self.values))
            batch = Batched(base, base + count - 1, self.epochs[-1][0], tuple(made))
            last = max(self.segments)
            self.segments[last].append(batch)
            with self._path(last).open("ab") as file:
                file.write(batch.encoded())

    def roll(self) -> None:
        if self.segments[max(self.segments)]:
            self.segments[self.end] = []
            self._write(self.end)

    def clean(self) -> None:
        """All but the active segment: the newest record of each key stays, and segments are merged."""
        *closed, active = sorted(self.segments)
        if not closed:
            return
        newest = {one.key: one.offset for one in self.records}
        kept: list[Batched] = []
        for base in closed:
            for batch in self.segments[base]:
                left = tuple(one for one in batch.records if newest.get(one.key) == one.offset)
                if left:
                    kept.append(batch._replace(records=left))
        groups = self.random.choice([[closed], [[one] for one in closed], [closed[:2], closed[2:]]])
        for group in filter(None, groups):
            following = next(base for base in sorted(self.segments) if base > group[-1])
            inside = [batch for batch in kept if group[0] <= batch.base < following]
            for base in group:
                del self.segments[base]
            self.segments[group[0]] = inside
            cleaned = self._path(group[0]).with_suffix(".log.cleaned")
            cleaned.write_bytes(b"".join(batch.encoded() for batch in inside))
            cleaned.rename(self._path(group[0]))
            for base in group[1:]:
                self._path(base).unlink()
        self._checkpoint("cleaner-offset-checkpoint", active)

    def retain(self) -> None:
        """Retention removes the oldest segments."""
        bases = sorted(self.segments)
        for base in bases[: self.random.randint(0, len(bases) - 1)]:
            del self.segments[base]
            self._path(base).unlink()
        self.start = max(self.start, min(self.segments))
        self._start_epochs()

    def delete_records(self) -> None:
        """DeleteRecords: the log starts within a segment."""
        self.start = self.random.randint(self.start, self.end)
        self._write_start()
        self._start_epochs()

    def elect(self) -> None:
        """A change of leader: what no other replica had is cut off, and an epoch begins."""
        cut = self.random.randint(max(self.start, self.end - 12), self.end)
        for base in sorted(self.segments, reverse=True):
            if base > cut or (base == cut and base != min(self.segments)):
                del self.segments[base]
                self._path(base).unlink()
        last = max(self.segments)
        # Truncation is by batches.
        self.segments[last] = [one for one in self.segments[last] if one.last < cut]
        self._write(last)
        epoch = self.epochs[-1][0] + self.random.randint(1, 2)
        self.epochs = [one for one in self.epochs if one[1] < self.end]
        self.epochs.append((epoch, self.end))
        self.start = min(self.start, self.end)
        self._write_start()
        self._write_epochs()

    def act(self, *, without: tuple[str, ...] = ()) -> str:
        """Something that a broker may do at any time."""
        named = (
            ("append",) * 6 + ("roll",) * 3 + ("clean",) * 3 + ("retain", "delete_records", "elect", "elect", "create")
        )
        name = self.random.choice([one for one in named if one not in without])
        getattr(self, name)()
        return name

    # Files -----------------------------------------------------------------------------------------------------------

    def _path(self, base: int) -> Path:
        return self.folder / f"{base:020}.log"

    def _write(self, base: int) -> None:
        data = b"".join(batch.encoded() for batch in self.segments[base])
        with self._path(base).open("r+b" if self._path(base).exists() else "wb") as file:  # truncation keeps the file
            file.write(data)
            file.truncate()

    def _start_epochs(self) -> None:
        """The epoch that the log starts in is kept, from there on (`LeaderEpochFileCache.truncateFromStart`)."""
        before = [one for one in self.epochs if one[1] <= self.start]
        after = [one for one in self.epochs if one[1] > self.start]
        self.epochs = [(before[-1][0], self.start), *after] if before else after
        self._write_epochs()

    def _write_epochs(self) -> None:
        lines = "".join(f"{epoch} {offset}\n" for epoch, offset in self.epochs)
        if self.has_epochs:
            (self.folder / "leader-epoch-checkpoint").write_text(f"0\n{len(self.epochs)}\n{lines}")

    def _write_start(self) -> None:
        if self.start:
            self._checkpoint("log-start-offset-checkpoint", self.start)
        else:
            (self.root / "log-start-offset-checkpoint").unlink(missing_ok=True)

    def _checkpoint(self, name: str, offset: int) -> None:
        topic, _, partition = self.folder.name.rpartition("-")
        (self.root / name).write_text(f"0\n1\n{topic} {partition} {offset}\n")


class Consumer:
    """A consumer without a group: what it gets of a log, with each poll all that is there (KIP-320)."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.generation, self.offset, self.epoch = 1, 0, -1

    def poll(self, log: GrowingLog) -> None:
        if log.generation != self.generation:
            self.generation, self.offset, self.epoch = log.generation, 0, -1
        if self.epoch >= 0:
            later = [offset for epoch, offset in log.epochs if epoch > self.epoch]
            self.offset = min([self.offset, *later])
        found = [one for one in log.records if one.offset >= self.offset]
        self.got += [one.value for one in found]
        if log.end > self.offset or found:
            self.offset = max(self.offset, log.end)
            batches = [batch for batches in log.segments.values() for batch in batches]
            self.epoch = max((batch.epoch for batch in batches), default=self.epoch)

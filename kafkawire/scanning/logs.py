"""The records of log directories, segments and tiers as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kafkawire import logdir
from kafkawire.logdir import LogDirectory, LogFile, OutcomesByFile, Partition, Selection, View, remote
from kafkawire.logdir.located_file import BATCHES
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.segment_secrets import has_secrets
from kafkawire.logdir.splits import batches_of
from kafkawire.logdir.transaction_states import UNKNOWN, Outcomes
from kafkawire.records import Batch, Damage
from kafkawire.records.array_types import Bools, Int8
from kafkawire.records.columns import Batches
from kafkawire.scanning.record_columns import Origin, RecordColumns, schema_of
from kafkawire.scanning.record_filter import EVERYTHING, Range, RecordFilter, narrowed
from kafkawire.scanning.record_options import RecordOptions
from kafkawire.scanning.record_reading import RecordReading
from kafkawire.scanning.stream import Problems

#: States of directories that a broker removes, or that it moves to another disk: it has the partition elsewhere.
_LEFT = frozenset(("delete", "stray", "future"))


class LogScan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is read of logs.

    Attributes:
        paths, tier_keys: see `logdir.open`.
        options: which records, and how. `schema`: of the batches.
    """

    paths: tuple[str, ...]
    options: RecordOptions
    schema: pa.Schema
    tier_keys: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, paths: Sequence[str], options: RecordOptions, columns: Iterable[str] | None, tier_keys: Sequence[str]
    ) -> LogScan:
        """A scan of what is there.

        Raises:
            OSError: a path does not exist or must not be read. LookupError: no such column, topic or partition.
            ValueError: nothing there is a log.
        """
        schema = schema_of(columns, options.messages, files=True)
        found = cls(paths=tuple(paths), options=options, schema=schema, tier_keys=tuple(tier_keys))
        directory = found._open()
        found._check(directory)
        return found

    def narrowed(self, columns: list[str], bounds: Any) -> LogScan:
        schema = schema_of(columns, self.options.messages, files=True)
        return msgspec.structs.replace(self, schema=schema, options=self.options.narrowed(bounds))

    def batches(self, problems: Problems) -> Iterator[pa.RecordBatch]:
        directory = self._open()
        for one in directory.unreadable:
            problems.add(Damage(0, "unreadable", one.reason), file=one.path)
        reading = _Reading(self, directory, problems)
        outcomes = OutcomesByFile(directory.partitions, self.paths) if reading.sees_outcomes else None
        wanted = self.options.filter
        for partition in self._replicas(directory):
            if wanted.selects(partition.topic, partition.partition):
                yield from reading.replica(partition, outcomes)
        for file in self._others(directory):
            if wanted.selects(file.topic, file.partition):
                yield from reading.single(file, outcomes)

    def _open(self) -> LogDirectory:
        return logdir.open(*self.paths, tier_keys=self.tier_keys)

    def _check(self, directory: LogDirectory) -> None:
        replicas, others = self._replicas(directory), self._others(directory)
        if not replicas and not others and not directory.unreadable:
            what = "neither a log directory nor a segment, such as 00000000000000000000.log"
            raise ValueError(f"{self.paths[0]}: {what}")
        wanted = self.options.filter
        found = [(one.topic, one.partition) for one in replicas]
        found += [
            (file.topic, file.partition) for file in others if file.topic is not None and file.partition is not None
        ]
        wanted.check(found)
        self.options.check_topics({topic for topic, _ in found})
        if "file" in self.schema.names:
            return
        first: dict[tuple[str, int], str] = {}
        for one in replicas:
            other = first.setdefault((one.topic, one.partition), one.path)
            if other != one.path and wanted.selects(one.topic, one.partition):
                raise ValueError(
                    f"{one.topic}-{one.partition} has several copies here, such as {other} and {one.path}: give the "
                    "directory of one broker, or read all copies with the column file"
                )

    def _replicas(self, directory: LogDirectory) -> list[Partition]:
        """The replicas with segments in use. What a tier has of a replica's log comes with the replica."""
        held = {tier.path for one in directory.partitions for tier in one.copies}
        return [
            one
            for one in directory.partitions
            if one.segments and one.path not in held and (one.state not in _LEFT or self._named(one))
        ]

    def _named(self, partition: Partition) -> bool:
        files = {file.path for file in partition.files}
        return partition.path in {path.rstrip("/") for path in self.paths} or not files.isdisjoint(self._names)

    @property
    def _names(self) -> frozenset[str]:
        """The paths, as files have them."""
        return frozenset(map(remote.without_secrets, self.paths))

    def _others(self, directory: LogDirectory) -> list[LogFile]:
        """Files with batches that were named and are no segments in use."""
        in_use = {file.path for partition in directory.partitions for file in partition.segments}
        named = self._names - in_use
        return [file for file in directory.files if file.path in named and file.kind in BATCHES]


class _Reading:
    """One reading of a `LogScan`."""

    def __init__(self, scan: LogScan, directory: LogDirectory, problems: Problems) -> None:
        self._options = scan.options
        self._filter: RecordFilter = scan.options.filter
        logs = [file for file in directory.files if file.kind in BATCHES]
        topics, files = {file.topic for file in logs}, {file.path for file in logs}
        columns = RecordColumns(scan.schema, scan.options.messages, topics, files)
        self._rows = RecordReading(scan.options, columns, problems)
        self._problems = problems
        self._reported: set[tuple[str, Damage]] = set()
        self.sees_outcomes = self._rows.sees_outcomes

    def replica(self, partition: Partition, outcomes: OutcomesByFile | None) -> Iterator[pa.RecordBatch]:
        """The records of a replica, segment after segment."""
        view = None if outcomes is None else self._view(outcomes.of_partition(partition))
        offsets = self._filter.offsets_in(partition.topic, partition.partition)
        if view is not None:
            for path, damage in view.damage:
                if (path, damage) not in self._reported:
                    self._reported.add((path, damage))
                    self._problems.add(damage, file=path)
            offsets = narrowed(offsets, view.offsets)
        following = {one.path: after.offset for one, after in pairwise(partition.segments)}
        asked = self._selection(offsets)
        for file in logdir.wanted_files(partition.segments, asked):
            begin = start_position(file, asked)
            seen = None if view is None else view.within(file.offset or 0, following.get(file.path))
            proven = outcomes is not None and outcomes.proven(file)
            yield from self._file(file, begin, offsets, seen, check_crc=not proven)

    def single(self, file: LogFile, outcomes: OutcomesByFile | None) -> Iterator[pa.RecordBatch]:
        """The records of a file that is no segment in use."""
        offsets = self._filter.offsets_in(file.topic, file.partition)
        view = None if outcomes is None else self._view(outcomes.of(file))
        offsets = offsets if view is None else narrowed(offsets, view.offsets)
        yield from self._file(file, 0, offsets, view, check_crc=True)

    def _view(self, outcomes: Outcomes) -> View:
        return View(outcomes=outcomes, isolation_level=self._options.isolation_level, shown=True)

    def _selection(self, offsets: Range) -> Selection:
        times = self._filter.times
        return Selection(
            offsets=None if offsets == EVERYTHING else offsets, times=None if times == EVERYTHING else times
        )

    def _file(
        self, file: LogFile, start: int, offsets: Range, view: View | None, *, check_crc: bool
    ) -> Iterator[pa.RecordBatch]:
        beyond = 0
        origin, secret = Origin(file.topic, file.partition, file.path), has_secrets(file)
        try:
            for found in batches_of(file, start, check_crc=check_crc):
                if isinstance(found, Damage):
                    self._rows.problem(found, origin)
                elif isinstance(found, Batch):
                    batch = found.measured()
                    if view is None or view.reads(batch) is True:
                        yield from self._rows.old(batch, origin, offsets, secret=secret)
                else:
                    chosen, states = self._chosen(found, origin, offsets, view)
                    yield from self._rows.batches(found, origin, offsets, chosen, states, secret=secret)
                    if offsets[1] is not None:  # one may be damaged: the base offset is not under the checksum
                        beyond += int((found.base_offset >= offsets[1]).sum())
                        if beyond > 1:
                            return
        except OSError as error:
            self._rows.problem(Damage.unreadable(error), origin)

    def _chosen(self, found: Batches, origin: Origin, offsets: Range, view: View | None) -> tuple[Bools, Int8 | None]:
        """Which batches are read, and the states of all."""
        chosen = self._filter.batches(found, offsets)
        if view is None:
            return chosen, None
        seen = view.see(found)
        selected = self._filter.by_states(seen.states)
        # Records whose state is unknown may be among those that were asked for: they are reported, as damage is.
        lost = seen.lost if selected is None else seen.lost | (seen.kept & (seen.states == UNKNOWN) & ~selected)
        for index in np.flatnonzero(chosen & lost).tolist():
            self._rows.problem(view.lost(found.batch(index)), origin)
        return chosen & (seen.kept if selected is None else seen.kept & selected), seen.states

"""Statistics of partitions: `kafkawire dump --stats`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from os.path import dirname

from kafkawire import rows
from kafkawire.errors import RecordError
from kafkawire.logdir.file_rows import DEFAULT, selected_batches
from kafkawire.logdir.located_file import LocatedFile
from kafkawire.logdir.read_options import Options
from kafkawire.records import Batch, Damage
from kafkawire.records.compression import CompressionError, decompress
from kafkawire.records.header import HEADER, MAGIC
from kafkawire.records.legacy import contents

#: States of a segment that takes another's place, or whose place is taken: its records are counted there.
_REPLACED = frozenset({"deleted", "cleaned", "swap", "part", "tmp"})


def by_partition(files: Iterable[LocatedFile]) -> list[list[LocatedFile]]:
    """The segments in use, those of a directory together, in the order of their offsets."""
    groups: dict[str, list[LocatedFile]] = {}
    for file in files:
        if file.kind == "log" and file.state not in _REPLACED:
            groups.setdefault(dirname(file.path), []).append(file)
    return [sorted(group, key=lambda file: file.offset or 0) for group in groups.values()]


def stats_of(segments: list[LocatedFile], options: Options = DEFAULT) -> Iterator[rows.Row]:
    """The damage in the segments of one partition, then its statistics.

    Raises:
        OSError: a segment cannot be read.
    """
    counted = _Counts()
    for segment in segments:
        counted.segments += 1
        for item in selected_batches(segment, options):
            damage = item if isinstance(item, Damage) else counted.add(item)
            if damage is not None:
                counted.damaged += not damage.harmless
                yield rows.DamageRow.of(damage, **segment.place)
    first = segments[0]
    yield counted.row({**first.place, "file": first.root})


class _Counts:
    def __init__(self) -> None:
        self.segments = self.batches = self.records = self.bytes = self.damaged = 0
        self.control = self.transactional = self.gaps = self.missing = self.stored = self.plain = 0
        self.first: int | None = None
        self.last: int | None = None
        self.oldest: int | None = None
        self.newest: int | None = None
        self.magics: Counter[str] = Counter()
        self.codecs: Counter[str] = Counter()
        self.producers: set[int] = set()

    def add(self, batch: Batch) -> Damage | None:
        self.batches += 1
        self.records += batch.record_count
        self.bytes += batch.size
        self.control += batch.is_control
        self.transactional += batch.transactional
        self.magics[str(batch.magic)] += 1
        self.codecs[batch.codec] += 1
        if batch.producer_id >= 0:
            self.producers.add(batch.producer_id)
        if batch.max_timestamp >= 0:
            self.oldest = batch.max_timestamp if self.oldest is None else min(self.oldest, batch.max_timestamp)
            self.newest = batch.max_timestamp if self.newest is None else max(self.newest, batch.max_timestamp)
        between = 0 if self.last is None else max(0, batch.base_offset - self.last - 1)
        inside = max(0, batch.last_offset - batch.base_offset + 1 - batch.record_count)
        self.gaps += (between > 0) + (inside > 0)
        self.missing += between + inside
        self.first = batch.base_offset if self.first is None else self.first
        self.last = batch.last_offset
        return self._sizes(batch)

    def _sizes(self, batch: Batch) -> Damage | None:
        if batch.codec == "none":
            return None
        try:
            stored, plain = _sizes_of(batch)
        except (CompressionError, RecordError) as error:
            return Damage(batch.position, "bad_records", str(error), batch.position + batch.size)
        self.stored += stored
        self.plain += plain
        return None

    def row(self, place: rows.RowOrigin) -> rows.Stats:
        return rows.Stats(
            **place,
            segments=self.segments,
            batches=self.batches,
            records=self.records,
            bytes=self.bytes,
            first_offset=self.first,
            last_offset=self.last,
            first_timestamp=self.oldest,
            last_timestamp=self.newest,
            magics=dict(sorted(self.magics.items())),
            codecs=dict(sorted(self.codecs.items())),
            compressed_bytes=self.stored,
            uncompressed_bytes=self.plain,
            compression_ratio=round(self.plain / self.stored, 3) if self.stored else None,
            producers=len(self.producers),
            control_batches=self.control,
            transactional_batches=self.transactional,
            gaps=self.gaps,
            missing_offsets=self.missing,
            damaged=self.damaged,
        )


def _sizes_of(batch: Batch) -> tuple[int, int]:
    """Bytes of the records of a compressed batch, as they are stored and decompressed."""
    if batch.magic < MAGIC:
        inside = contents(batch.data, position=batch.position, limit=batch.max_batch_bytes)
        return batch.size, len(inside.payload)
    stored = batch.data[HEADER.size :]
    return len(stored), len(decompress(batch.codec, stored, batch.max_batch_bytes))

"""Statistics of partitions: `kafkawire dump --stats`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from os.path import basename, dirname

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.errors import RecordError
from kafkawire.logdir.file_names import TIERED, partition_name
from kafkawire.logdir.file_rows import DEFAULT, selected_batches
from kafkawire.logdir.located_file import LocatedFile
from kafkawire.logdir.read_options import Options
from kafkawire.logdir.swaps import in_use
from kafkawire.records import Batch, Damage
from kafkawire.records.compression import CompressionError, decompress
from kafkawire.records.header import HEADER, MAGIC
from kafkawire.records.legacy import contents


def by_partition(files: Iterable[LocatedFile]) -> list[list[LocatedFile]]:
    """The segments in use, grouped by directory, in the order of their offsets."""
    groups: dict[str, list[LocatedFile]] = {}
    for file in files:
        groups.setdefault(dirname(file.path), []).append(file)
    used = ([one for one in in_use(group) if one.kind == "log"] for group in groups.values())
    return [sorted(group, key=lambda file: file.offset or 0) for group in used if group]


def stats_of(segments: list[LocatedFile], options: Options = DEFAULT) -> Iterator[rows.Row]:
    """The damage in the segments of one partition, then its statistics. Raises OSError: a segment cannot be read."""
    counted = _Counts()
    for segment in segments:
        counted.segments += 1
        for item in selected_batches(segment, options):
            damage = item if isinstance(item, Damage) else counted.add(item)
            if damage is not None:
                counted.damaged += not damage.harmless
                yield rows.DamageRow.of(damage, **segment.place)
    first = segments[0]
    folder = partition_name(basename(dirname(first.path)))
    state = TIERED if first.state == TIERED else folder.state if folder else ""
    yield replace(counted.row({**first.place, "file": first.root}), state=state)


class _Counts:
    """Fields of `rows.Stats`, while they are counted."""

    def __init__(self) -> None:
        self.segments = self.batches = self.records = self.bytes = self.damaged = 0
        self.control_batches = self.transactional_batches = self.gaps = self.missing_offsets = 0
        self.compressed_bytes = self.uncompressed_bytes = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.first_timestamp: int | None = None
        self.last_timestamp: int | None = None
        self.magics: Counter[str] = Counter()
        self.codecs: Counter[str] = Counter()
        self.producers: set[int] = set()

    def add(self, batch: Batch) -> Damage | None:
        self.batches += 1
        self.records += batch.record_count
        self.bytes += batch.size
        self.control_batches += batch.is_control
        self.transactional_batches += batch.transactional
        self.magics[str(batch.magic)] += 1
        self.codecs[batch.codec] += 1
        if batch.producer_id >= 0:
            self.producers.add(batch.producer_id)
        time = batch.max_timestamp
        if time >= 0:
            self.first_timestamp = time if self.first_timestamp is None else min(self.first_timestamp, time)
            self.last_timestamp = time if self.last_timestamp is None else max(self.last_timestamp, time)
        between = 0 if self.last_offset is None else max(0, batch.base_offset - self.last_offset - 1)
        inside = max(0, batch.last_offset - batch.base_offset + 1 - batch.record_count)
        self.gaps += (between > 0) + (inside > 0)
        self.missing_offsets += between + inside
        self.first_offset = batch.base_offset if self.first_offset is None else self.first_offset
        self.last_offset = batch.last_offset
        return self._sizes(batch)

    def _sizes(self, batch: Batch) -> Damage | None:
        if batch.codec == "none":
            return None
        try:
            stored, plain = _sizes_of(batch)
        except (CompressionError, RecordError) as error:
            return Damage(batch.position, "bad_records", str(error), batch.position + batch.size)
        self.compressed_bytes += stored
        self.uncompressed_bytes += plain
        return None

    def row(self, place: rows.RowOrigin) -> rows.Stats:
        stored, plain = self.compressed_bytes, self.uncompressed_bytes
        others = {
            "magics": dict(sorted(self.magics.items())),
            "codecs": dict(sorted(self.codecs.items())),
            "producers": len(self.producers),
            "compression_ratio": round(plain / stored, 3) if stored else None,
        }
        return rows.Stats(**place, **vars(self) | others)


def _sizes_of(batch: Batch) -> tuple[int, int]:
    """Bytes of the records of a compressed batch, as they are stored and decompressed."""
    if batch.magic < MAGIC:
        inside = contents(batch.data, position=batch.position, limit=batch.max_batch_bytes)
        return batch.size, len(inside.payload)
    stored = batch.data[HEADER.size :]
    return len(stored), len(decompress(batch.codec, stored, batch.max_batch_bytes))

"""The binary files beside the segments: `.index`, `.timeindex`, `.txnindex`, `.snapshot`.

Indexes are read chunk by chunk, however large they are. A reader yields the entries, and a `Damage` for bytes that
cannot be an entry at their place. The zeros at the end of an index, which a running broker preallocates, are neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kafkawire.logdir.entries import AbortedEntry, OffsetEntry, SnapshotEntry, TimeEntry
from kafkawire.logdir.located_file import LocatedFile
from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Damage, Source
from kafkawire.records.header import crc32c
from kafkawire.records.source import WatchedSource

_CHUNK = 8192  # entries
_ZEROS = bytes(_CHUNK * 12)
_SNAPSHOT_VERSION = 1

E = TypeVar("E")


def offset_index(source: Source) -> Iterator[OffsetEntry | Damage]:
    """`.index`: pairs of an offset, relative to the segment's, and a position in the segment, both ascending."""
    from kafkawire.logdir.entry_layouts import OFFSET_ENTRY

    return _ascending(source, OFFSET_ENTRY, OffsetEntry, "relative offset {} at {} after {} at {}")


def time_index(source: Source) -> Iterator[TimeEntry | Damage]:
    """`.timeindex`: pairs of a timestamp and an offset, relative to the segment's, both ascending."""
    from kafkawire.logdir.entry_layouts import TIME_ENTRY

    return _ascending(source, TIME_ENTRY, TimeEntry, "timestamp {} of relative offset {} after {} of {}")


def aborted_transactions(source: Source) -> Iterator[AbortedEntry | Damage]:
    """`.txnindex`: a sequence of AbortedTxn of 34 bytes each (KIP-98). It is never preallocated."""
    from kafkawire.logdir.entry_layouts import ABORTED_ENTRY

    size = ABORTED_ENTRY.sizeof()
    source = WatchedSource(source)
    for position, (version, producer_id, first, last, stable) in _entries(source, ABORTED_ENTRY):
        if version in AbortedTxn.spec.valid_versions:
            aborted = AbortedTxn(
                producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
            )
            yield AbortedEntry(position, version, aborted)
        else:
            yield Damage(position, "bad_entry", f"version {version}; 0 is known", position + size)
    yield from _torn(source, size, zeros_are_none=False)


def producer_snapshot(data: bytes) -> Iterator[SnapshotEntry | Damage]:
    """`.snapshot`: the producers' state before an offset. One checksum covers all entries: no entry is used when it
    is wrong (as Kafka's `ProducerStateManager`)."""
    from kafkawire.logdir.entry_layouts import PRODUCER_ENTRY, SNAPSHOT_CHECKSUMMED, SNAPSHOT_HEAD, struct_of

    head_size = SNAPSHOT_HEAD.sizeof()
    if len(data) < head_size:
        yield Damage(0, "truncated", f"{len(data)} of a header's {head_size} bytes")
        return
    head = SNAPSHOT_HEAD.parse(data)
    if head.version != _SNAPSHOT_VERSION:
        yield Damage(0, "bad_snapshot", f"version {head.version}; {_SNAPSHOT_VERSION} is known")
        return
    kind = struct_of(PRODUCER_ENTRY)
    expected = head_size + head.count * kind.size
    if head.count < 0 or expected != len(data):
        yield Damage(0, "bad_snapshot", f"{len(data)} bytes where {head.count} entries should stand")
        return
    computed = crc32c(memoryview(data)[SNAPSHOT_CHECKSUMMED:])
    if computed != head.crc:
        detail = f"the checksum is {head.crc:#010x}, that of the bytes {computed:#010x}"
        yield Damage(0, "crc_mismatch", detail)
        return
    names = [field.name for field in PRODUCER_ENTRY.subcons]
    for i, fields in enumerate(kind.iter_unpack(memoryview(data)[head_size:])):
        yield SnapshotEntry(head_size + i * kind.size, ProducerEntry(**dict(zip(names, fields, strict=True))))


def snapshot_producers(file: LocatedFile) -> tuple[list[ProducerEntry], list[Damage]]:
    """The producers in a `.snapshot` file, and what is damaged in it. Never raises."""
    try:
        data = file.content()
    except OSError as error:
        data = Damage.unreadable(error)
    found = [data] if isinstance(data, Damage) else list(producer_snapshot(data))
    producers = [one.producer for one in found if isinstance(one, SnapshotEntry)]
    return producers, [one for one in found if isinstance(one, Damage)]


def _ascending(source: Source, layout: Any, entry: Callable[[int, int, int], E], problem: str) -> Iterator[E | Damage]:
    """Entries of two numbers. The first ascends, the second does not descend; `problem` describes a violation."""
    source = WatchedSource(source)
    before = (-1, -1)
    astray = False
    for position, pair in _used(source, layout):
        if pair[0] > before[0] and pair[1] >= before[1]:
            before = pair
            astray = False
        elif not astray:
            yield Damage(position, "not_ascending", problem.format(*pair, *before), position + layout.sizeof())
            astray = True  # a run of these is reported once
        yield entry(position, *pair)
    yield from _torn(source, layout.sizeof())


def _chunks(source: Source, layout: Any) -> Iterator[tuple[int, memoryview, Iterator[tuple[Any, ...]]]]:
    """All whole entries: the position of some, their bytes, and each as a tuple."""
    from kafkawire.logdir.entry_layouts import struct_of

    kind = struct_of(layout)
    position = 0
    while len(chunk := source.at(position, _CHUNK * kind.size)) >= kind.size:
        chunk = chunk[: len(chunk) - len(chunk) % kind.size]
        yield position, chunk, kind.iter_unpack(chunk)
        position += len(chunk)


def _entries(source: Source, layout: Any) -> Iterator[tuple[int, Any]]:
    """Every whole entry, with its position."""
    for position, _, entries in _chunks(source, layout):
        for i, fields in enumerate(entries):
            yield position + i * layout.sizeof(), fields


def _used(source: Source, layout: Any) -> Iterator[tuple[int, Any]]:
    """The entries before the zeros at the end."""
    size = layout.sizeof()
    nothing = (0, 0)
    zeros = first = 0  # how many entries of zeros were met and not yielded yet, and where they began
    for position, chunk, entries in _chunks(source, layout):
        if bytes(chunk) == _ZEROS[: len(chunk)]:  # compared as bytes: views are compared one by one
            first = first if zeros else position
            zeros += len(chunk) // size
            continue
        for i, fields in enumerate(entries):
            if fields == nothing:
                first = first if zeros else position + i * size
                zeros += 1
                continue
            for place in range(first, first + zeros * size, size):
                yield place, nothing
            zeros = 0
            yield position + i * size, fields
    if zeros == 1 and source.size == size:
        yield 0, nothing  # not preallocated: a broker cuts closed indexes, and a first entry may be of zeros


def _torn(source: WatchedSource, size: int, *, zeros_are_none: bool = True) -> Iterator[Damage]:
    left = source.size % size
    torn = left and (any(source.at(source.size - left, left)) or not zeros_are_none)
    if source.ended is not None:
        yield Damage.of_shortened(source.ended - source.ended % size, source.ended, source.size)
    elif torn:
        yield Damage(source.size - left, "truncated", f"{left} of an entry's {size} bytes")

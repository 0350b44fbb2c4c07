"""The small files beside the segments: indexes, snapshots of producer state, checkpoints, properties.

Each reader takes a file's bytes and yields what is in it, and a `Damage` for what cannot be read, with the position in
the file where each begins.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from typing import TypeVar

import crc32c
import msgspec

from kafkawire.errors import DecodeError
from kafkawire.messages import AbortedTxn, ProducerSnapshot
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Damage

#: Small files of a broker are KBs; more than this is no such file (offset indexes are 10 MiB by default).
MAX_BYTES = 256 << 20

_OFFSET_ENTRY = struct.Struct(">ii")  # relative offset, position in the log
_TIME_ENTRY = struct.Struct(">qi")  # timestamp, relative offset
_ABORTED_SIZE = 34
_SNAPSHOT_CHECKSUMMED = 6  # version int16, crc uint32, then the checksummed bytes
_SNAPSHOT_ENTRIES = 10
_SNAPSHOT_ENTRY_SIZE = 46
_LINE = re.compile(rb"[^\n]*\n?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


class Entry(msgspec.Struct, frozen=True, gc=False):
    """Something that begins at `position` of the file."""

    position: int


class OffsetEntry(Entry, frozen=True, gc=False):
    relative_offset: int
    log_position: int


class TimeEntry(Entry, frozen=True, gc=False):
    timestamp: int
    relative_offset: int


class AbortedEntry(Entry, frozen=True, gc=False):
    version: int
    aborted: AbortedTxn


class SnapshotEntry(Entry, frozen=True, gc=False):
    producer: ProducerEntry


class OffsetLine(Entry, frozen=True, gc=False):
    """A line of a broker's checkpoint file: an offset of a partition."""

    topic: str
    partition: int
    offset: int


class EpochLine(Entry, frozen=True, gc=False):
    epoch: int
    start_offset: int


class Property(Entry, frozen=True, gc=False):
    name: str
    value: str


E = TypeVar("E", bound=Entry)
Reader = Callable[[bytes], Iterator[E | Damage]]


def offset_index(data: bytes) -> Iterator[OffsetEntry | Damage]:
    """`.index`: ascending pairs of an offset, relative to the segment's, and a position in the segment."""
    for position, (offset, log_position) in _entries(data, _OFFSET_ENTRY):
        yield OffsetEntry(position, offset, log_position)
    yield from _torn(data, _OFFSET_ENTRY.size)


def time_index(data: bytes) -> Iterator[TimeEntry | Damage]:
    """`.timeindex`: ascending pairs of a timestamp and an offset, relative to the segment's."""
    for position, (timestamp, offset) in _entries(data, _TIME_ENTRY):
        yield TimeEntry(position, timestamp, offset)
    yield from _torn(data, _TIME_ENTRY.size)


def aborted_transactions(data: bytes) -> Iterator[AbortedEntry | Damage]:
    """`.txnindex`: an AbortedTxn of 34 bytes after the other (KIP-98)."""
    whole = len(data) - len(data) % _ABORTED_SIZE
    for position in range(0, whole, _ABORTED_SIZE):
        try:
            aborted, version = AbortedTxn.decode_prefixed(data[position : position + _ABORTED_SIZE])
            yield AbortedEntry(position, version, aborted)
        except DecodeError as error:
            following = position + _ABORTED_SIZE
            yield Damage(position, "bad_entry", str(error), following if following < whole else None)
    yield from _torn(data, _ABORTED_SIZE)


def producer_snapshot(data: bytes) -> Iterator[SnapshotEntry | Damage]:
    """`.snapshot`: the producers' state before an offset. One checksum covers all entries: nothing is believed when it
    is wrong (as Kafka's `ProducerStateManager`)."""
    try:
        snapshot, _ = ProducerSnapshot.decode_prefixed(data)
    except DecodeError as error:
        yield Damage(0, "truncated" if len(data) < _SNAPSHOT_ENTRIES else "bad_snapshot", str(error))
        return
    computed = crc32c.crc32c(data[_SNAPSHOT_CHECKSUMMED:])
    if computed != snapshot.crc:
        detail = f"the checksum is {snapshot.crc:#010x}, that of the bytes {computed:#010x}"
        yield Damage(0, "crc_mismatch", detail)
        return
    for i, producer in enumerate(snapshot.producer_entries):
        yield SnapshotEntry(_SNAPSHOT_ENTRIES + i * _SNAPSHOT_ENTRY_SIZE, producer)


def offset_checkpoint(data: bytes) -> Iterator[OffsetLine | Damage]:
    """A broker's `*-checkpoint`: `topic partition offset` a line (Kafka's `OffsetCheckpointFile`)."""
    for position, words in _checkpoint(data, 3):
        if isinstance(words, Damage):
            yield words
            continue
        try:
            yield OffsetLine(position, words[0], _number(words[1]), _number(words[2]))
        except ValueError:
            yield _bad_line(position, " ".join(words))


def leader_epochs(data: bytes) -> Iterator[EpochLine | Damage]:
    """`leader-epoch-checkpoint`: `epoch start-offset` a line (Kafka's `LeaderEpochCheckpointFile`)."""
    for position, words in _checkpoint(data, 2):
        if isinstance(words, Damage):
            yield words
            continue
        try:
            yield EpochLine(position, _number(words[0]), _number(words[1]))
        except ValueError:
            yield _bad_line(position, " ".join(words))


def properties(data: bytes) -> Iterator[Property | Damage]:
    """`meta.properties` (name=value) and `partition.metadata` (name: value)."""
    for position, line in _lines(data):
        if not line or line[0] in "#!":
            continue
        name, separator, value = re.sub(r"\\(.)", r"\1", line).partition("=" if "=" in line else ":")
        if separator:
            yield Property(position, name.strip(), value.strip())
        else:
            yield _bad_line(position, line)


def json_properties(data: bytes) -> Iterator[Property | Damage]:
    """`quorum-state`: one JSON object; values that are no strings are kept as JSON."""
    try:
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
    except (ValueError, RecursionError) as error:
        yield Damage(0, "bad_json", str(error) or type(error).__name__)
        return
    for name, value in found.items():
        yield Property(0, name, value if isinstance(value, str) else json.dumps(value))


def _entries(data: bytes, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, int]]]:
    """Fixed entries up to the preallocated zeros at the end, which a running broker's indexes have."""
    used = len(data.rstrip(b"\0"))
    used += -used % layout.size  # zeros may be an entry's own
    whole = len(data) - len(data) % layout.size
    for position, entry in enumerate(layout.iter_unpack(data[: min(used, whole)])):
        yield position * layout.size, (entry[0], entry[1])


def _torn(data: bytes, size: int) -> Iterator[Damage]:
    left = len(data) % size
    if left and any(data[-left:]):
        yield Damage(len(data) - left, "truncated", f"{left} of an entry's {size} bytes")


def _checkpoint(data: bytes, words: int) -> Iterator[tuple[int, list[str] | Damage]]:
    """The lines of a checkpoint file after its version (0) and its number of lines (Kafka's `CheckpointFile`). An empty
    file, as brokers create it, has none."""
    if not data:
        return
    lines = _lines(data)
    position, version = next(lines)
    if version != "0":
        yield position, Damage(position, "bad_version", f"version {version[:50]!r}; 0 is known")
        return
    position, expected = next(lines, (len(data), ""))
    try:
        count = _number(expected)
    except ValueError:
        count = None
        yield position, Damage(position, "bad_count", f"{expected[:50]!r} where the number of lines should stand")
    found = 0
    for position, line in lines:
        if not line:
            continue
        found += 1
        split = line.split()
        yield position, split if len(split) == words else _bad_line(position, line)
    if count is not None and count != found:
        yield len(data), Damage(len(data), "truncated", f"{found} of {count} lines")


def _number(word: str) -> int:
    """A number as Java's parseInt and parseLong read it; `int` reads more."""
    if not _NUMBER.fullmatch(word):
        raise ValueError(word)
    return int(word)


def _bad_line(position: int, line: str) -> Damage:
    return Damage(position, "bad_line", f"cannot be read: {line[:100]!r}")


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Lines without their ends and surrounding blanks, and where they begin."""
    for found in _LINE.finditer(data):
        if found.group():
            yield found.start(), found.group().decode("utf-8", "surrogateescape").strip()

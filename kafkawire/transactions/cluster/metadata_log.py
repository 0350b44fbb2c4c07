"""`MetadataLog`: the records of a copied metadata log, `__cluster_metadata`, of its newest checkpoint and its segments.

What is missing or cannot be read is named: settings and partitions that an answer rests on may be in it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from kafkawire import messages
from kafkawire.errors import DecodeError, KafkaWireError
from kafkawire.logdir import LogFile, Partition
from kafkawire.records import CONTROL_TYPES, Batch, Damage, Record, decode_value
from kafkawire.records.control import control_of
from kafkawire.records.damage import described
from kafkawire.transactions.facts import CLUSTER_METADATA
from kafkawire.wire.message import Message

_HEADER, _FOOTER = CONTROL_TYPES[3], CONTROL_TYPES[4]
#: The messages that facts about a cluster rest on.
WANTED: tuple[type[Message], ...] = (
    messages.ConfigRecord, messages.FeatureLevelRecord, messages.PartitionChangeRecord, messages.PartitionRecord,
    messages.ProducerIdsRecord, messages.RemoveTopicRecord, messages.TopicRecord,
)  # fmt: skip
#: The first offset that may hold a message: the leader that begins a log writes a control record at offset 0.
FIRST_RECORD = 1
#: The most gaps that are named; the others are counted.
_MOST_GAPS = 20


class MetadataRecord(NamedTuple):
    """A record of the metadata log; `message` None for one of no interest. `snapshot`: it is of a `.checkpoint`."""

    offset: int
    timestamp: int
    snapshot: bool
    message: object


class MetadataLog:
    """The records of a metadata log.

    Args:
        wanted: the messages that are decoded; by default those that facts rest on.
        history: from the oldest state that is known, each record in order: where the log starts at 0, without a
            checkpoint; otherwise from the oldest checkpoint that the log follows. By default the newest one is read
            first, and then all segments, also those that it replaces: what is newest counts.

    Attributes:
        complete: no record is missing before the newest: offsets follow, and nothing but the end of the last segment is
            damaged.
        until: the newest time of a record of the log, or of the log that a checkpoint replaces, from its header. A
            checkpoint's own records have the time when it is written, which is later.
        whole_checkpoint: it begins with a checkpoint that was read from its header to its footer: what that does not
            hold did not exist.
    """

    def __init__(self, wanted: Iterable[type[Message]] = WANTED, *, history: bool = False) -> None:
        self._history = history
        self._wanted = frozenset(message.spec.api_key for message in wanted)
        self.complete = True
        self.until: int | None = None
        self.whole_checkpoint = self._begun = self._ended = False
        self._gaps: list[str] = []
        self._more = 0

    @property
    def gaps(self) -> tuple[str, ...]:
        """What is missing, as sentences that name the file."""
        more = (f"{self._more:,} more places of {CLUSTER_METADATA} could not be read",) if self._more else ()
        return (*self._gaps, *more)

    def entries(self, partition: Partition) -> Iterator[MetadataRecord]:
        """The records, once; the attributes are known after the last."""
        checkpoints = [file for file in partition.files if file.kind == "kraft-snapshot" and not file.state]
        checkpoints.sort(key=lambda file: file.offset or 0)
        segments = partition.segments
        if self._history and segments:
            checkpoints = _followed(checkpoints, segments[0].offset or 0)
        following: int | None = None
        for file in checkpoints[-1:]:
            self._begun = self._ended = False
            yield from self._read(file, None)
            following = file.offset or 0
            self.whole_checkpoint = self._begun and self._ended and self.complete
            if not self._ended:
                self._lack(f"{file.path} ends without its {_FOOTER}: records behind its end may be missing")
        start = segments[0].offset or 0 if segments else None
        known_from = (following or 0) if self._history else 0
        if start is None:
            what = f"the log behind offset {following} was not read" if checkpoints else "there is no checkpoint either"
            self._name(f"{partition.path} holds no segment: {what}")
            self.complete = self.complete and bool(checkpoints)
        elif start > (following or FIRST_RECORD):
            self._lack(f"{partition.path}: offsets {following or 0} to {start - 1} are in no checkpoint and no segment")
        following = None
        for number, file in enumerate(segments):
            base = file.offset or 0
            if following is not None and base > following:
                self._lack(f"{partition.path}: offsets {following} to {base - 1} are in no segment")
            following = yield from self._read(file, base, last=number + 1 == len(segments), known_from=known_from)

    def _lack(self, gap: str) -> None:
        """A record may be missing."""
        self.complete = False
        self._name(gap)

    def _name(self, gap: str) -> None:
        if len(self._gaps) < _MOST_GAPS:
            self._gaps.append(gap)
        else:
            self._more += 1

    def _read(
        self, file: LogFile, following: int | None, *, last: bool = False, known_from: int = 0
    ) -> Generator[MetadataRecord, None, int]:
        """The records of a file; returns the offset after its last. `following`: the first offset that a segment must
        have; None for a checkpoint, whose offsets are its own. `known_from`: a segment's records below are left
        out."""
        snapshot, end, position = following is None, following or 0, 0
        try:
            for item in file.batches():
                position = item.position
                if isinstance(item, Damage):
                    if not item.harmless and (snapshot or not last or item.resumed_at is not None):
                        self._lack(f"{file.path}: {described(item)}")
                    continue
                if not snapshot and item.base_offset > end:
                    self._lack(f"{file.path}: at byte {position}: offsets {end} to {item.base_offset - 1} are missing")
                end = item.last_offset + 1
                if item.is_control:
                    self._control(file, item)
                    continue
                if not snapshot:
                    self.until = max(self.until or 0, item.max_timestamp)
                for record in item.records:
                    if not snapshot and record.offset < known_from:
                        continue
                    yield MetadataRecord(record.offset, record.timestamp, snapshot, self._message(file, item, record))
        except (OSError, KafkaWireError) as error:
            self._lack(f"{file.path}: at byte {position}: {error}")
        return end

    def _message(self, file: LogFile, batch: Batch, record: Record) -> object:
        """The message of a record, where it is of interest."""
        # Frame version and api key are varints of one byte; most records are about something else.
        if record.value is None or len(record.value) < 2:
            problem: str | None = "no message"
        elif record.value[1] not in self._wanted:
            return None
        else:
            decoded = decode_value(CLUSTER_METADATA, record.key, record.value)
            if decoded is not None and decoded.message is not None:
                return decoded.message
            problem = None if decoded is None else decoded.problem
        self._lack(f"{file.path}: at byte {batch.position}: the record at offset {record.offset}: {problem}")
        return None

    def _control(self, file: LogFile, batch: Batch) -> None:
        """Takes from a checkpoint's header how new the log is that it replaces. The batch that it is in has records of
        other kinds, too (KIP-853)."""
        for record in batch.records:
            name = control_of(record).name
            if name == _HEADER:
                self._begun = True
                try:
                    header = messages.SnapshotHeaderRecord.decode(record.value or b"", version=0)
                    self.until = max(self.until or 0, header.last_contained_log_timestamp)
                except DecodeError as error:
                    self._lack(f"{file.path}: at byte {batch.position}: {error}")
            self._ended = self._ended or name == _FOOTER


def _followed(checkpoints: list[LogFile], start: int) -> list[LogFile]:
    """The oldest of some checkpoints, in order, that a log from offset `start` follows, or else the newest; none where
    the log is whole."""
    if start <= FIRST_RECORD:
        return []
    return [file for file in checkpoints if (file.offset or 0) >= start][:1] or checkpoints[-1:]

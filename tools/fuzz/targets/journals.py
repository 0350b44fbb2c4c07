"""The journal that resumes an audit over the wire."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from functools import cache
from uuid import UUID

import msgspec

from kafkawire import __version__, logdir
from kafkawire.client.diagnosis import reading_journal
from kafkawire.client.diagnosis.fetched_log import FetchedPartition
from kafkawire.client.diagnosis.log_reading import FetchRange, Load, LogReader, ReadWith
from kafkawire.client.diagnosis.reading_journal import Journal
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Offsets, PartitionInfo, TopicPartition
from kafkawire.client.rpc.partition_log import whole_batches
from kafkawire.records import Batch
from kafkawire.transactions.parts import part_columns
from kafkawire.transactions.parts.part_scan import read_range
from tools.fuzz import input_files, inputs
from tools.fuzz.target import FuzzTarget
from tools.recordings.archive import unpacked

#: Topic id and leader epoch of the logs.
_GENERATION = "00000000-0000-0007-0000-000000000007", 3
_CLUSTER = "b:9092"
_READ_WITH = ReadWith(address=_CLUSTER, load=Load(bytes_per_s=1 << 40))
#: Bytes of a piece: a partition has some of them.
_PIECE = 600
#: Pieces that seeds have: a fuzzer changes little of a long one.
_MOST_PIECES = 6


class _Log:
    """A recorded partition, as its leader returns it."""

    def __init__(self, partition: logdir.Partition) -> None:
        self.batches = [batch for batch in partition if isinstance(batch, Batch)]
        end = self.batches[-1].last_offset + 1
        start = self.batches[0].base_offset
        offsets = Offsets(log_start=start, last_stable_offset=end, high_watermark=end)
        place = TopicPartition(partition.topic, partition.partition)
        self.asked = FetchRange(place=place, leader=1, start=start, offsets=offsets)

    def fetched(self, offset: int) -> bytes:
        data = b"".join(bytes(batch.data) for batch in self.batches if batch.last_offset >= offset)
        return data[: whole_batches(data[:_PIECE])] or bytes(self.batches[0].data)


@cache
def _logs() -> list[_Log]:
    partitions = logdir.open(unpacked("hanging-transactions")).partitions
    found = {(one.topic, one.partition): one for one in partitions if not one.topic.startswith("__cluster")}
    return [_Log(one) for one in found.values() if any(isinstance(item, Batch) for item in one)]


@cache
def _pieces() -> list[tuple[TopicPartition, int, int, bytes]]:
    """Partition, offsets and columns of each piece, as a journal has them."""
    found = []
    for log in _logs():
        offset, asked = log.asked.start, log.asked
        while offset < asked.end:
            partition = FetchedPartition(_CLUSTER, asked.place, offset, asked.offsets, ())
            partition.log.piece.follow(log.fetched(offset))
            part = read_range(partition.log, 0, partition.log.piece.end)
            behind = part.scan.following or asked.end
            found.append((asked.place, offset, behind, part_columns.encode(part)))
            offset = behind
    return found


class _JournalReader(LogReader):
    """Takes pieces that the journal has not from the recorded log."""

    async def _fetched(self, asked: FetchRange, offset: int) -> bytes | int:
        return next(log for log in _logs() if log.asked is asked).fetched(offset)


def check_journal(data: bytes) -> None:
    """Reads recorded logs beside the journal. Lines with columns that are one of those logs' get their checksum."""
    path = input_files.folder("journal") / "journal"
    before = b"".join(map(_sealed, data.splitlines(keepends=True)))
    path.write_bytes(before)

    async def run(journal: Journal) -> None:
        reader = _JournalReader(None, _READ_WITH, journal)  # type: ignore[arg-type]
        found = await reader.read([log.asked for log in _logs()])
        assert len(found) == len(_logs())

    refused = None
    try:
        partitions = {
            (place := log.asked.place): PartitionInfo(place, 1, _GENERATION[1], (1,), topic_id=UUID(_GENERATION[0]))
            for log in _logs()
        }
        with Journal(str(path), _CLUSTER, 0, partitions) as journal:
            asyncio.run(run(journal))
    except ClientError as error:
        refused = str(error)
    assert refused is None or (str(path) in refused and path.read_bytes() == before), refused


def _sealed(line: bytes) -> bytes:
    try:
        found = msgspec.json.decode(line, type=reading_journal._Line)
    except (msgspec.MsgspecError, UnicodeError):
        return line
    if not line.endswith(b"\n") or found.columns not in _texts():
        return line
    return msgspec.json.encode(found.sealed()) + b"\n"


@cache
def _texts() -> set[str | None]:
    return {None, *(base64.b64encode(part).decode() for *_, part in _pieces())}


def _journals() -> Iterator[bytes]:
    header = reading_journal._Header(reading_journal._FORMAT, _CLUSTER, 0, __version__)
    lines = [msgspec.json.encode(header) + b"\n"]
    for place, first, following, part in _pieces():
        text = base64.b64encode(part).decode()
        for found in (text, None):
            line = reading_journal._Line(*place, _GENERATION, first, following, found)
            lines.append(msgspec.json.encode(line.sealed()) + b"\n")
    for number in range(1, len(lines), _MOST_PIECES):
        yield b"".join([lines[0], *lines[number : number + _MOST_PIECES]])
    yield from (lines[0], lines[0][:-1], b"".join(lines[:3])[:-1], b"{}\n", b"notes\n", b"")


TARGETS = (
    FuzzTarget(
        name="journals",
        reads="the journal that resumes an audit over the wire: any file",
        holds="`ClientError` with the path, and the file as it was; or the facts of every partition",
        check=check_journal,
        seeds=_journals,
        form=inputs.TEXT,
        longest=8192,
        words=(
            b'"first":',
            b'"next":',
            b'"columns":',
            b'"columns":null',
            b'"topic":"late-batch"',
            b"9223372036854775807",
        ),
    ),
)

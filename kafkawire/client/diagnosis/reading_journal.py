"""A file that makes the reading of logs resumable: a line for each piece that was read, with its columns.

A piece counts for the log that it was read from only: a topic that was deleted and created again has another id, and a
leader that may have truncated the log has another epoch. Where a broker does not send them, all is read again.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Self

import msgspec
from msgspec.structs import replace

from kafkawire import __version__
from kafkawire.client.errors import ClientError
from kafkawire.client.results import PartitionInfo, TopicPartition
from kafkawire.transactions.parts import part_columns
from kafkawire.transactions.parts.part_columns import PartColumns

_FORMAT = 5
#: Bytes; a cluster's id has 22 characters.
_LONGEST_HEADER = 4096


class _Header(msgspec.Struct, frozen=True):
    """The first line: what is read. A journal is of no use for anything else, nor for other rules."""

    format: int
    cluster: str
    since: int | None
    kafkawire: str = ""


class _Line(msgspec.Struct, frozen=True):
    """A piece: offsets `[first, next)`, and its columns, base64; None: it has to be read again.

    `generation` is the topic id and the leader epoch. `crc` is the CRC-32 of the line with 0 in its place: a damaged
    piece could be read as another one.
    """

    topic: str
    partition: int
    generation: tuple[str, int] | None
    first: int
    next: int
    columns: str | None
    crc: int = 0

    def sealed(self) -> _Line:
        """The line with its checksum."""
        return replace(self, crc=zlib.crc32(msgspec.json.encode(replace(self, crc=0))))


class Journal:
    """The pieces that were read, by partition and first offset. Without a path nothing is kept.

    Args:
        path: of the file; it is created, or continued.
        cluster: id of the cluster. `since`: epoch milliseconds, as given.
        partitions: the cluster's, as they are now: pieces of others, or of an earlier generation, do not count.

    Raises:
        ClientError: the file is no journal, or one of another reading.
        OSError: it cannot be opened.
    """

    def __init__(
        self, path: str | None, cluster: str, since: int | None, partitions: Mapping[TopicPartition, PartitionInfo] = {}
    ) -> None:
        self._path = path
        self._generations = {place: info.generation for place, info in partitions.items()}
        self._known: dict[TopicPartition, dict[int, _Line]] = defaultdict(dict)
        self._file = None
        if path is None:
            return
        header = _Header(_FORMAT, cluster, since, __version__)
        end = self._read(path, header)
        self._file = open(path, "ab")  # noqa: SIM115 (closed by the context)
        self._file.truncate(end)
        if not end:
            self._write(header)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _read(self, path: str, header: _Header) -> int:
        """Reads the lines; returns where the last whole one ends."""
        end = 0
        try:
            with open(path, "rb") as file:
                first = file.readline(_LONGEST_HEADER)
                if first and not first.endswith(b"\n"):  # truncating it would destroy a file of something else
                    raise ClientError(f"{path}: no journal of an audit: its first line is none of a journal")
                if first and msgspec.json.decode(first, type=_Header) != header:
                    what = "of another cluster, or with another --since or version of kafkawire"
                    raise ClientError(f"{path}: {what}: give another file")
                end = len(first)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # of a reading that was cut off
                    known = msgspec.json.decode(line, type=_Line)
                    if known != known.sealed():
                        raise ClientError(f"{path}: at byte {end}: a damaged line: delete the file to read all again")
                    place = TopicPartition(known.topic, known.partition)
                    if known.generation is not None and known.generation == self._generations.get(place):
                        self._known[place][known.first] = known
                    end += len(line)
        except FileNotFoundError:
            return 0
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ClientError(f"{path}: at byte {end}: no journal of an audit ({error})") from None
        return end

    def _write(self, line: _Header | _Line) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()

    def first(self, place: TopicPartition, default: int) -> int:
        """The lowest offset of a partition that was read; the default for none."""
        return min(self._known.get(place, ()), default=default)

    def known(self, place: TopicPartition, offset: int) -> tuple[PartColumns, int] | None:
        """The piece that begins at an offset, and the offset after it; None: it has to be read. Raises ClientError: the
        line is damaged."""
        line = self._known.get(place, {}).get(offset)
        if line is None or line.columns is None or line.next <= offset:
            return None
        try:
            return part_columns.decode(base64.b64decode(line.columns, validate=True)), line.next
        except (ValueError, msgspec.MsgspecError) as error:
            raise ClientError(f"{self._path}: the columns of {place} from offset {offset} on: {error}") from None

    def add(self, place: TopicPartition, first: int, following: int, part: PartColumns | None) -> None:
        """Adds a piece to the journal. `first`, `following`: its offsets are `[first, following)`. `part`: None where
        it has to be read again."""
        text = None if part is None else base64.b64encode(part_columns.encode(part)).decode()
        self._write(_Line(*place, self._generations.get(place), first, following, text).sealed())

    def remove(self) -> None:
        """Deletes the file, when all was read."""
        if self._path is not None:
            os.remove(self._path)

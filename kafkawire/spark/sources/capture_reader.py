"""Captures as rows for `kafka_pcap`: files cut into parts, and the exchanges or frames of a part as Arrow batches."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from kafkawire import rows
from kafkawire._loading import schema_texts
from kafkawire.capture import CapturedExchange, ColumnsOfExchanges, ExchangeSelection
from kafkawire.capture.decode_rules import rules_of
from kafkawire.capture.exchange_rows import iso_time
from kafkawire.capture.files import is_compressed
from kafkawire.capture.message_json import frame_may_contain_secrets
from kafkawire.capture.reader import read_with
from kafkawire.capture.tracker import Ends
from kafkawire.errors import CaptureError, SchemaError
from kafkawire.logdir.file_names import is_uri
from kafkawire.logdir.located_file import known_size
from kafkawire.logdir.log_files import LogFile, log_file
from kafkawire.logdir.remote import remote_files
from kafkawire.rows import arrow
from kafkawire.spark.errors import SourceError
from kafkawire.spark.functions.column_codec import registry_with
from kafkawire.spark.sources.source_base import PART_BYTES, ItemReader, SourceOptions

ROWS = ("exchanges", "frames")
EXCHANGES = arrow.schema([rows.Exchange])
_HEADER = ("api", "api_key", "version", "correlation_id", "client_id")
#: A row a frame; `frame` is request or response, `data` its bytes without the size. `errors` are a response's.
FRAMES = pa.schema(
    [
        ("frame", pa.string()),
        *(EXCHANGES.field(name) for name in ("time", "time_ns", "file", "connection", "client", "broker")),
        *(EXCHANGES.field(name) for name in _HEADER),
        ("bytes", pa.int64()),
        *(EXCHANGES.field(name) for name in ("packet", "errors", "problem")),
        ("data", pa.binary()),
    ]
)
#: What the table has only by option.
_BODIES = frozenset(("request", "response", "data"))
#: Its fields are those of the table.
_Frame: Any = msgspec.defstruct("_Frame", [(field.name, Any) for field in FRAMES], frozen=True, kw_only=True)
#: Most tasks for one file: each of them walks over all of its packets.
MOST_SHARES = 16
_BUFFER_BYTES = 1 << 20


class CapturePart(NamedTuple):
    """The connections of a capture that belong to one of several shares; of its first `size` bytes, or of all. Or
    only a `problem`."""

    file: LogFile
    share: int = 0
    shares: int = 1
    size: int | None = None
    problem: str | None = None


class CaptureReader(ItemReader[CapturePart]):
    """An item is a part of a capture."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(schema, options)
        self.rows = options.choice("rows", ROWS)
        self.part_bytes = options.size("maxPartBytes", PART_BYTES)
        self.selection = ExchangeSelection(
            apis=options.texts("api"), connections=options.numbers("connection"), times=_times(options)
        )
        self.records = options.flag("records")
        self.payloads = not options.flag("noPayloads")
        self.show_secrets = options.flag("showSecrets")
        self.key_logs = options.texts("keylog")
        self.decode_as = [rule for rule in (options.text("decodeAs") or "").split(";") if rule]
        try:
            rules_of(self.decode_as)
        except ValueError as error:
            raise ValueError(f"decodeAs: {error}") from None
        folder = options.text("schemaDirectory")
        try:
            self.schemas = None if folder is None else schema_texts(folder)  # read once, here
            registry_with(self.schemas)
        except SchemaError as error:
            raise ValueError(f"schemaDirectory: {error}") from None
        for path in self.key_logs:
            if not os.access(path, os.R_OK):
                raise ValueError(f"keylog: {path} is not a file that can be read")

    @staticmethod
    def table(options: SourceOptions) -> pa.Schema:
        return EXCHANGES if options.choice("rows", ROWS) == "exchanges" else FRAMES

    @staticmethod
    def hidden(options: SourceOptions) -> frozenset[str]:
        return frozenset() if options.flag("body") else _BODIES

    def items(self) -> Iterator[CapturePart]:
        return (part for file in captures(self.options.paths) for part in parts_of(file, self.part_bytes))

    def size_of(self, item: CapturePart) -> int:
        return known_size(item.file) // item.shares

    def batches(self, items: Iterable[CapturePart], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for part in items:
            yield from self._part(part, schema)

    def _part(self, part: CapturePart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        found = self._exchanges(part, frozenset(schema.names))
        for are_columns, group in groupby(found, lambda each: isinstance(each, ColumnsOfExchanges)):
            if are_columns:
                yield from (_batch(each, schema) for each in group if isinstance(each, ColumnsOfExchanges))
                continue
            single = (each for each in group if isinstance(each, CapturedExchange))
            if self.rows == "exchanges":
                yield from arrow.batches((_as_text(matched.row) for matched in single), schema)
            else:
                frames = (frame for matched in single for frame in _frames(matched, self.show_secrets))
                yield from arrow.batches(frames, schema)

    def _exchanges(self, part: CapturePart, asked: frozenset[str]) -> Iterator[CapturedExchange | ColumnsOfExchanges]:
        """The exchanges of a part. The first part of a file also yields the file's problem, last."""
        path = part.file.path
        if part.problem is not None:
            yield self._wrong(path, part.problem)
            return
        try:
            with _open(part.file, part.size) as file:
                found = read_with(
                    file,
                    body=bool(asked & {"request", "response"}) and self.rows == "exchanges",
                    text=True,
                    keep="data" in asked,
                    columns=arrow.json_text if self.rows == "exchanges" else None,
                    selection=self.selection,
                    owns=_owner(part.share, part.shares),
                    size=file.raw.size,
                    records=self.records,
                    payloads=self.payloads,
                    show_secrets=self.show_secrets,
                    keylog=self.key_logs,
                    decode_as=self.decode_as,
                    registry=registry_with(self.schemas),
                )
                for each in found.found():
                    if isinstance(each, CapturedExchange) and each.row.connection is None:
                        if not part.share:
                            yield self._wrong(path, each.row.problem or "")
                    elif isinstance(each, (CapturedExchange, ColumnsOfExchanges)):
                        yield each
        except (OSError, CaptureError) as error:
            if not part.share:
                yield self._wrong(path, (isinstance(error, OSError) and error.strerror) or str(error))
            return
        if not part.share:
            for problem in found.summary.key_log:
                yield self._wrong(path, problem)
        if not part.share and found.summary.packets and not found.summary.connections["kafka"]:
            yield CapturedExchange(row=rows.Exchange(file=path, problem=found.summary.no_kafka))

    def _wrong(self, path: str, problem: str) -> CapturedExchange:
        if self.options.fail_fast:
            raise SourceError(f"{path}: {problem}")
        return CapturedExchange(row=rows.Exchange(file=path, problem=problem))


# Files to parts ------------------------------------------------------------------------------------------------------


def captures(paths: Iterable[str]) -> Iterator[LogFile]:
    """The files at paths and URIs, and those in folders.

    Raises:
        OSError: a path names nothing.
    """
    for path in paths:
        if is_uri(path):
            yield from (file for file in remote_files(path) if not _hidden(file.path))
        elif os.path.isdir(path):
            for folder, below, names in os.walk(path):
                below[:] = sorted(name for name in below if not _hidden(name))
                yield from (log_file(os.path.join(folder, name)) for name in sorted(names) if not _hidden(name))
        else:
            os.stat(path)
            yield log_file(path)


def parts_of(file: LogFile, part_bytes: int, size: int | None = None) -> Iterator[CapturePart]:
    """A file's parts.

    Args:
        part_bytes: of a part, about. `size`: only so many bytes of the file; None: all.
    """
    shares = 1
    try:
        wanted = min(-(-(file.size if size is None else size) // part_bytes), MOST_SHARES)
        if wanted > 1:
            with _open(file) as opened:
                shares = 1 if is_compressed(opened.read(4)) else wanted
    except OSError:
        pass  # the task that reads the file reports the error
    for share in range(shares):
        yield CapturePart(file, share, shares, size)


def _times(options: SourceOptions) -> tuple[int | None, int | None] | None:
    """The half-open range of the requests' times, in epoch milliseconds."""
    names = ("startingTimestamp", "endingTimestamp")
    low, high = (None if options.text(name) is None else options.number(name, 0, least=0) for name in names)
    if low is not None and high is not None and high < low:
        raise ValueError("startingTimestamp is after endingTimestamp")
    return None if low is None and high is None else (low, high)


def _hidden(path: str) -> bool:
    return os.path.basename(path)[:1] in (".", "_")


def _owner(share: int, shares: int) -> Callable[[Ends], bool] | None:
    """Whether a connection belongs to this share. It depends on the two endpoints only, so all machines agree."""
    if shares == 1:
        return None
    return lambda ends: zlib.crc32(b"".join(b"%b:%d;" % end for end in ends)) % shares == share


class _Beginning(io.RawIOBase):
    """The first bytes of a file, or the whole file.

    Attributes:
        name: the file's path.
        size: the number of these bytes, counted when the file was opened.
    """

    def __init__(self, file: LogFile, size: int | None) -> None:
        self.name = file.path
        self._file = file.opened()
        self.size = self._file.seek(0, os.SEEK_END) if size is None else size
        self._file.seek(0)
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        wanted = len(buffer) if self._left is None else min(len(buffer), self._left)
        data = self._file.read(wanted)
        buffer[: len(data)] = data
        if self._left is not None:
            self._left -= len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _open(file: LogFile, size: int | None = None) -> io.BufferedReader[_Beginning]:
    return io.BufferedReader(_Beginning(file, size), _BUFFER_BYTES)


# Exchanges to rows ---------------------------------------------------------------------------------------------------


def _batch(found: ColumnsOfExchanges, schema: pa.Schema) -> pa.RecordBatch:
    """Columns with the fields of a schema; bodies that were not decoded are null."""
    if not len(schema):
        return pa.RecordBatch.from_struct_array(pa.array([{}] * found.count, pa.struct([])))
    arrays = [
        pa.nulls(found.count, field.type) if (array := found.arrays.get(field.name)) is None else array
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_text(row: rows.Exchange) -> rows.Exchange:
    """Bodies as JSON text, whose size decides when a batch of rows is full."""
    bodies: dict[str, Any] = {"request": row.request, "response": row.response}
    texts = {
        name: msgspec.Raw(arrow.json_text(body))
        for name, body in bodies.items()
        if body not in (None, msgspec.UNSET) and not isinstance(body, msgspec.Raw)
    }
    return msgspec.structs.replace(row, **texts) if texts else row


def _frames(matched: CapturedExchange, show_secrets: bool) -> Iterator[msgspec.Struct]:
    """One row for each frame of an exchange; one row for a problem that belongs to no frame."""
    row = matched.row
    shared = {name: getattr(row, name) for name in ("file", "connection", "client", "broker", *_HEADER, "problem")}
    if row.request_bytes is not None:
        data = _shown(row.api_key, "request", matched.request_frame, show_secrets)
        yield _Frame(**shared, frame="request", time=row.time, time_ns=row.time_ns, bytes=row.request_bytes,
                     packet=row.packet, errors={}, data=data)  # fmt: skip
    if row.response_bytes is not None:
        at = row.response_time_ns
        data = _shown(row.api_key, "response", matched.response_frame, show_secrets)
        yield _Frame(**shared, frame="response", time=None if at is None else iso_time(at), time_ns=at,
                     bytes=row.response_bytes, packet=row.response_packet, errors=row.errors, data=data)  # fmt: skip
    if row.request_bytes is None and row.response_bytes is None:
        yield _Frame(**shared, frame=None, time=row.time, time_ns=row.time_ns, bytes=None, packet=row.packet, errors={},
                     data=None)  # fmt: skip


def _shown(api_key: int | None, kind: str, frame: bytes | None, show_secrets: bool) -> bytes | None:
    hidden = frame is None or (not show_secrets and frame_may_contain_secrets(api_key, kind, frame))
    return None if hidden else frame

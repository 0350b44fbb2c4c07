"""The exchanges of captures as Arrow batches: `rows.Exchange` with times, and with bodies as structs."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kafkawire.capture import CapturedExchange, ColumnsOfExchanges, Exchanges, ExchangeSelection
from kafkawire.capture.decode_rules import rules_of
from kafkawire.capture.files import is_compressed
from kafkawire.capture.message_json import frame_may_contain_secrets
from kafkawire.capture.reader import read_with
from kafkawire.capture.ring import is_ring
from kafkawire.errors import CaptureError, DecodeError
from kafkawire.frames import decode_response
from kafkawire.frames.headers import API_VERSIONS, request_header_version, response_header_version
from kafkawire.logdir.file_names import is_uri
from kafkawire.messages import REGISTRY, RequestHeader, ResponseHeader
from kafkawire.records import Damage
from kafkawire.records.record_table import text_array
from kafkawire.rows import Exchange, arrow
from kafkawire.scanning.record_columns import TEXT
from kafkawire.scanning.stream import Problems
from kafkawire.wire.columns import decode_structs, shape
from kafkawire.wire.columns.schema import struct_type

NANOSECONDS = pa.timestamp("ns", "UTC")
_ERRORS = pa.map_(pa.string(), pa.int64())
#: Column -> its type, and the field of `rows.Exchange` where that has another name.
COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "time": (NANOSECONDS, "time_ns"),
    "response_time": (NANOSECONDS, "response_time_ns"),
    "connection": (pa.int64(), ""),
    "client": (pa.string(), ""),
    "broker": (pa.string(), ""),
    "api": (TEXT, ""),
    "api_key": (pa.int64(), ""),
    "version": (pa.int64(), ""),
    "correlation_id": (pa.int64(), ""),
    "client_id": (pa.string(), ""),
    "latency_ms": (pa.float64(), ""),
    "request_bytes": (pa.int64(), ""),
    "response_bytes": (pa.int64(), ""),
    "packet": (pa.int64(), ""),
    "response_packet": (pa.int64(), ""),
    "errors": (_ERRORS, ""),
    "problem": (pa.string(), ""),
    "note": (pa.string(), ""),
}
_FURTHER = ("file",)
_BODIES = ("request", "response")
#: Where a batch of rows with bodies ends: rows, and bytes of frames.
_ROWS, _BYTES = 16_384, 16 << 20
_MAGICS = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a")


def is_capture(path: str) -> bool:
    """Whether a path is that of a capture: of a file by its first bytes, of several by a pattern, or a folder with one.

    Raises:
        OSError: it must not be read, or a pattern matches nothing.
    """
    if is_uri(path):
        return False
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            return any(os.access(entry, os.R_OK) and entry.is_file() and is_capture(entry.path) for entry in entries)
    if not os.path.isfile(path):
        return is_ring(path) and any(map(is_capture, matches(path)))
    with open(path, "rb") as file:
        first = file.read(4)
    return first in _MAGICS or is_compressed(first)


def matches(pattern: str) -> list[str]:
    """What a pattern names, in order.

    Raises:
        FileNotFoundError: nothing.
    """
    found = sorted(glob(pattern))
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), pattern)
    return found


class CaptureScan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is read of captures.

    Attributes:
        paths: files, patterns and directories, one capture each.
        selection: which exchanges. `message`: of the bodies, the request's and the response's; None: no bodies.
        schema: of the batches. `show_secrets`, `keylog`, `decode_as`: see `capture.read`.
    """

    paths: tuple[str, ...]
    selection: ExchangeSelection
    messages: dict[str, Any]
    schema: pa.Schema
    show_secrets: bool = False
    keylog: tuple[str, ...] = ()
    decode_as: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        paths: Sequence[str],
        selection: ExchangeSelection,
        columns: Iterable[str] | None,
        *,
        show_secrets: bool,
        keylog: Sequence[str],
        decode_as: Sequence[str],
    ) -> CaptureScan:
        """A scan of what is there.

        Raises:
            OSError: a key log must not be read. LookupError: no such column or api. ValueError: a rule is malformed.
        """
        apis = [_api_key(api) for api in selection.apis]
        messages = {kind: REGISTRY.rpc(apis[0], kind) for kind in _BODIES} if len(apis) == 1 else {}
        rules_of(decode_as)
        for path in keylog:
            with open(path, "rb"):
                pass
        schema = schema_of(columns, messages)
        return cls(
            paths=tuple(paths),
            selection=selection,
            messages=messages,
            schema=schema,
            show_secrets=show_secrets,
            keylog=tuple(keylog),
            decode_as=tuple(decode_as),
        )

    def narrowed(self, columns: list[str], bounds: Any) -> CaptureScan:
        return msgspec.structs.replace(
            self, schema=schema_of(columns, self.messages), selection=bounds.narrow_exchanges(self.selection)
        )

    def batches(self, problems: Problems) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            try:
                yield from self._file(path, problems)
            except (OSError, CaptureError) as error:
                text = (isinstance(error, OSError) and error.strerror) or str(error)
                problems.add(Damage(0, "unreadable", text), file=path)

    def _file(self, path: str, problems: Problems) -> Iterator[pa.RecordBatch]:
        bodies = [name for name in self.schema.names if name in _BODIES]
        found = read_with(
            path,
            keep=bool(bodies),
            columns=None if bodies else arrow.json_text,
            selection=self.selection,
            keylog=self.keylog,
            decode_as=self.decode_as,
        )
        damaged, held, size = False, list[CapturedExchange](), 0
        for each in found.found():
            if isinstance(each, ColumnsOfExchanges):
                if held:
                    yield self._of_rows(held)
                    held, size = [], 0
                yield self._of_columns(each)
            elif isinstance(each, CapturedExchange):
                if each.row.connection is None:  # damage of the file
                    damaged = True
                    problems.add(Damage(0, "damaged", each.row.problem or ""), file=path)
                    continue
                held.append(each)
                size += sum(map(len, filter(None, (each.request_frame, each.response_frame))))
                if len(held) >= _ROWS or size >= _BYTES:
                    yield self._of_rows(held)
                    held, size = [], 0
        if held:
            yield self._of_rows(held)
        self._end(path, found, problems, damaged)

    def _end(self, path: str, found: Exchanges, problems: Problems, damaged: bool) -> None:
        """What the reader knows of the capture as a whole."""
        summary = found.summary
        if summary.damage is not None and not damaged:  # its row is not among those that are selected
            problems.add(Damage(0, "damaged", summary.damage), file=path)
        for text in summary.key_log:
            problems.add(Damage(0, "key_log", text), file=path)
        for ends, why in summary.encrypted.items() if self.keylog else ():
            problems.add(Damage(0, "encrypted", f"{ends}: {why}"), file=path)
        if summary.packets and not summary.connections["kafka"]:
            problems.add(Damage(0, "no_kafka", summary.no_kafka), file=path)
        # What ApiVersions says names no topic and no producer.
        kinds = [kind for kind in summary.problems if "ApiVersions" not in kind]
        if self.selection.looks_inside and kinds:
            count = sum(summary.problems[kind] for kind in kinds)
            text = f"{count} exchanges were not decoded to the end, so what they name is not known"
            problems.add(Damage(0, "undecoded", f"{text}: {summary.first[kinds[0]]}"), file=path)

    # Rows ------------------------------------------------------------------------------------------------------------

    def _of_columns(self, found: ColumnsOfExchanges) -> pa.RecordBatch:
        """Exchanges that the engine has written into columns."""
        arrays = []
        for field in self.schema:
            array = found.arrays[COLUMNS[field.name][1] or field.name if field.name in COLUMNS else field.name]
            if field.type == NANOSECONDS:
                arrays.append(array.view(NANOSECONDS))
            elif field.name == "api":
                arrays.append(_apis(array.to_pylist()))
            else:
                arrays.append(array.cast(field.type))
        return self._batch(arrays, found.count)

    def _of_rows(self, found: list[CapturedExchange]) -> pa.RecordBatch:
        """Exchanges as objects; with bodies, with their frames."""
        bodies: dict[str, pa.Array] = {}
        notes: list[str | None] = [each.row.note for each in found]
        for name in self.schema.names:
            if name in _BODIES:
                bodies[name] = self._bodies(name, found, notes)
        arrays = []
        for field in self.schema:
            name = field.name
            if name in bodies:
                arrays.append(bodies[name])
                continue
            values = notes if name == "note" else [_value(each.row, name) for each in found]
            arrays.append(_apis(values) if name == "api" else pa.array(values, field.type))
        return self._batch(arrays, len(found))

    def _batch(self, arrays: list[pa.Array], count: int) -> pa.RecordBatch:
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _bodies(self, kind: str, found: list[CapturedExchange], notes: list[str | None]) -> pa.Array:
        """The bodies of requests or responses as structs. Null: not captured, not decoded (`problem` says why), or
        hidden, which a note says."""
        message = self.messages[kind]
        own = message.spec.api_key
        values: list[bytes | memoryview | None] = []
        versions: list[int | None] = []
        for place, each in enumerate(found):
            frame = each.request_frame if kind == "request" else each.response_frame
            value, version = None, each.row.version
            if kind == "response" and own == API_VERSIONS and frame is not None and version is not None:
                version = decode_response(frame, api_key=own, version=version).version  # perhaps the oldest (KIP-511)
            if frame is not None and each.row.api_key == own and version in message.spec.valid_versions:
                if not self.show_secrets and frame_may_contain_secrets(own, kind, frame):
                    note = f"{kind}: may contain secrets, shown with show_secrets"
                    before = notes[place]
                    notes[place] = note if before is None else f"{before}; {note}"
                else:
                    value = _body(message, kind, version, frame, each.row.note)
            values.append(value)
            versions.append(version)
        return decode_structs(message, values, versions).array


def schema_of(columns: Iterable[str] | None, messages: dict[str, Any]) -> pa.Schema:
    """The schema of exchanges.

    Args:
        columns: names; None: all but the file. messages: of the bodies.

    Raises:
        LookupError: there is no column of that name.
    """
    if isinstance(columns, str):
        raise TypeError("columns is a list of names, not one string")
    default = (*COLUMNS, *messages)
    known = (*default, *_FURTHER)
    names = [*default] if columns is None else list(columns)
    for place, name in enumerate(names):
        if name in _BODIES and name not in messages:
            raise LookupError(f"the column {name} needs apis with one name: each api has bodies of its own type")
        if name not in known:
            raise LookupError(f"there is no column {name!r}; the columns are {', '.join((*known, *_BODIES))}")
        if name in names[:place]:
            raise ValueError(f"columns names {name} twice")
    types = {name: type_ for name, (type_, _) in COLUMNS.items()} | {"file": pa.string()}
    types |= {name: struct_type(shape(message)) for name, message in messages.items()}
    return pa.schema([pa.field(name, types[name]) for name in names])


def _api_key(name: str) -> int:
    """The api key of a name, in any case.

    Raises:
        LookupError: there is no such api.
    """
    for entry in REGISTRY.entries.values():
        if entry.kind == "request" and entry.family == "rpc":
            own = entry.name.removesuffix("Request")
            if own.lower() == name.lower() and entry.api_key is not None:
                return entry.api_key
    raise LookupError(f"there is no api {name!r}; names are those of requests, such as Produce")


def _body(message: Any, kind: str, version: int | None, frame: bytes, note: str | None) -> memoryview | None:
    """The bytes of a frame's body; without those after it, of which a note tells. None where it has no header."""
    assert version is not None
    try:
        if kind == "request":
            start = RequestHeader.decode_from(frame, request_header_version(message, version))[1]
        else:
            start = ResponseHeader.decode_from(frame, response_header_version(message, version))[1]
        end = len(frame) if note is None else message.decode_from(frame, version, offset=start)[1]
    except DecodeError:
        return None
    return memoryview(frame)[start:end]


def _value(row: Exchange, name: str) -> Any:
    value = getattr(row, COLUMNS[name][1] or name if name in COLUMNS else name)
    if name == "errors":
        return [(arrow.arrow_text(key), count) for key, count in value.items()]
    return arrow.arrow_text(value) if isinstance(value, str) else value


def _api_names() -> tuple[str, ...]:
    names = (one.name.removesuffix("Request") for one in REGISTRY.entries.values() if one.kind == "request")
    return tuple(sorted(set(names)))


def _apis(values: list[Any]) -> pa.Array:
    """Names of apis. All batches have the same dictionary, but for apis that are not known."""
    names = _api_names()
    names = (*names, *sorted({one for one in values if one is not None} - set(names)))
    places = {name: place for place, name in enumerate(names)}
    numbers = np.array([-1 if one is None else places[one] for one in values], np.int32)
    indices = pa.array(numbers, mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(indices, text_array(names))

"""The native engine (`native/`), where a Rust compiler was at install time. `kafkawire.wire.backend` knows whether."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from kafkawire.wire.columns.build import Blobs
from kafkawire.wire.columns.plan import LayoutPlan
from kafkawire.wire.layout import Table
from kafkawire.wire.message import Struct
from kafkawire.wire.values import Input

__version__: str
INTERFACE: bytes  # this file, as it was when the engine was built
LIMITS: bytes  # kafkawire/wire/limits.py, likewise

@final
class Codec:
    """Executes the layouts of one message (an `Engine` of `kafkawire.wire.message`)."""

    def __init__(self, table: Table, classes: tuple[type[Struct], ...]) -> None: ...
    def decode(self, data: Input, version: int, offset: int, strict: bool, copy: bool, /) -> Any | None: ...
    def decode_from(
        self, data: Input, version: int, offset: int, strict: bool, copy: bool, /
    ) -> tuple[Any, int] | None: ...
    def encode(self, value: Any, version: int, /) -> bytes | None: ...

@final
class MessageText:
    """Writes the JSON form of one message as text, for `kafkawire.wire.json_text`."""

    def __init__(
        self, table: Table, fields: list[list[tuple[str, bool]]], defaults: list[list[bytes]], headers: bytes
    ) -> None: ...
    def body(self, data: bytes, version: int, payloads: bool) -> bytes | None: ...
    def request(
        self, frame: bytes, text: bool, payloads: bool
    ) -> tuple[int, int, str | None, bytes | None, dict[int, int] | None] | None: ...
    def response(
        self, frame: bytes, version: int, text: bool, payloads: bool
    ) -> tuple[bytes | None, dict[int, int] | None] | None: ...

_Moment = tuple[int, int]
_Address = tuple[bytes, int]
_Side = tuple[int, int, _Moment, bytes, bytes, list[tuple[int, _Moment]]]

@final
class Lanes:
    """Connections of `kafkawire.capture` while they are in order."""

    def __init__(self, most_closed: int) -> None: ...
    def adopt(
        self, connection: Any, ends: tuple[_Address, _Address], sides: tuple[_Side, _Side], now: _Moment
    ) -> None: ...
    def adopt_opening(
        self,
        connection: Any,
        ends: tuple[_Address, _Address],
        opener: int,
        begun: tuple[tuple[int, int, _Moment], tuple[int, int, _Moment] | None],
        now: _Moment,
    ) -> None: ...
    def forget(self, ends: tuple[_Address, _Address]) -> None: ...
    def release(self, ends: tuple[_Address, _Address]) -> None: ...
    def release_all(self) -> None: ...
    @property
    def held(self) -> int: ...
    def take(
        self, link_type: int, data: bytes, packet: int, time_ns: int, /
    ) -> tuple[()] | tuple[Any, int, list[tuple[bytes, int, int]], int | None, bool] | bool | None: ...
    def run(
        self, data: bytes, at: int, format: tuple[bool, int, int, int, int], number: int, recent: list[int]
    ) -> tuple[int, int, list[int], list[tuple[Any, int, list[tuple[bytes, int, int]], int | None, bool]]]: ...
    def __len__(self) -> int: ...

@final
class ColumnPlan:
    """A plan of `kafkawire.wire.columns`, ready to be executed."""

    def __init__(self, plan: LayoutPlan) -> None: ...
    def walk(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[
        NDArray[np.int64],
        list[int],
        list[NDArray[Any]],
        list[Blobs],
        list[tuple[NDArray[np.int32], NDArray[np.uint8] | None, NDArray[Any]]],
        list[tuple[NDArray[np.int32], NDArray[np.uint8] | None]],
        list[NDArray[np.uint8] | None],
        list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]],
    ]:
        """The parts of a `kafkawire.wire.columns.build.PlanColumns`."""

# Record batches, as `kafkawire.records.column_engine.ColumnEngine`; arrays are contiguous.
_Bytes = NDArray[np.uint8]
_Int32 = NDArray[np.int32]
_Int64 = NDArray[np.int64]
_Columns = tuple[NDArray[Any], ...]

def scan_batches(data: _Bytes, stop: int, check_crc: bool, max_batch_bytes: int, /) -> _Columns: ...
def checksums(data: _Bytes, positions: _Int64, /) -> NDArray[np.bool_]: ...
def record_columns(
    data: _Bytes, positions: _Int64, first: int, most_bytes: int, max_batch_bytes: int, /
) -> tuple[_Columns, _Bytes | None, list[int], int, bool]: ...
def payload_columns(head: bytes, payload: _Bytes, index: int, /) -> tuple[_Columns, bool]: ...
def gather(data: _Bytes, starts: _Int64, lengths: _Int32, /) -> tuple[_Int32, _Bytes]: ...
def candidates(window: bytes, count: int, left: int, longest: int, /) -> list[tuple[int, int]]: ...

@final
class RecordReader:
    """Makes `Record`s out of a batch's (decompressed) records, for `kafkawire.records.record`."""

    def __init__(self, record: type[Any], header: type[Any]) -> None: ...
    def read(
        self,
        payload: bytes,
        at: int,
        most: int,
        base_offset: int,
        base_timestamp: int,
        base_sequence: int,
        append_time: int | None,
    ) -> tuple[list[Any], int]: ...

_Field = tuple[str, bytes | None]

@final
class LogRows:
    """Writes batches and their records as lines of JSON, for `kafkawire.logdir.jsonl`."""

    def __init__(
        self,
        batch: list[_Field],
        record: list[_Field],
        header: list[str],
        codecs: list[bytes],
        timestamp_types: tuple[bytes, bytes],
        markers: tuple[bytes, bytes],
        printable: bytes,
        marker_records: bool,
        max_batch_bytes: int,
    ) -> None: ...
    def lines(self, data: _Bytes, origin: int, start: int, until: int, most: int) -> tuple[_Bytes, int, bool]: ...

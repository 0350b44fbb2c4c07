"""The native engine (`native/`), where a Rust compiler was at install time. `kafkawire.wire.backend` knows whether."""

from collections.abc import Callable
from typing import Any, TypeAlias, final

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
        self,
        table: Table,
        fields: list[list[tuple[str, bool]]],
        defaults: list[list[bytes]],
        headers: bytes,
        names: list[bytes],
        roles: list[bytes],
    ) -> None: ...
    def body(
        self, data: bytes, version: int, text: bool, payloads: bool
    ) -> tuple[bytes | None, dict[int, int]] | None: ...

_Address = tuple[bytes, int]

@final
class Tracker:
    """Connections of a capture, for `kafkawire.capture.native_tracker`, which has the types of the arguments.

    The handler gives writers of bodies, one of record batches (`record_rows`), and the JSON of what is inside of bytes.
    """

    def __init__(
        self,
        handler: Any,
        options: Any,
        limits: Any,
        order: tuple[int, int, int | None],
        as_lines: bool,
        as_columns: tuple[int, int] | None,
        selection: Any | None,
        as_statistics: tuple[float, float] | None,
    ) -> None: ...
    @property
    def open(self) -> int: ...
    @property
    def held(self) -> int: ...
    def packet(self, link_type: int, data: bytes, packet: int, time_ns: int, /) -> bool: ...
    def segment(
        self,
        source: _Address,
        destination: _Address,
        sequence: int,
        acknowledgment: int,
        flags: int,
        payload: bytes,
        missing: int,
        packet: int,
        time_ns: int,
        /,
    ) -> None: ...
    def passed(self, time_ns: int) -> None: ...
    def damaged(self, packet: int, problem: str) -> None: ...
    def finish(self) -> None: ...
    def ready(self) -> list[Any]: ...
    def run(
        self, data: bytes, at: int, format: tuple[bool, int, int, int, int], number: int, recent: list[int]
    ) -> tuple[int, int, list[int]]: ...
    def run_blocks(
        self, data: bytes, at: int, little: bool, interfaces: list[tuple[int, int, int] | None], number: int
    ) -> tuple[int, int]: ...

@final
class ColumnPlan:
    """A plan of `kafkawire.wire.columns` (`plan.LayoutPlan`), ready to be executed."""

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
class CsvLines:
    """Makes csv of `rows.Lines`, for `kafkawire.cli.output`."""

    def __init__(self, columns: list[str]) -> None: ...
    def lines(self, data: bytes | memoryview) -> bytes: ...

@final
class LogRows:
    """Writes batches and their records as JSON, for `kafkawire.rows.native_lines`."""

    def __init__(
        self,
        batch: list[_Field],
        record: list[_Field],
        header: list[str],
        codecs: list[bytes],
        timestamp_types: tuple[bytes, bytes],
        markers: tuple[bytes, bytes],
        states: list[bytes],
        printable: bytes | None,
        decoded_markers: list[tuple[bytes, bytes]] | None,
        max_batch_bytes: int,
        threads: int,
    ) -> None: ...
    def lines(
        self, data: _Bytes, origin: int, starts: _Int64, states: NDArray[np.int8] | None, most: int
    ) -> tuple[_Bytes, int, bool]: ...

LOG_RULES: list[str]

_Scanned: TypeAlias = tuple[
    int, int, int, int, tuple[int, int, int] | None, tuple[_Int64, _Int64, _Int64], _Bytes, _Columns
]

#: Bytes; or the descriptor of an open file, two positions, and bytes after which no more are taken, and read at once.
_Content: TypeAlias = _Bytes | tuple[int, tuple[int, int], tuple[int, int]]

def scan_log(content: _Content, following: int | None, max_batch_bytes: int, by_brokers: bool, /) -> _Scanned: ...
def range_digests(base: _Int64, last: _Int64, crc: NDArray[np.uint64], /) -> _Bytes: ...

@final
class LogReplay:
    """The producers of a partition's log, for `kafkawire.transactions.ordered_replay`."""

    def __init__(self, expiration_ms: int | None) -> None: ...
    def __len__(self) -> int: ...
    def restore(self, rows: _Int64, /) -> None: ...
    def row(self, producer_id: int, /) -> _Int64 | None: ...
    def rows(self, start: int, stop: int, /) -> _Int64: ...
    def open(self) -> _Int64: ...
    def last_appends(self) -> tuple[_Int64, _Int64, _Int64]: ...
    def run(
        self, columns: _Columns, start: int, asked: NDArray[np.bool_] | None, /
    ) -> tuple[int, _Bytes, _Int64, _Int64, _Int64, NDArray[np.uint64]]: ...

_Open: TypeAlias = tuple[_Int64, _Int64]

def transactions_of(
    open: _Open, producer_ids: _Int64, offsets: _Int64, controls: NDArray[np.int8], /
) -> tuple[_Int64, _Int64, _Open]: ...

COORDINATOR_NUMBERS: int

def coordinator_columns(
    data: _Bytes, positions: _Int64, first: int, max_batch_bytes: int, /
) -> tuple[_Bytes, list[bytes], list[bytes], int]: ...
def settle_agreeing(
    decided: list[tuple[_Bytes, int]],
    ended: list[list[_Bytes]],
    listed: Callable[[int, int], bool],
    share: tuple[int, int],
    /,
) -> tuple[_Int64, list[list[NDArray[np.uint32]]]]: ...

@final
class CoordinatorReplay:
    """One partition of `__transaction_state`, for `kafkawire.transactions.auditing.id_history`."""

    def __init__(self) -> None: ...
    def reach(self, offset: int, /) -> None: ...
    @property
    def intact_from(self) -> int: ...
    def run(
        self, rows: _Bytes, names: list[bytes], lists: list[bytes], start: int, /
    ) -> tuple[int, _Int64, tuple[int, int, int]]: ...
    def read(
        self, data: _Bytes, positions: _Int64, first: int, max_batch_bytes: int, /
    ) -> tuple[int, bool, _Int64, tuple[int, int, int]]: ...
    def walk(
        self, content: _Content, following: int | None, max_batch_bytes: int, /
    ) -> tuple[int, int, int, int, int, _Int64, _Int64, _Bytes, _Int64, tuple[int, int, int]]: ...
    def names(self, start: int, /) -> list[bytes]: ...
    def lists(self, start: int, /) -> list[bytes]: ...
    def newest(self) -> _Bytes: ...
    def owners(self) -> tuple[_Int64, NDArray[np.uint32], NDArray[np.bool_]]: ...
    def uses(self) -> _Int64: ...
    def decided(self, last: bool, /) -> _Bytes: ...
    def completed(self) -> _Int64: ...

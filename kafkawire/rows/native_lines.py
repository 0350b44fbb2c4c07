"""The native engine's writer of batches and records as JSON: it writes the rows of `segments` without creating
objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkawire.records import CODECS, CONTROL_TYPES, MAX_BATCH_BYTES
from kafkawire.records.batch import TIMESTAMP_TYPES
from kafkawire.records.control import ABORT, COMMIT
from kafkawire.records.control_json import decoded_control
from kafkawire.rows.base import field_names
from kafkawire.rows.segments import HeaderRow
from kafkawire.wire.backend import native

#: The epoch of a marker of which the JSON is made, in place of that of each.
_EPOCH = 0x7FFFFFFF


def log_rows(
    batch: Sequence[str],
    record: Sequence[str],
    constants: Mapping[str, Any],
    *,
    encode: Callable[[Any], bytes],
    states: Sequence[str] = (),
    printable: bytes | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    threads: int = 1,
) -> Any | None:
    """A `_native.LogRows`; None without the engine, and where it does not know a field.

    Args:
        batch, record: the fields of rows of batches and of records, in their order. Without those of records there are
            no such rows.
        constants: the values of fields that are the same in all rows.
        encode: writes a value as JSON.
        states: what may become of transactions.
        printable: a byte for each character, 0 for those that `encode` escapes although JSON does not ask for it; None
            if there are none.
        max_batch_bytes: of a batch, decompressed.
        threads: how many write lines side by side.
    """
    if native is None:
        return None

    def listed(kind: str, names: Sequence[str]) -> list[tuple[str, bytes | None]]:
        fixed = {"kind": kind, **constants}
        return [(name, encode(fixed[name]) if name in fixed else None) for name in names]

    try:
        return native.LogRows(
            listed("batch", batch),
            listed("record", record),
            list(field_names(HeaderRow)),
            list(map(encode, CODECS)),
            (encode(TIMESTAMP_TYPES[0]), encode(TIMESTAMP_TYPES[1])),
            (encode(CONTROL_TYPES[ABORT]), encode(CONTROL_TYPES[COMMIT])),
            list(map(encode, states)),
            printable,
            [_around_epoch(kind, encode) for kind in (ABORT, COMMIT)] if "decoded" in record else None,
            max_batch_bytes,
            threads,
        )
    except ValueError:
        return None


def _around_epoch(kind: int, encode: Callable[[Any], bytes]) -> tuple[bytes, bytes]:
    """The JSON of a marker's record before and after its coordinator epoch."""
    key, value = bytes(2) + kind.to_bytes(2, "big"), bytes(2) + _EPOCH.to_bytes(4, "big")
    before, _, behind = encode(decoded_control(key, value)).partition(str(_EPOCH).encode())
    return before, behind

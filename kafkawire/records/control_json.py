"""The records of control batches as JSON (Kafka's `ControlRecordUtils`, `EndTransactionMarker`)."""

from __future__ import annotations

from typing import Any

from kafkawire._lookup import lookup
from kafkawire.records.control import CONTROL_MESSAGES
from kafkawire.records.decoded_message import Decoded, decode, int16

_PREFIXED = ("EndTxnMarker",)


def decoded_control(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Key and value of a control record, as JSON: `{"key": ..., "value": ...}`.

    A version that is newer than the newest known is read as that: newer markers only grow at their end.
    """
    parts = {"key": _decode("ControlRecordTypeSchema", key, prefixed=True), "value": _value(key, value)}
    return {name: part.to_json() if part else None for name, part in parts.items()}


def _value(key: bytes | None, value: bytes | None) -> Decoded | None:
    number = None if key is None or len(key) < 4 else int.from_bytes(key[2:4], "big", signed=True)
    name = None if number is None else CONTROL_MESSAGES.get(number)
    if name is None:
        return None if value is None else Decoded(problem=f"unknown control record type {number}")
    return _decode(name, value, prefixed=name in _PREFIXED)


def _decode(name: str, data: bytes | None, *, prefixed: bool) -> Decoded | None:
    if data is None:
        return None
    version = int16(data)
    if version is None or version < 0:
        return Decoded(name, version, problem="no version at its beginning")
    message = lookup(name)
    return decode(message, data, min(version, message.spec.valid_versions[-1]), 2 if prefixed else 0)

"""Batches of every kind, as Kafka's Java describes them (tools.oracle), and questions to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from kafkawire.errors import RecordError
from kafkawire.records import CODECS, Batch, Header, Record, read

#: `build`'s arguments -> the oracle's
_NAMES = {
    "magic": "magic", "codec": "codec", "base_offset": "baseOffset", "last_offset": "lastOffset",
    "append_time": "appendTime", "delete_horizon": "deleteHorizon", "producer_id": "producerId",
    "producer_epoch": "producerEpoch", "base_sequence": "baseSequence", "partition_leader_epoch": "leaderEpoch",
    "transactional": "transactional", "control": "control",
}  # fmt: skip
_FIELDS = (
    "size", "magic", "crc", "last_offset", "max_timestamp", "timestamp_type", "producer_id", "producer_epoch",
    "base_sequence", "last_sequence", "partition_leader_epoch", "transactional", "is_control", "delete_horizon",
    "codec", "base_offset",
)  # fmt: skip

RECORDS = [
    Record(b"key", b"a value, a value, a value" * 10, (Header("h", b"x"), Header("", None)), 20, 1_700_000_000_000),
    Record(None, b"", (), 21, 1_700_000_000_500),
    Record(b"", None, (), 25, 1_699_999_999_000),
    Record(None, None, (), 26, -1),
]
PRODUCER: dict[str, Any] = {"producer_id": 4001, "producer_epoch": 3, "base_sequence": 2**31 - 3}
STATES: dict[str, dict[str, Any]] = {
    "plain": {},
    "stamped": {"append_time": 1_700_000_100_000},
    "idempotent": PRODUCER,
    "transactional": PRODUCER | {"transactional": True},
    "led": {"partition_leader_epoch": 7},
    "horizon": {"delete_horizon": 1_700_000_200_000},
    "everything": PRODUCER
    | {"transactional": True, "append_time": 5, "delete_horizon": 9, "partition_leader_epoch": 1},
    "shortened": PRODUCER | {"last_offset": 40},
}
COMBINATIONS = [
    (magic, codec, state)
    for magic, codec, state in itertools.product((0, 1, 2), CODECS, STATES)
    if magic == 2 or (codec != "zstd" and state in (("plain", "stamped") if magic else ("plain",)))
]


def for_magic(magic: int, listed: list[Record]) -> list[Record]:
    """The records, without what the magic has no place for."""
    if magic == 2:
        return listed
    return [Record(r.key, r.value, (), r.offset, r.timestamp if magic else -1) for r in listed]


def question(records: Iterable[Record], options: Mapping[str, Any]) -> dict[str, Any]:
    """What makes the oracle write what `build(records, **options)` does."""
    asked = {_NAMES[name]: value for name, value in options.items() if value is not None}
    return {"op": "batches.write", **asked, "records": [_record(record) for record in records]}


def described(batch: Batch) -> dict[str, Any]:
    """The batch as the oracle describes it. RecordError where its records are damaged."""
    fields = {name: getattr(batch, name) for name in _FIELDS}
    return fields | {"records": [_record(record) | {"sequence": record.sequence} for record in batch.records]}


def read_one(data: bytes, **options: Any) -> dict[str, Any] | str:
    """The batch that `data` is, described; or why it is none. `options`: of `kafkawire.records.read`."""
    items = list(read(data, **options))
    if len(items) != 1 or not isinstance(items[0], Batch):
        return "; ".join("a batch" if isinstance(item, Batch) else f"{item.reason}: {item.detail}" for item in items)
    try:
        return described(items[0])
    except RecordError as error:
        return str(error)


def java_one(answer: Mapping[str, Any]) -> dict[str, Any] | str:
    """The oracle's word on the same."""
    problem = answer.get("error") or answer.get("stopped")
    if problem or len(answer["batches"]) != 1:
        return problem or f"{len(answer['batches'])} batches"
    (batch,) = answer["batches"]
    if "error" in batch or "recordsError" in batch:
        return str(batch.get("error") or batch["recordsError"])
    return {name: value for name, value in batch.items() if not name.startswith("control")}


def _record(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _hex(record.key),
        "value": _hex(record.value),
        "headers": [[header.key, _hex(header.value)] for header in record.headers],
    }


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()

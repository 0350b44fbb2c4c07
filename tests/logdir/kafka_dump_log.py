"""The output of Kafka's DumpLogSegments for files, as data; and our rows in the same form, to be compared."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire import rows
from tools.broker import BrokerUnavailableError
from tools.broker.kafka_tools import run_tool

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}

Dumped = dict[str, Any]

_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>\d+) lastOffset: (?P<last_offset>\d+) count: (?P<records>\d+) "
    r"baseSequence: (?P<sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+) producerId: (?P<producer_id>-?\d+) "
    r"producerEpoch: (?P<producer_epoch>-?\d+) partitionLeaderEpoch: (?P<leader_epoch>-?\d+) "
    r"isTransactional: (?P<transactional>\w+) isControl: (?P<control>\w+) "
    r"deleteHorizonMs: OptionalLong(?:\.empty|\[(?P<delete_horizon>\d+)\]) "
    r"position: (?P<position>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) size: (?P<size>\d+) "
    r"magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: (?P<valid>\w+)"
)
_LEGACY_BATCH = re.compile(
    r"offset: (?P<last_offset>\d+) position: (?P<position>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) "
    r"size: (?P<size>\d+) magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: (?P<valid>\w+)"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) "
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r"(?: sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>.*?)\])?"
    r"(?: isValid: (?P<valid>\w+) crc: (?P<crc>\d+))?(?P<content>.*)",
    re.DOTALL,
)
_OTHERS = [
    re.compile(r"offset: (?P<offset>-?\d+) position: (?P<log_position>-?\d+)"),
    re.compile(r"timestamp: (?P<timestamp>-?\d+) offset: (?P<offset>-?\d+)"),
    re.compile(
        r"version: (?P<version>-?\d+) producerId: (?P<producer_id>-?\d+) firstOffset: (?P<first_offset>-?\d+) "
        r"lastOffset: (?P<last_offset>-?\d+) lastStableOffset: (?P<last_stable_offset>-?\d+)"
    ),
    re.compile(
        r"producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<epoch>-?\d+) "
        r"coordinatorEpoch: (?P<coordinator_epoch>-?\d+) "
        r"currentTxnFirstOffset: Optional(?:Long)?(?:\.empty|\[(?P<current_txn_first_offset>-?\d+)\]) "
        r"lastTimestamp: (?P<timestamp>-?\d+)"
        r"(?: firstSequence: (?P<first_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+) "
        r"lastOffset: (?P<last_offset>-?\d+) offsetDelta: (?P<offset_delta>-?\d+) timestamp: -?\d+)?"
    ),
]
_CONTROL = re.compile(r" (LeaderChange:|SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters) (\{.*\})", re.DOTALL)
_MARKER = re.compile(r" endTxnMarker: (\w+) coordinatorEpoch: (-?\d+)")
_IGNORED = re.compile(r"Log starting offset: |Snapshot end offset: |KRaft bootstrap snapshot|.* is empty\.$")


def dump_log_segments(files: Sequence[Path], *flags: str) -> dict[str, list[Dumped]]:
    """The tool's output for each file, entry by entry. Skips the test where the tool cannot be run."""
    try:
        text = run_tool("DumpLogSegments", "--files", ",".join(map(str, files)), *flags)
    except BrokerUnavailableError as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))
    found: dict[str, list[Dumped]] = {}
    for line in text.split("\n"):
        if line.startswith("Dumping "):
            entries = found[line.removeprefix("Dumping ")] = []
        elif line and not _IGNORED.match(line):
            entries.append(_parsed(line))
    assert len(found) == len(files)
    return found


def _parsed(line: str) -> Dumped:
    for kind, layout in (("batch", _BATCH), ("batch", _LEGACY_BATCH), ("record", _RECORD)):
        if match := layout.fullmatch(line):
            dumped = {name: _value(name, value) for name, value in match.groupdict().items()}
            if kind == "record":
                dumped["content"] = _content(dumped["content"])
            return {"kind": kind, **dumped}
    for layout in _OTHERS:
        if match := layout.fullmatch(line):
            return {name: _value(name, value) for name, value in match.groupdict().items()}
    raise AssertionError(f"not understood: {line!r}")


def _value(name: str, value: str | None) -> Any:
    if value is None or name in ("content", "headers", "codec", "timestamp_type"):
        return value
    return {"true": True, "false": False}[value] if value in ("true", "false") else int(value)


def _content(text: str) -> Any:
    """`{"key", "payload"}`, JSON where it is; a control record as `(name, value)`."""
    if match := _MARKER.fullmatch(text):
        return match[1], int(match[2])
    if match := _CONTROL.fullmatch(text):
        return match[1].rstrip(":"), json.loads(match[2])
    key, _, payload = text.partition(" payload: ")
    return {"key": _json(key.removeprefix(" key: ")) if key else None, "payload": _json(payload) if payload else None}


def _json(text: str) -> Any:
    return json.loads(text) if text.startswith('{"') else text


# Our rows in the tool's form ------------------------------------------------------------------------------------------


def as_dumped(found: Iterator[rows.Row], decoder: str | None) -> list[Dumped]:
    """Rows in the form of `dump_log_segments`; no damage may be among them."""
    dumped: list[Dumped] = []
    magic = 2
    for row in found:
        assert not (isinstance(row, rows.DamageRow) and not row.harmless), row
        if isinstance(row, rows.BatchRow):
            magic = row.magic
            dumped.append(_batch(row))
        elif isinstance(row, rows.RecordRow):
            dumped.append(_record(row, magic, decoder))
        elif isinstance(row, rows.Index):
            dumped.append({"offset": row.offset, "log_position": row.log_position})
        elif isinstance(row, rows.TimeIndex):
            dumped.append({"timestamp": row.timestamp, "offset": row.offset})
        elif isinstance(row, rows.TxnIndex):
            names = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
            dumped.append({name: getattr(row, name) for name in names})
        elif isinstance(row, rows.Snapshot):
            dumped.append(_snapshot(row))
    return dumped


_BATCH_FIELDS = (
    "base_offset", "last_offset", "records", "sequence", "last_sequence", "producer_id", "producer_epoch",
    "leader_epoch", "transactional", "delete_horizon", "position", "timestamp_type", "timestamp", "size", "magic",
    "codec", "crc",
)  # fmt: skip
_LEGACY_FIELDS = ("last_offset", "position", "timestamp_type", "timestamp", "size", "magic", "codec", "crc")


def _batch(row: rows.BatchRow) -> Dumped:
    if row.magic < 2:
        return {"kind": "batch", **{name: getattr(row, name) for name in _LEGACY_FIELDS}, "valid": True}
    dumped = {name: getattr(row, name) for name in _BATCH_FIELDS}
    return {"kind": "batch", **dumped, "control": row.control is not None, "valid": True}


def _record(row: rows.RecordRow, magic: int, decoder: str | None) -> Dumped:
    plain = rows.to_dict(row)
    dumped = {name: plain[name] for name in ("offset", "timestamp_type", "timestamp")}
    dumped |= {name: -1 if plain[name] is None else plain[name] for name in ("key_size", "value_size")}
    legacy = magic < 2
    dumped["sequence"] = None if legacy else plain["sequence"]
    dumped["headers"] = None if legacy else ",".join(header["key"] for header in plain["headers"])
    dumped["valid"], dumped["crc"] = None, None
    return {"kind": "record", **dumped, "content": _printed_content(plain, decoder)}


def _printed_content(plain: dict[str, Any], decoder: str | None) -> Any:
    if plain["control"] in ("COMMIT", "ABORT"):
        return plain["control"], plain["coordinator_epoch"]
    if plain["control"] is not None:
        return _CONTROL_NAMES[plain["control"]], plain["decoded"]["value"]["data"]
    if decoder is None:
        return {name: _raw(plain, ours) for name, ours in (("key", "key"), ("payload", "value"))}
    key, value = plain["decoded"]["key"], plain["decoded"]["value"]
    # What is inside of a message may have a problem, too; the message is there then, and the tool prints it.
    problems = [part["problem"] for part in (key, value) if part and part["data"] is None]
    if problems:
        return {"problems": problems}
    key, value = _without_decoded(key), _without_decoded(value)
    if decoder in ("__cluster_metadata", "__remote_log_metadata"):
        dumped = {"type": _constant(value["name"]), "version": value["version"], "data": value["data"]}
        return {"key": None, "payload": dumped}
    payload = "<DELETE>" if value is None else {"version": str(value["version"]), "data": value["data"]}
    return {"key": {"type": str(kafkawire.lookup(key["name"]).spec.api_key), "data": key["data"]}, "payload": payload}


def _without_decoded(value: Any) -> Any:
    """Without what we show beside bytes and numbers, and the tool does not."""
    if isinstance(value, list):
        return [_without_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    shown = {key: each for key, each in value.items() if not key.endswith("Decoded") and key != "deliveryStateName"}
    return {key: _without_decoded(each) for key, each in shown.items()}


_CONTROL_NAMES = {
    "LEADER_CHANGE": "LeaderChange",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


def _raw(plain: dict[str, Any], name: str) -> Any:
    """Bytes as Java's StringDecoder shows them: U+FFFD for what is no UTF-8; nothing for null."""
    text = plain[name]
    if text is None and plain[f"{name}_base64"] is not None:
        text = b64decode(plain[f"{name}_base64"]).decode("utf-8", "replace")
    return None if text is None else _json(text) or None


def _constant(name: str) -> str:
    """`FeatureLevelRecord` -> `FEATURE_LEVEL_RECORD`, the tool's name of a record's type."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _snapshot(row: rows.Snapshot) -> Dumped:
    first = row.current_txn_first_offset
    dumped = {
        "producer_id": row.producer_id,
        "epoch": row.epoch,
        "coordinator_epoch": row.coordinator_epoch,
        "current_txn_first_offset": None if first < 0 else first,
        "timestamp": row.timestamp,
    }
    batch: dict[str, int | None] = dict.fromkeys(("first_sequence", "last_sequence", "last_offset", "offset_delta"))
    if row.last_offset >= 0:  # else only markers were met
        batch = {
            "first_sequence": (row.last_sequence - row.offset_delta) % (1 << 31),
            "last_sequence": row.last_sequence,
            "last_offset": row.last_offset,
            "offset_delta": row.offset_delta,
        }
    return dumped | batch

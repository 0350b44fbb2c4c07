"""The changed files, read by Kafka's own classes: which of them these refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from kafkawire.records import Batch, read
from tests.worlds import TOPIC
from tools.audit_faults.faults import LogFault, partition_of
from tools.audit_faults.layouts import LAYOUTS, Row
from tools.audit_faults.sound import Files
from tools.broker import jars
from tools.oracle import Oracle


def oracle() -> Oracle:
    """The classes of the newest broker.

    Raises OracleUnavailableError, BrokerUnavailableError.
    """
    return Oracle(jars.BROKER_VERSION, sorted(jars.broker_jars().glob("*.jar")))


def refused(java: Oracle, files: Files, chosen: Iterable[LogFault]) -> Iterator[tuple[LogFault, tuple[str, ...]]]:
    """What is refused of the changed files and not of the sound ones, in words.

    Args:
        files: of the seed of all these faults.
    """
    sound: dict[str, set[str]] = {}
    for fault in chosen:
        found: set[str] = set()
        for path, data in fault.changed().items():
            if path not in sound:
                sound[path] = set(_asked(java, path, files))
            found |= set(_asked(java, path, {**files, path: data})) - sound[path]
        yield fault, tuple(sorted(found))


def _asked(java: Oracle, path: str, files: dict[str, Any]) -> Iterator[str]:
    """What is refused of the file, or of the log that it is part of."""
    name, partition = PurePosixPath(path), partition_of(path)
    if partition is None or files.get(path) is None:
        return
    data: bytes = files[path]
    if name.suffix == ".txnindex":
        yield from _error(java.one(op="judge.txnindex", start=int(name.stem), bytes=data.hex()))
    elif name.suffix == ".snapshot":
        yield from _error(java.one(op="judge.snapshot", bytes=data.hex()))
    elif name.suffix == ".log" and partition[0] == TOPIC:
        yield from _log(java, path, files)
    elif name.suffix == ".log" and partition[0] == "__transaction_state":
        yield from _records(java, data)


def _log(java: Oracle, path: str, files: dict[str, Any]) -> Iterator[str]:
    folder = str(PurePosixPath(path).parent)
    log = b"".join(
        data
        for other, data in sorted(files.items())
        if other.startswith(folder + "/") and other.endswith(".log") and data
    )
    answer = java.one(op="judge.log", bytes=log.hex(), raised=sorted(_raised(log, files)))
    yield from _error(answer)
    for offset, origin, why in answer.get("refused", ()):
        yield f"{offset} {origin} {why}"


def _raised(log: bytes, files: dict[str, Any]) -> Iterator[int]:
    """The offsets of markers of producers whose coordinators use transaction version 2."""
    versions = {
        row["producer_id"]: row["client_transaction_version"]
        for path, data in files.items()
        if (partition_of(path) or ("",))[0] == "__transaction_state" and path.endswith(".log") and data
        for row in _values(data)
    }
    return (
        item.base_offset
        for item in read(log, check_crc=False)
        if isinstance(item, Batch) and item.is_control and versions.get(item.producer_id, 0) >= 2
    )


def _values(data: bytes) -> list[Row]:
    return [row for row in LAYOUTS["TransactionLogValue"].read(data) if not row["_tombstone"]]


def _records(java: Oracle, data: bytes) -> Iterator[str]:
    """Each record after the one before of its transactional id."""
    before: dict[str, str | None] = {}
    offsets, questions = [], []
    for row in LAYOUTS["TransactionLogValue"].read(data):
        name = row["transactional_id"]
        after = None if row["_tombstone"] else row["_value"].hex()
        if after is not None:
            offsets.append(row["_offset"])
            questions.append({"op": "transactions.follow", "before": before.get(name), "after": after})
        before[name] = after
    for offset, answer in zip(offsets, java.ask(questions), strict=True):
        yield from (f"{offset} {error}" for error in _error(answer))


def _error(answer: dict[str, Any]) -> Iterator[str]:
    if "error" in answer:
        yield f"{answer['error'].rpartition('.')[2]}: {answer['text']}"

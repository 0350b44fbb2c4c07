"""Jobs of kafkawire itself. The engine is the one that `KAFKAWIRE_BACKEND` chose for the process."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from tools.bench.job import AbsentError, Job, digest, digest_all

_TWO = struct.Struct(">qq")
_ONE = struct.Struct(">q")


def _require(engine: str) -> None:
    from kafkawire.errors import BackendError

    try:
        import kafkawire

        found = kafkawire.backend
    except BackendError as error:
        raise AbsentError(str(error)) from error
    assert found == engine, f"asked for {engine}, got {found}"


def codec(
    engine: str, operation: str, message: str, version: str, path: str, copy: str = "yes", strict: str = "no"
) -> Job:
    """One message: bytes to objects, or objects to bytes."""
    _require(engine)
    from kafkawire import messages

    cls = getattr(messages, message)
    data = Path(path).read_bytes()
    number, own, canonical = int(version), copy == "yes", strict == "yes"
    if cls.codec.engine.decode(data, number, 0, canonical, own) is None:
        raise RuntimeError(f"the {engine} engine leaves {message} v{version} to the interpreter")
    value = cls.decode(data, number, copy=own, strict=canonical)
    check = digest(value.encode(number))
    if operation == "encode":
        return Job(lambda: value.encode(number), check, len(data))
    if own and not canonical:
        return Job(lambda: cls.decode(data, number), check, len(data))
    return Job(lambda: cls.decode(data, number, copy=own, strict=canonical), check, len(data))


def records(engine: str, path: str, shape: str) -> Job:
    """A record set: every record as an object, or every batch's header. Checksums are compared."""
    _require(engine)
    from kafkawire.records import Batch, read

    data = Path(path).read_bytes()

    def batches() -> Iterable[Batch]:
        for batch in read(data):
            if not isinstance(batch, Batch):
                raise batch.error()
            yield batch

    def objects() -> None:
        for batch in batches():
            for _ in batch.records:
                pass

    def headers() -> int:
        return sum(batch.last_offset + batch.record_count for batch in batches())

    if shape == "headers":
        rows = (_TWO.pack(batch.last_offset, batch.record_count) for batch in batches())
        return Job(headers, digest_all(rows), len(data))
    return Job(objects, records_check(r for batch in batches() for r in batch.records), len(data))


def records_check(rows: Iterable[Any]) -> str:
    """Digest of offsets, timestamps, keys and values, as `Records.java` makes it."""
    return digest_all(_TWO.pack(row.offset, row.timestamp) + row.key + row.value for row in rows)


def dump(engine: str, file: str, small: str, options: str) -> Job:
    """`kafkawire dump`, called as the command is; `small` is a file whose rows are compared with kafka-dump-log's."""
    _require(engine)
    from kafkawire.cli import main

    words = options.split()

    def run(path: str = file) -> None:
        code = main(["dump", path, *words])
        if code:
            raise RuntimeError(f"kafkawire dump {path} ended with {code}")

    return Job(run, _printed_check(lambda: run(small)), Path(file).stat().st_size)


def _printed_check(run: Callable[[], None]) -> str:
    """Digest of the rows that a command prints: batches' base offsets, and records' offsets, keys and values."""
    with tempfile.TemporaryFile() as printed:
        usual = os.dup(1)
        os.dup2(printed.fileno(), 1)
        try:
            run()
            sys.stdout.flush()
        finally:
            os.dup2(usual, 1)
            os.close(usual)
        printed.seek(0)
        return digest_all(_row(msgspec.json.decode(line)) for line in printed)


def _row(row: dict[str, Any]) -> bytes:
    if row["kind"] == "batch":
        return _ONE.pack(row["base_offset"])
    if row["kind"] == "record" and "value" in row:
        return _ONE.pack(row["offset"]) + row["key"].encode() + row["value"].encode()
    raise RuntimeError(f"an unexpected row: {row}")

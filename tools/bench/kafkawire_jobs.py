"""Jobs of kafkawire itself. `engine` is the one that `KAFKAWIRE_BACKEND` chose for the process: native or python."""

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
    assert found == engine, f"expected {engine}, got {found}"


def codec(
    engine: str, operation: str, message: str, version: str, path: str, copy: str = "yes", strict: str = "no"
) -> Job:
    """One message: bytes to objects, or objects to bytes.

    Args:
        operation: "decode" or "encode". `message`: the class's name. `version`: a number.
        path: of the file with the message's bytes.
        copy: "yes", or "no" for views of the input. `strict`: "yes" for `strict=True`.
    """
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
    """A record set: every record as an object, or every batch's header. Checksums are compared.

    Args:
        path: of the record set. `shape`: "objects" for records, "headers" for batches.
    """
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


def record_columns(engine: str, path: str, shape: str) -> Job:
    """The same as NumPy columns: of records, or of batches' headers.

    Args:
        path: of the record set. `shape`: "columns" for records, "headers" for batches.
    """
    _require(engine)
    from kafkawire.records import columns

    data = Path(path).read_bytes()

    def sound(items: Iterable[Any], kind: type) -> Iterable[Any]:
        for item in items:
            if not isinstance(item, kind):
                raise RuntimeError(f"an unexpected {type(item).__name__}")
            yield item

    def records_of() -> Iterable[columns.Records]:
        return sound(columns.read(data), columns.Records)

    def batches() -> Iterable[columns.Batches]:
        return sound(columns.batches(data), columns.Batches)

    if shape == "headers":
        rows = (
            _TWO.pack(last, count)
            for found in batches()
            for last, count in zip(found.last_offset.tolist(), found.record_count.tolist(), strict=True)
        )
        return Job(lambda: sum(int(found.last_offset[-1]) for found in batches()), digest_all(rows), len(data))
    return Job(lambda: sum(len(found) for found in records_of()), digest_all(_column_rows(records_of())), len(data))


def _column_rows(pieces: Iterable[Any]) -> Iterable[bytes | memoryview]:
    """The bytes of `records_check`, out of columns."""
    for found in pieces:
        data = memoryview(found.data)
        fields = (
            found.offset,
            found.timestamp,
            found.key_start,
            found.key_length,
            found.value_start,
            found.value_length,
        )
        for offset, time, key, key_length, value, value_length in zip(
            *(field.tolist() for field in fields), strict=True
        ):
            yield _TWO.pack(offset, time)
            yield data[key : key + key_length]
            yield data[value : value + value_length]


def records_check(rows: Iterable[Any]) -> str:
    """Digest of offsets, timestamps, keys and values, as `Records.java` makes it."""
    return digest_all(_TWO.pack(row.offset, row.timestamp) + row.key + row.value for row in rows)


def values(engine: str, path: str, ends: str) -> Job:
    """Many TransactionLogValues, all fields of them as Arrow columns.

    Args:
        path: of the values, one after the other. `ends`: of a file with the end of each, as big-endian int32.
    """
    _require(engine)
    import numpy as np

    from kafkawire.messages import TransactionLogValue
    from kafkawire.wire import columns

    data = Path(path).read_bytes()
    offsets = np.concatenate(([0], np.fromfile(ends, ">i4"))).astype(np.int64)

    def decode() -> Any:
        return columns.decode(TransactionLogValue, data, 1, offsets=offsets)

    return Job(decode, digest_all(_value_rows(decode().to_pylist())), len(data))


def _value_rows(rows: Iterable[dict[str, Any]]) -> Iterable[bytes]:
    """The bytes of which `LogValues.java` makes its digest."""
    for row in rows:
        if row["_error"] is not None:
            raise RuntimeError(row["_error"])
        yield _TWO.pack(row["producer_id"], row["transaction_last_update_timestamp_ms"])
        for topic in row["transaction_partitions"]:
            yield topic["topic"].encode()
            for partition in topic["partition_ids"]:
                yield _TWO.pack(partition, 0)


def dump(engine: str, file: str, small: str, options: str, output: str = "") -> Job:
    """`kafkawire dump`, called as the command is.

    Args:
        file: the segment that is measured. `small`: one whose rows are compared with kafka-dump-log's.
        options: of the command line, separated by blanks. `output`: a Parquet file that every run writes anew; by
            default jsonl on standard output.
    """
    _require(engine)
    from kafkawire.cli import main

    words = options.split() + (["--format", "parquet", "--output", output] if output else ["--format", "jsonl"])

    def run(path: str = file) -> None:
        code = main(["dump", path, *words])
        if code:
            raise RuntimeError(f"kafkawire dump {path} ended with {code}")

    def written() -> Iterable[dict[str, Any]]:
        import pyarrow.parquet as pq

        run(small)
        found: list[dict[str, Any]] = pq.read_table(output).to_pylist()
        return found

    rows = written() if output else _printed(lambda: run(small))
    data = (row for row in rows if row.get("control") is None)  # committed records come without markers
    return Job(run, digest_all(map(_row, data)), Path(file).stat().st_size)


def dump_arrow(engine: str, file: str, small: str) -> Job:
    """The rows of `kafkawire dump --print-data-log` as Arrow arrays, before they go into any file.

    Args:
        file: the segment that is measured. `small`: the one whose rows are compared.
    """
    _require(engine)
    from kafkawire import logdir, rows
    from kafkawire.cli.formatting import json_bytes
    from kafkawire.logdir.segment_arrays import columns_of

    options = logdir.Options(deep=True, payloads=True)

    def found(path: str) -> Iterable[rows.Columns]:
        (opened,) = logdir.open(path).files
        for item in columns_of(opened, options, encode=json_bytes):
            if not isinstance(item, rows.Columns):
                raise RuntimeError(f"an unexpected row: {item}")
            yield item

    def listed(item: rows.Columns) -> Iterable[dict[str, Any]]:
        import pyarrow as pa

        made: list[dict[str, Any]] = pa.table(item.arrays).to_pylist()
        return made

    check = digest_all(_row(row) for item in found(small) for row in listed(item))
    return Job(lambda: sum(item.length for item in found(file)), check, Path(file).stat().st_size)


def capture(engine: str, path: str, form: str) -> Job:
    """The exchanges of a capture with their bodies, without the start of a command.

    Args:
        path: of the capture.
        form: "jsonl" or "parquet", into a file; "columns", as `kafka_pcap` gives them to Spark.
    """
    _require(engine)
    import pyarrow as pa

    from kafkawire import rows
    from kafkawire.capture import CapturedExchange, ColumnsOfExchanges, LinesOfExchanges
    from kafkawire.capture.reader import read_with
    from kafkawire.capture.tracker import FoundExchanges
    from kafkawire.cli.formatting import json_bytes
    from kafkawire.cli.parquet import write_parquet
    from kafkawire.rows import arrow

    count = 0

    def found(**options: Any) -> Iterable[FoundExchanges]:
        nonlocal count
        read = read_with(path, body=True, text=True, **options)
        yield from read.found()
        count = read.summary.exchanges

    def lines(out: str) -> None:
        with open(out, "wb") as file:
            for each in found(lines=True):
                if isinstance(each, CapturedExchange):
                    file.write(json_bytes(each.row) + b"\n")
                elif isinstance(each, LinesOfExchanges):
                    file.write(each.data)

    def columns(encode: Callable[[Any], bytes]) -> Iterable[rows.Exchange | rows.Columns]:
        for each in found(columns=encode):
            if isinstance(each, CapturedExchange):
                yield each.row
            elif isinstance(each, ColumnsOfExchanges):
                yield rows.Columns(0, each.count, each.arrays)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            if form == "jsonl":
                lines(f"{folder}/rows.jsonl")
            elif form == "parquet":
                write_parquet(columns(json_bytes), [rows.Exchange], f"{folder}/rows.parquet")
            else:
                for each in columns(arrow.json_text):
                    if isinstance(each, rows.Columns):
                        pa.RecordBatch.from_pydict(each.arrays)

    run()
    return Job(run, digest(b"%d" % count), Path(path).stat().st_size)


def _printed(run: Callable[[], None]) -> Iterable[dict[str, Any]]:
    """The rows that a command prints."""
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
        yield from map(msgspec.json.decode, printed)


def _row(row: dict[str, Any]) -> bytes:
    """The bytes of which `Dump.java` makes its digest: batches' base offsets; records' offsets, keys and values."""
    if row["kind"] == "batch":
        return _ONE.pack(row["base_offset"])
    if row["kind"] == "record" and "value" in row:
        key, value = str(row["key"]), str(row["value"])
        return _ONE.pack(row["offset"]) + key.encode() + value.encode()
    raise RuntimeError(f"an unexpected row: {row}")

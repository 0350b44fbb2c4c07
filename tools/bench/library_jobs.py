"""Jobs of the other Python libraries: kio, and kafka-python. `value` and `data` are of the case's message."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tools.bench.job import AbsentError, Job, digest
from tools.bench.kafkawire_jobs import records_check

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: What a library gives for the bytes: the value, what reads them, and what writes it.
Codec = tuple[Callable[[], Any], Callable[[], bytes]]


def kio(operation: str, message: str, version: str, path: str) -> Job:
    """kio's codec of one message. Args: as of `kafkawire_jobs.codec`."""
    return _job(operation, Path(path).read_bytes(), _kio(message, int(version), Path(path).read_bytes()))


def kafka_python(operation: str, message: str, version: str, path: str) -> Job:
    """kafka-python's codec of one message. Args: as of `kafkawire_jobs.codec`."""
    return _job(operation, Path(path).read_bytes(), _kafka_python(message, int(version), Path(path).read_bytes()))


def _job(operation: str, data: bytes, codec: Codec) -> Job:
    read, write = codec
    return Job(read if operation == "decode" else write, digest(write()), len(data))


def _kio(message: str, version: int, data: bytes) -> Codec:
    try:
        from kio.serial import entity_reader, entity_writer
    except ImportError:
        raise AbsentError("kio is not installed") from None
    api, kind = _parts(message)
    try:
        module = import_module(f"kio.schema.{api}.v{version}.{kind}")
    except ImportError:
        raise AbsentError(f"kio has no {message} v{version}") from None
    entity = getattr(module, message)
    reader, writer = entity_reader(entity), entity_writer(entity)
    value, size = reader(data, 0)
    if size != len(data):
        raise AbsentError(f"kio reads {size} of {len(data)} bytes")

    def write() -> bytes:
        out = io.BytesIO()
        writer(out, value)
        return out.getvalue()

    return lambda: reader(data, 0), write


def _kafka_python(message: str, version: int, data: bytes) -> Codec:
    try:
        import kafka.protocol  # noqa: F401
    except ImportError:
        raise AbsentError("kafka-python is not installed") from None
    packages = [import_module(f"kafka.protocol.{name}") for name in ("metadata", "admin", "consumer", "producer")]
    cls = next((getattr(package, message) for package in packages if hasattr(package, message)), None)
    if cls is None:
        raise AbsentError(f"kafka-python has no {message}")
    value = cls.decode(data, version=version)
    value._header = None  # decoding without a header leaves it unset, and encoding asks for it
    return lambda: cls.decode(data, version=version), lambda: bytes(value.encode(version=version))


def _parts(message: str) -> tuple[str, str]:
    """kio's names: MetadataResponse -> ("metadata", "response")."""
    kind = "response" if message.endswith("Response") else "request" if message.endswith("Request") else "data"
    stem = message.removesuffix("Response").removesuffix("Request")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", stem).lower(), kind


def kio_records(path: str) -> Job:
    """kio's batches and records; it compares checksums."""
    try:
        from kio.records.readers import read_batch
    except ImportError:
        raise AbsentError("kio is not installed") from None
    data = Path(path).read_bytes()
    if data[22] & 7:
        raise AbsentError("kio reads no compressed batches")

    def walk() -> Any:
        position = 0
        while position < len(data):
            batch, size = read_batch(data, position)
            yield from batch.records
            position += size

    rows = (SimpleNamespace(offset=r.offset, timestamp=_millis(r.timestamp), key=r.key, value=r.value) for r in walk())
    return Job(lambda: _drain(walk()), records_check(rows), len(data))


def kafka_python_records(path: str) -> Job:
    """kafka-python's MemoryRecords, with the checksum of every batch validated as its consumer does."""
    try:
        from kafka.record import MemoryRecords
    except ImportError:
        raise AbsentError("kafka-python is not installed") from None
    data = Path(path).read_bytes()

    def walk() -> Any:
        batches = MemoryRecords(data)
        while (batch := batches.next_batch()) is not None:
            batch.validate_crc()
            yield from batch

    try:
        return Job(lambda: _drain(walk()), records_check(walk()), len(data))
    except (AssertionError, ImportError, NotImplementedError) as error:
        raise AbsentError(f"kafka-python cannot read this codec here: {error or type(error).__name__}") from None


def _millis(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _drain(rows: Any) -> None:
    for _ in rows:
        pass

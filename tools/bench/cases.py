"""The cases: what is measured, who takes part, and the files with the bytes that all of them get."""

from __future__ import annotations

import inspect
import os
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from kafkawire.records import builder, compression
from tools.bench import sample_captures, sample_data
from tools.bench.contestants import Entrant, command, dump_log, kafka_java, kafkawire, python_peer
from tools.bench.job import digest
from tools.bench.results import Case

RECORD_SET = 16 << 20
SEGMENT = 100 << 20
LARGE_SEGMENT = 2 << 30
#: How often the example's capture is repeated.
CAPTURE_TIMES = 150
LARGE_CAPTURE = 2 << 30
LOG_VALUES = 100_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ENGINES = ("native", "python")

#: message, version, how the table calls it
MESSAGES = (
    ("DescribeProducersResponse", 0, "DescribeProducersResponse v0, 1,000 producers"),
    ("MetadataResponse", 12, "MetadataResponse v12, 100 topics x 12 partitions"),
    ("FetchResponse", 17, "FetchResponse v17, 10 partitions x 100 KB of records"),
    ("ProduceRequest", 12, "ProduceRequest v12, 3 partitions x 17 KB of records"),
    ("TransactionLogValue", 1, "TransactionLogValue v1, 3 topics x 2 partitions"),
    ("ApiVersionsResponse", 4, "ApiVersionsResponse v4, 80 APIs and features in tags"),
)
#: Messages whose `records` Kafka copies neither when it reads nor when it writes.
_WITH_RECORDS = ("FetchResponse", "ProduceRequest")


class BenchCase(Case, frozen=True, kw_only=True):
    """A case with those who take part. Every run of a contestant's job handles `items` items of `size` bytes in all.

    Attributes:
        check: the digest that every result must have; that of the first contestant where it is empty.
        memory: whether the memory of a result is measured, too.
    """

    entrants: tuple[Entrant, ...]
    check: str = ""
    memory: bool = False


def _case(
    key: str, table: str, title: str, unit: str, items: int, path: Path, entrants: Iterable[Entrant], **more: Any
) -> BenchCase:
    """A case whose input is a file."""
    return BenchCase(
        key=key,
        table=table,
        title=title,
        unit=unit,
        items=items,
        size=path.stat().st_size,
        entrants=tuple(entrants),
        **more,
    )


class Inputs:
    """Files with the bytes of the cases, made on first use and kept in a folder of temporary files.

    `scale` divides the number of records and rows: tests run the same cases on less.
    """

    def __init__(self, folder: Path | None = None, scale: int = 1) -> None:
        sources = (sample_data, builder, compression)
        made_by = digest(b"".join(inspect.getsource(source).encode() for source in sources))[:12]
        self.folder = folder or Path(tempfile.gettempdir()) / f"kafkawire-bench-{os.getuid()}" / made_by
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.scale = scale

    def file(self, name: str, write: Callable[[Path], object]) -> Path:
        """The file of that name; `write` fills it where it is not there yet. It is complete, or absent."""
        path = self.folder / (name if self.scale == 1 else f"{name}-{self.scale}")
        if not path.exists():
            part = path.with_name(f".{path.name}-{os.getpid()}")
            write(part)
            part.rename(path)
        return path

    def message(self, name: str, version: int) -> Path:
        return self.file(name, lambda path: path.write_bytes(sample_data.MESSAGES[name]().encode(version)))

    def record_set(self, codec: str) -> tuple[Path, int]:
        """A record set, and how many records it has."""
        count = (
            RECORD_SET
            // sample_data.RECORD_BYTES
            // sample_data.BATCH_RECORDS
            // self.scale
            * sample_data.BATCH_RECORDS
        )
        return self.file(f"records-{codec}", lambda path: path.write_bytes(sample_data.record_set(codec, count))), count

    def log_values(self) -> tuple[Path, Path, int]:
        """Values of `__transaction_state` one after the other, the end of each as int32, and how many there are."""
        count = LOG_VALUES // self.scale
        ends = self.folder / f"log-values-{self.scale}.ends"

        def write(path: Path) -> None:
            values = sample_data.transaction_log_values(count)
            ends.write_bytes(struct.pack(f">{count}i", *accumulate(map(len, values))))
            path.write_bytes(b"".join(values))

        return self.file("log-values", write), ends, count

    def capture(self, size: int | None = None, *, long: bool = False) -> tuple[Path, int]:
        """A capture of about that size, and how many frames it has; `long`: of few connections that go on."""
        times = max(1, CAPTURE_TIMES // self.scale) if size is None else size // sample_captures.EXAMPLE.stat().st_size
        name = f"{times}{'-long' * long}.pcap"
        path = self.file(name, lambda path: sample_captures.write_capture(path, times, long=long))
        return path, times * sample_captures.frames()

    def segment(
        self, codec: str, size: int, name: str, *, batch: int = sample_data.BATCH_RECORDS, transaction: int = 0
    ) -> tuple[Path, int]:
        """A log segment of `size` bytes before compression, named as Kafka names it, and how many records it has.

        Args:
            codec: "none", "gzip", "snappy", "lz4" or "zstd".
            size: bytes, divided by `scale`. `name`: of its folder in `folder`.
            batch, transaction: as of `sample_data.record_set`.
        """
        count = 8000
        times = max(1, size // sample_data.RECORD_BYTES // count // self.scale)
        folder = self.folder / f"{name}-{codec}-{self.scale}" / "orders-0"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "00000000000000000000.log"
        if not path.exists():
            part = path.with_suffix(".part")
            batches = sample_data.record_set(codec, count, batch=batch, transaction=transaction)
            sample_data.write_segment(part, batches, times)
            part.rename(path)
        return path, count * times


def cases(inputs: Inputs, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[BenchCase]:
    """The cases whose keys are wanted. Their inputs are made as they come."""
    for key, make in CASES.items():
        if wanted(key):
            yield make(inputs)


def _codec(operation: str, message: str, version: int, title: str, inputs: Inputs) -> BenchCase:
    options, path = _arguments(operation, message, version, inputs)
    return _message_case(
        operation, message, title, path,
        *(kafkawire(engine, "codec", **options) for engine in ENGINES),
        python_peer("kio", "library_jobs:kio", **options),
        python_peer("kafka-python", "library_jobs:kafka_python", **options),
        python_peer("C bound", "c_bound:codec", **options),
        kafka_java(operation, message, str(version), str(path)),
    )  # fmt: skip


def _strict(message: str, version: int, title: str, inputs: Inputs) -> BenchCase:
    options, path = _arguments("decode", message, version, inputs)
    return _message_case(
        "strict", message, title, path,
        *(kafkawire(engine, "codec", **options) for engine in ENGINES),
        *(kafkawire(engine, "codec", "strict", strict="yes", **options) for engine in ENGINES),
    )  # fmt: skip


def _no_copy(message: str, version: int, title: str, inputs: Inputs) -> BenchCase:
    options, path = _arguments("decode", message, version, inputs)
    java = (message, str(version), str(path))
    return _message_case(
        "no-copy", message, title, path,
        *(kafkawire(engine, "codec", "copy=False", copy="no", **options) for engine in ENGINES),
        kafka_java("decode", *java),
        kafka_java("send", *java, variant="writing"),
    )  # fmt: skip


def _arguments(operation: str, message: str, version: int, inputs: Inputs) -> tuple[dict[str, str], Path]:
    path = inputs.message(message, version)
    return {"operation": operation, "message": message, "version": str(version), "path": str(path)}, path


def _message_case(table: str, message: str, title: str, path: Path, *entrants: Entrant) -> BenchCase:
    check = digest(path.read_bytes())
    more = {"check": check, "memory": table == "decode"}
    return _case(f"{table}/{message}", table, title, "message", 1, path, entrants, **more)


def _records(shape: str, codec: str, inputs: Inputs) -> BenchCase:
    path, count = inputs.record_set(codec)
    job = "records" if shape == "objects" else "record_columns"
    entrants = [kafkawire(engine, job, path=str(path), shape=shape) for engine in ENGINES]
    if shape == "objects":
        entrants += [
            python_peer("kio", "library_jobs:kio_records", path=str(path)),
            python_peer("kafka-python", "library_jobs:kafka_python_records", path=str(path)),
        ]
    elif shape == "headers":
        entrants.append(kafkawire("python", "records", "objects", path=str(path), shape=shape))
    walk = "headers" if shape == "headers" else "objects"
    entrants += [
        kafka_java("records", str(path), "true", walk),
        kafka_java("records", str(path), "false", walk, variant="no checksum"),
    ]
    return _case(f"records/{shape}/{codec}", f"records/{shape}", codec, "record", count, path, entrants)


def _values(inputs: Inputs) -> BenchCase:
    path, ends, count = inputs.log_values()
    entrants = [kafkawire(engine, "values", path=str(path), ends=str(ends)) for engine in ENGINES]
    entrants.append(kafka_java("values", str(path), str(ends)))
    return _case("columns/TransactionLogValue", "columns", "TransactionLogValue v1", "value", count, path, entrants)


#: What is dumped -> its title, kafkawire's options, kafka-dump-log's options.
_DEEP = "--deep-iteration --print-data-log"
_DUMPS = {
    "deep": ("records with payloads to jsonl", _DEEP, _DEEP.split()),
    "arrow": ("records with payloads to Arrow columns (kafka-dump-log: text)", "", _DEEP.split()),
    "parquet": ("records with payloads to Parquet (kafka-dump-log: text)", _DEEP, _DEEP.split()),
    "headers": ("batches only to jsonl", "", []),
}


def _dump(shape: str, codec: str, inputs: Inputs) -> BenchCase:
    path, count = inputs.segment(codec, SEGMENT, "segment")
    small, _ = inputs.segment(codec, 0, "small")
    title, ours, theirs = _DUMPS[shape]
    options = {"file": str(path), "small": str(small)}
    if shape != "arrow":
        options["options"] = ours
    if shape == "parquet":
        options["output"] = str(inputs.folder / "dump.parquet")
    # Pure Python has rows, and no arrays, before they go into a file.
    job, engines = ("dump_arrow", ENGINES[:1]) if shape == "arrow" else ("dump", ENGINES)
    entrants = [*(kafkawire(engine, job, **options) for engine in engines), dump_log(str(path), str(small), *theirs)]
    return _case(f"dump/{shape}/{codec}", "dump", f"{title}, {codec}", "record", count, path, entrants)


#: How transactions are taken into account -> kafkawire's options.
_VIEWS = {"": "", "--transaction": "--transaction", "committed": "--isolation-level read_committed"}
#: What is dumped of a log with transactions: title, options, batch size, codec.
_TRANSACTIONS = {
    "deep": ("records with payloads", _DEEP, sample_data.BATCH_RECORDS, "none"),
    "compressed": ("records with payloads, lz4", _DEEP, sample_data.BATCH_RECORDS, "lz4"),
    "short": ("records with payloads, one a batch", _DEEP, 1, "none"),
    "headers": ("batches only", "", sample_data.BATCH_RECORDS, "none"),
    "short-headers": ("batches only, of one record", "", 1, "none"),
}


def _isolation(shape: str, inputs: Inputs) -> BenchCase:
    title, options, batch, codec = _TRANSACTIONS[shape]
    sizes = {"batch": batch, "transaction": 4}
    path, count = inputs.segment(codec, SEGMENT if batch > 1 else SEGMENT // 4, f"in-transactions-{batch}", **sizes)
    small, _ = inputs.segment(codec, 0, f"small-transactions-{batch}", **sizes)
    given = {"file": str(path), "small": str(small)}
    entrants = [
        kafkawire("native", "dump", variant, options=f"{options} {view}".strip(), **given)
        for variant, view in _VIEWS.items()
    ]
    return _case(f"isolation/{shape}", "isolation", title, "record", count, path, entrants)


#: What is printed of a capture -> its title, kafkawire's options, tshark's forms.
_CAPTURES = {
    "bodies": ("whole messages to jsonl", "--body", ("json", "kafka")),
    "headers": ("a row an exchange (tshark: four fields a frame)", "", ("fields",)),
}
_TSHARK = {"json": "tshark, json", "kafka": "tshark, json of Kafka", "fields": "tshark, fields"}


def _capture(shape: str, connections: str, inputs: Inputs) -> BenchCase:
    path, count = inputs.capture(long=connections == "long")
    title, options, forms = _CAPTURES[shape]
    entrants = [command(engine, "capture", path=str(path), options=options) for engine in ENGINES]
    entrants += [python_peer(_TSHARK[form], "command_jobs:tshark", path=str(path), form=form) for form in forms]
    title = f"{title}, {connections} connections"
    return _case(f"capture/{shape}/{connections}", "capture", title, "frame", count, path, entrants)


def _capture_forms(connections: str, inputs: Inputs) -> BenchCase:
    path, count = inputs.capture(long=connections == "long")
    forms = ("jsonl", "parquet", "columns")
    entrants = [kafkawire("native", "capture", form, path=str(path), form=form) for form in forms]
    key, title = f"capture/forms/{connections}", f"{connections} connections"
    return _case(key, "capture-forms", title, "frame", count, path, entrants)


#: Key -> what makes the case.
CASES: dict[str, Callable[[Inputs], BenchCase]] = {
    **{
        f"{operation}/{message}": partial(_codec, operation, message, version, title)
        for operation in ("decode", "encode")
        for message, version, title in MESSAGES
    },
    **{
        f"no-copy/{message}": partial(_no_copy, message, version, title)
        for message, version, title in MESSAGES
        if message in _WITH_RECORDS
    },
    **{f"strict/{message}": partial(_strict, message, version, title) for message, version, title in MESSAGES},
    **{
        f"records/{shape}/{codec}": partial(_records, shape, codec)
        for shape in ("objects", "columns", "headers")
        for codec in CODECS
    },
    "columns/TransactionLogValue": _values,
    **{f"dump/{shape}/{codec}": partial(_dump, shape, codec) for shape in _DUMPS for codec in ("none", "lz4")},
    **{f"isolation/{shape}": partial(_isolation, shape) for shape in _TRANSACTIONS},
    **{
        f"capture/{shape}/{connections}": partial(_capture, shape, connections)
        for shape in _CAPTURES
        for connections in ("long", "short")
    },
    **{f"capture/forms/{connections}": partial(_capture_forms, connections) for connections in ("long", "short")},
}

"""The batches of a client library, of each magic and codec that it has: LIBRARY [BOOTSTRAP MAGIC].

kafka-python and aiokafka (of any release) build them: base64, one a line. librdkafka sends those of one magic to the
broker at BOOTSTRAP, which keeps them.
"""

import base64
import sys
from collections.abc import Callable, Iterator
from typing import Any

THEN = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def cases(magics: tuple[int, ...], has: Callable[[int, int], bool] = lambda magic, codec: True) -> Iterator[Any]:
    """Magic, codec and number of records. Only magic 2 has zstd; a message of the others is alone if not compressed."""
    for magic in magics:
        for codec in range(5 if magic == 2 else 4):
            for count in (1, 2, 30, 300) if magic == 2 or codec else (1,):
                if has(magic, codec):
                    yield magic, codec, count


def records(count: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Number, key and value."""
    for i in range(count):
        yield i, None if i % 5 == 3 else b"key-%d" % i, None if i % 7 == 4 else b"value %d of many, much alike" % i


def kafka_python() -> None:
    from kafka import codec as codecs
    from kafka.record import MemoryRecordsBuilder

    has = (lambda: True, codecs.has_gzip, codecs.has_snappy, codecs.has_lz4, getattr(codecs, "has_zstd", lambda: False))
    for magic, codec, count in cases((0, 1, 2), lambda magic, codec: has[codec]()):
        builder = MemoryRecordsBuilder(magic, codec, 1 << 20)
        for i, key, value in records(count):
            headers = [("h", b"x" * (i % 3))] if magic == 2 and i % 4 == 0 else []
            builder.append(THEN + i if magic else None, key, value, headers)
        builder.close()
        print(base64.b64encode(bytes(builder.buffer())).decode())


def aiokafka() -> None:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder
    from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

    alone = {"is_transactional": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    for magic, codec, count in cases((0, 1, 2), lambda magic, codec: (magic, codec) != (0, 3)):
        builder = (
            LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
            if magic < 2
            else DefaultRecordBatchBuilder(magic, codec, **alone, batch_size=1 << 20)
        )
        for i, key, value in records(count):
            headers = [("h", b"x")] if magic == 2 and i % 4 == 0 else []
            builder.append(i, THEN + i if magic else None, key, value, headers)
        print(base64.b64encode(bytes(builder.build())).decode())


def librdkafka(bootstrap: str, only: str) -> None:
    from confluent_kafka import Producer

    for magic, codec, count in cases((int(only),)):
        settings = {"compression.type": CODECS[codec], "linger.ms": 300, "log_level": 2}
        producer = Producer({"bootstrap.servers": bootstrap, **settings})
        for i, key, value in records(count):
            headers: Any = {"h": b"x"} if magic == 2 and i % 4 == 0 else None
            producer.produce("batches", value, key, 0, timestamp=THEN + i, headers=headers)
        if producer.flush(20):
            sys.exit(f"magic {magic}, {CODECS[codec]}: not sent")


LIBRARIES: dict[str, Callable[..., None]] = {
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "librdkafka": librdkafka,
}
LIBRARIES[sys.argv[1]](*sys.argv[2:])

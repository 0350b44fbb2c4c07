"""A job that copies a topic into Parquet files with offset columns: BOOTSTRAP TOPIC FOLDER [FILES].

It commits its offsets after every second file. After so many files it waits, and is killed: what it has written since
its last commit is written again by the next one.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Message

_RECORDS = 20
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def copy(bootstrap: str, topic: str, folder: Path, most: int | None) -> None:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "lake",
            "client.id": "lake",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
        }
    )
    reader.subscribe([topic])
    written, idle, found = 0, time.monotonic() + 60, list[Message]()  # a group waits for a member that was killed
    while time.monotonic() < idle:
        message = reader.poll(1)
        if message is not None and message.error() is None:
            found.append(message)
            idle = time.monotonic() + 8
        if len(found) == _RECORDS or (found and message is None):
            rows = [(one.topic(), one.partition(), one.offset(), one.key(), one.value()) for one in found]
            table = pa.table(dict(zip(_SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True)), _SCHEMA)
            name = f"part-{int(time.time() * 1000)}-{written:03}.parquet"
            pq.write_table(table, folder / f".{name}")
            (folder / f".{name}").rename(folder / name)
            written += 1
            found.clear()
            if written % 2 == 0:
                reader.commit(asynchronous=False)
            if written == most:
                print("written", flush=True)
                time.sleep(600)
    reader.close()


if __name__ == "__main__":
    copy(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else None)

"""`python -m tools.recordings.frameworks NAME BOOTSTRAP TOPIC RECORDS`: a framework that processes so many records."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from tools.polling import until

from .. import clients
from . import SOURCE, connect, mirror_maker, streams

_SECONDS = 90.0
_HOUR_MS = 3_600_000


def _mirror_maker(folder: Path, bootstrap: str, topic: str, records: int) -> None:
    clients.create_topics(bootstrap, {topic: 2})
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "orders"})
    then = int(time.time() * 1000) - _HOUR_MS
    for number in range(records):
        producer.produce(topic, clients.order(number), key=str(number), timestamp=then + number)
    if producer.flush(_SECONDS):
        raise SystemExit("records are not written")
    with mirror_maker(folder, bootstrap, topic) as running:
        reader = clients.consumer(bootstrap, "reader")
        mirrored = f"{SOURCE}.{topic}"
        until(lambda: mirrored in reader.list_topics(timeout=10).topics, mirrored, seconds=_SECONDS)
        reader.subscribe([mirrored])
        left, deadline = records, time.monotonic() + _SECONDS
        while left and time.monotonic() < deadline:
            message = reader.poll(1)
            left -= message is not None and message.error() is None
        reader.close()
        if left:
            raise SystemExit(f"{left} records are not mirrored: {running.log_tail()}")
        running.stop()


def _connect(folder: Path, bootstrap: str, topic: str, records: int) -> None:
    """From a file to a topic, and to another file."""
    lines, copied = folder.with_name("lines.txt"), folder.with_name("copied.txt")
    lines.write_text("".join(f"line {number}\n" for number in range(records)))
    clients.create_topics(bootstrap, {topic: 2})
    kind = "org.apache.kafka.connect.file.FileStream"
    connectors = {
        "lines": {"connector.class": f"{kind}SourceConnector", "file": str(lines), "topic": topic},
        "copied": {"connector.class": f"{kind}SinkConnector", "file": str(copied), "topics": topic},
    }
    with connect(folder, bootstrap, "connect", connectors) as running:
        until(lambda: copied.exists() and copied.read_text().count("\n") >= records, "a copied file", seconds=_SECONDS)
        running.stop()


def _streams(protocol: str, folder: Path, bootstrap: str, topic: str, records: int) -> None:
    with streams(folder, bootstrap, topic, f"{topic}-counts", protocol=protocol, records=records) as running:
        if not running.wait_stopped(_SECONDS):
            raise SystemExit(f"records are not counted: {running.log_tail()}")


_RUN: dict[str, Callable[[Path, str, str, int], None]] = {
    "mirror-maker": _mirror_maker,
    "connect": _connect,
    "streams": partial(_streams, "classic"),
    "streams-protocol": partial(_streams, "streams"),
}

if __name__ == "__main__":
    name, bootstrap, topic, count = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="kafkawire-framework-") as scratch:
        _RUN[name](Path(scratch) / name, bootstrap, topic, int(count))

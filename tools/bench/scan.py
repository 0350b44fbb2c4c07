"""`python -m tools.bench.scan`: a live topic as Arrow, beside confluent-kafka-python that fills a pyarrow table.

One real broker, the same topic for all, uncompressed and lz4. Each contestant is a process of its own, and they take
turns. The measure is the clock's time from the first request to the last row; imports and the first connections do not
count. "The bytes alone" fetches the same batches through one socket and reads only their last offset. It shows the most
that broker and loopback give to one connection that sends each request after the previous answer. `--write` writes the
section of docs/performance.md.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any

from kafkawire import frames
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import LAST_BY_NAME, fetch_request, part_in
from kafkawire.messages import FetchRequest
from tools import ROOT
from tools.bench.machine_info import machine
from tools.bench.measurement import BenchError
from tools.bench.page_sections import integer, section_main
from tools.broker import cluster

CODECS = ("none", "lz4")
OURS, WITH_STATES, PEER, BYTES = "kafkawire", "kafkawire, all columns", "confluent-kafka", "the bytes alone"
TUNED = "confluent-kafka, tuned"
#: librdkafka's own settings stop fetching for a second once 100,000 messages wait: most of its time is that pause.
_TUNED = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 1, "fetch.message.max.bytes": 8 << 20}
#: The columns that all contestants fill.
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
#: How much of confluent-kafka's time is a goal.
GOAL = 5.0
_CONSUMED = 10_000

#: Reads a topic with so many rows: the rows that were read.
Read = Callable[[str, str, int], int]


def _scan(servers: str, topic: str, rows: int, columns: tuple[str, ...] | None = COLUMNS) -> int:
    import kafkawire

    return sum(batch.num_rows for batch in kafkawire.scan(bootstrap_servers=servers, topics=topic, columns=columns))


def _confluent(servers: str, topic: str, rows: int, settings: dict[str, int] | None = None) -> int:
    import pyarrow as pa
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Assigned

    own = {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(own | (settings or {}))
    consumer.assign([Assigned(topic, 0, 0)])
    batches: list[Any] = []
    found = 0
    while found < rows:
        got = consumer.consume(_CONSUMED, timeout=5.0)
        columns = {
            "topic": pa.array([one.topic() for one in got], pa.string()),
            "partition": pa.array([one.partition() for one in got], pa.int32()),
            "offset": pa.array([one.offset() for one in got], pa.int64()),
            "timestamp": pa.array([one.timestamp()[1] for one in got], pa.timestamp("ms", "UTC")),
            "key": pa.array([one.key() for one in got], pa.binary()),
            "value": pa.array([one.value() for one in got], pa.binary()),
        }
        batches.append(pa.record_batch(columns))
        found += len(got)
    consumer.close()
    table = pa.Table.from_batches(batches)
    return int(table.num_rows)


def _bytes(servers: str, topic: str, rows: int) -> int:
    from kafkawire.client.rpc.partition_log import behind

    host, _, port = servers.rpartition(":")
    key, offset = TopicPartition(topic, 0), 0
    buffer = bytearray(64 << 20)
    with socket.create_connection((host, int(port))) as link:
        while offset < rows:
            body = fetch_request(key, offset)
            link.sendall(frames.encode_request(body, version=LAST_BY_NAME, correlation_id=1, client_id="bench"))
            size = int.from_bytes(_received(link, memoryview(buffer)[:4]), "big")
            frame = _received(link, memoryview(buffer)[:size])
            response = frames.decode_response(
                frame, api_key=FetchRequest.spec.api_key or 1, version=LAST_BY_NAME, copy=False
            )
            assert response.body is not None
            offset = behind(part_in(response.body, key).records or b"") or 0  # type: ignore[arg-type]
    return offset


def _received(link: socket.socket, into: memoryview) -> memoryview:
    left = into
    while left:
        left = left[link.recv_into(left) :]
    return into


CONTESTANTS: dict[str, Read] = {
    OURS: _scan,
    WITH_STATES: partial(_scan, columns=None),
    PEER: _confluent,
    TUNED: partial(_confluent, settings=_TUNED),
    BYTES: _bytes,
}


def measured(name: str, servers: str, topic: str, rows: int) -> tuple[float, float]:
    """Seconds by the clock, and of CPU, of a contestant in a process of its own.

    Raises:
        BenchError: it failed, or did not read all rows.
    """
    command = [sys.executable, "-m", "tools.bench.scan", "--run", name, servers, topic, str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    if done.returncode:
        raise BenchError(f"{name}: {done.stderr.strip()[-500:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if found["rows"] != rows:
        raise BenchError(f"{name} read {found['rows']} of {rows} rows")
    return found["seconds"], found["cpu"]


def _run(name: str, servers: str, topic: str, rows: int) -> None:
    """One contestant, in this process."""
    read = CONTESTANTS[name]
    read(servers, topic, 1 if name in (PEER, TUNED, BYTES) else rows)  # imports, compiled layouts, the broker's cache
    begun, used = time.monotonic(), time.process_time()
    found = read(servers, topic, rows)
    print(json.dumps({"rows": found, "seconds": time.monotonic() - begun, "cpu": time.process_time() - used}))


def fill(servers: str, topic: str, codec: str, rows: int) -> int:
    """Writes a topic; the bytes of its keys and values."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50, "batch.size": 1 << 17,
                "queue.buffering.max.messages": 1_000_000}  # fmt: skip
    producer = Producer(settings)
    size = 0
    for number in range(rows):
        key, value = (
            b"key-%d" % (number % 1000),
            b'{"order": %d, "product": "lamp", "cents": 250, "city": "Bern"}' % number,
        )
        size += len(key) + len(value)
        while True:
            try:
                producer.produce(topic, value, key, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        if not number % 10_000:
            producer.poll(0)
    producer.flush()
    return size


def compared(rows: int, rounds: int) -> Iterator[tuple[str, int, dict[str, tuple[float, float]]]]:
    """Codec, bytes, and the medians of each contestant: seconds by the clock and of CPU."""
    with cluster(1) as running:
        for codec in CODECS:
            topic = f"bench-{codec}"
            size = fill(running.bootstrap, topic, codec, rows)
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTESTANTS}
            for _ in range(rounds):
                for name, own in taken.items():
                    own.append(measured(name, running.bootstrap, topic, rows))
            yield (
                codec,
                size,
                {
                    name: (median(clock for clock, _ in own), median(cpu for _, cpu in own))
                    for name, own in taken.items()
                },
            )


def markdown(results: list[tuple[str, int, dict[str, tuple[float, float]]]], rows: int, about: list[str]) -> str:
    """The section of the page."""
    lines = ["## A live topic as Arrow", "", *about, ""]
    lines += ["| codec | | rows a second | MB a second | CPU a million rows | times confluent-kafka, tuned |",
              "|---|---|---:|---:|---:|---:|"]  # fmt: skip
    for codec, size, found in results:
        peer = found[TUNED][0]
        for name, (clock, cpu) in found.items():
            lines.append(
                f"| {codec} | {name} | {rows / clock / 1e6:.2f} M | {size / clock / 1e6:,.0f} "
                f"| {cpu / rows * 1e6:.2f} s | {peer / clock:.1f}× |"
            )
    least, as_it_is = (min(found[name][0] / found[OURS][0] for _, _, found in results) for name in (TUNED, PEER))
    near = ", ".join(f"{found[BYTES][0] / found[OURS][0]:.0%} ({codec})" for codec, _, found in results)
    verdict = "met" if least >= GOAL else "**not met**"
    text = (
        f"Goal: at least {GOAL:g}× the rows a second of confluent-kafka-python filling a pyarrow table: {least:.1f}×, "
    )
    text += f"{verdict} ({as_it_is:.1f}× without tuning). Of what the bytes alone allow, kafkawire reaches {near}."
    lines += ["", text]
    return "\n".join(lines)


def section(given: Namespace) -> str:
    load, begun = os.getloadavg()[0], time.monotonic()
    results = list(compared(given.rows, given.rounds))
    command = f"python -m tools.bench.scan {shlex.join(sys.argv[1:])}".strip()
    where = machine(command, load, (time.monotonic() - begun) / 60)
    about = [
        f"Written by `{command}`: {given.rows:,} records of some 70 bytes, one partition, one broker on the same",
        f"machine; medians of {given.rounds} turns by the clock, CPU of the client's process. All fill the columns",
        f"{', '.join(COLUMNS)}; \"{WITH_STATES}\" has headers, producers and what became of transactions as well.",
        "\"The bytes alone\" fetches the same batches through one socket and reads their last offsets only.",
        "librdkafka pauses for a second whenever 100,000 messages wait; tuned, it does not "
        f"(`{', '.join(f'{name}={value}' for name, value in _TUNED.items())}`).",
        "",
        f"- {where.date}; {where.processor}, {where.cores} cores; load average {where.load[0]:.1f} before, "
        f"{where.load[1]:.1f} after",
        f"- kafkawire: {where.versions['kafkawire']}; confluent-kafka {version('confluent-kafka')}; "
        f"pyarrow {version('pyarrow')}",
    ]  # fmt: skip
    return markdown(results, given.rows, about)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        name, servers, topic, rows = sys.argv[2:]
        _run(name, servers, topic, int(rows))
    else:
        options = {"--rows": integer(2_000_000, "of each topic"), "--rounds": integer(5, "turns of each contestant")}
        sys.exit(section_main("scan", __doc__, section, options))

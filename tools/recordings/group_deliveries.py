"""What groups were given and committed, and copies of topics: runs of real brokers, clients and frameworks.

`sound-VERSION/` has the capture of all clients of one broker, and its log directory with the coordinators' logs,
without a fault: librdkafka, kafka-python, Java's producer and consumer, an exactly-once copy, Kafka Streams.
`lost-responses-VERSION/`: responses of Produce requests are dropped once the broker has the batches, of producers
with and without idempotence, and of one that gives up. `late-data-VERSION/`: a batch that the network delays arrives
after its transaction was aborted, at a broker that does not verify transactions. `mirror/`: MirrorMaker 2 that is
killed (`stopped/`), and goes on (`resumed/`). `lake/`: Parquet files of a job that was killed, and of the next one.

What is captured is recorded by a proxy, without root.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kafkawire.messages import ProduceRequest
from kafkawire.proxy import Fault, Proxy
from tools.broker.jars import BROKER_VERSION
from tools.polling import until

from . import RecordingError, clients
from .cluster_clients import ONE_PARTITION, end_of, kafka_python_orders, one_broker, send_orders
from .example_witness import lose_response
from .frameworks import mirror_maker, streams
from .frameworks.processes import SOURCE
from .log_copies import copy_logs
from .raw_client import RawCluster, expect

CAPTURE = "clients.pcapng"
#: Releases that sound runs are recorded with; those of late data do not verify transactions, or are told not to.
SOUND = ("2.8.2", "3.9.1", BROKER_VERSION)
LATE = ("2.8.2", "3.9.1")
TOPIC, OUTPUT = "events", "counts"
_SECONDS = 90.0
#: Of ends: below it all is decided.
_STABLE = "read_committed"
_INTERNAL = ("__transaction_state", "__consumer_offsets")


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes all folders and `truth.json`."""
    runs = [
        *((f"late-data-{version}", partial(_late_data, version=version)) for version in LATE),
        *((f"lost-responses-{version}", partial(_lost_responses, version=version)) for version in SOUND),
        *((f"sound-{version}", partial(_sound, version=version)) for version in SOUND),
    ]
    truth: dict[str, Any] = {}
    for name, run in runs:
        truth[name] = run(folder / name, cache)
        print(name, file=sys.stderr, flush=True)
    truth |= _copies(folder, cache)
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def _late_data(folder: Path, cache: Path | None, version: str) -> dict[str, Any]:
    verified = {} if version.startswith("2.") else {"transaction.partition.verification.enable": "false"}
    config = {**ONE_PARTITION, **verified}
    with (
        one_broker(folder, {TOPIC: 1}, [TOPIC, *_INTERNAL], config=config, version=version, cache=cache) as running,
        Proxy(running.bootstrap, record=folder / CAPTURE) as proxy,
        RawCluster(proxy.address) as wire,
    ):
        producer = wire.init_producer("ledger")
        wire.add_partitions(producer, {TOPIC: [0]})
        wire.produce(TOPIC, 0, [b"first"], producer, timestamp=clients.now())
        held = proxy.hold(ProduceRequest)
        offsets: list[int] = []

        def delayed() -> None:
            with RawCluster(proxy.address) as other:
                offsets.append(other.produce(TOPIC, 0, [b"late"], producer, sequence=1, timestamp=clients.now()))

        thread = threading.Thread(target=delayed)
        thread.start()
        until(held.caught.is_set, "a request that is held", seconds=_SECONDS)
        expect(wire.end(producer, committed=False), 0, "EndTxn")
        time.sleep(2)  # the marker is written
        held.release()
        thread.join()
        wire.add_partitions(producer, {TOPIC: [0]})
        wire.produce(TOPIC, 0, [b"next"], producer, sequence=2, timestamp=clients.now())
        expect(wire.end(producer, committed=True), 0, "EndTxn")
        time.sleep(2)
        send_orders(proxy.address, TOPIC, range(3), acks="all")
    return {"topic": TOPIC, "partition": 0, "offset": offsets[0]}


def _lost_responses(folder: Path, cache: Path | None, version: str) -> dict[str, Any]:
    """Each producer writes twelve batches, and the response to the seventh is dropped; to the last one of all, too,
    whose producer does not send it again."""
    topics = {"idempotent": 1, "plain": 1, "given-up": 1}
    with (
        one_broker(folder, topics, [*topics, *_INTERNAL], version=version, cache=cache) as running,
        Proxy(running.bootstrap, record=folder / CAPTURE) as proxy,
    ):
        lose_response(proxy, "idempotent", idempotent=True)
        lose_response(proxy, "plain", idempotent=False)
        send_orders(proxy.address, "given-up", range(1), acks="all")
        with RawCluster(proxy.address) as wire:
            producer = wire.init_producer(None)
            proxy.fault(Fault(ProduceRequest, drop="response", times=1))
            with suppress(RecordingError):  # the connection is closed
                wire.produce("given-up", 0, [b"unheard"], producer, timestamp=clients.now(), transactional=False)
        send_orders(proxy.address, "given-up", range(1, 4), acks="all")
    return {"twice": {"topic": "plain", "offsets": [6, 7]}, "unacknowledged": {"topic": "given-up", "offset": 1}}


def _copies(folder: Path, cache: Path | None) -> dict[str, Any]:
    """MirrorMaker 2, and a job that writes Parquet, both killed once."""
    names = [TOPIC, f"{SOURCE}.{TOPIC}", "mm2-offset-syncs.target.internal", f"{SOURCE}.checkpoints.internal"]
    lake, mirror = folder / "lake", folder / "mirror"
    lake.mkdir(parents=True)
    with (
        tempfile.TemporaryDirectory(prefix="kafkawire-mirror-") as scratch,
        one_broker(mirror, {TOPIC: 1}, names, name="resumed", cache=cache) as running,
    ):
        send_orders(running.bootstrap, TOPIC, range(90), acks="all")
        _commit(running.bootstrap, "readers", 60)
        written = partial(end_of, running.bootstrap, f"{SOURCE}.{TOPIC}", _STABLE)
        with mirror_maker(Path(scratch) / "first", running.bootstrap, TOPIC) as mirroring:
            until(lambda: written() >= 90, "a mirror", seconds=_SECONDS)
            until(lambda: end_of(running.bootstrap, names[3], _STABLE) > 0, "a checkpoint", seconds=2 * _SECONDS)
            mirroring.kill()
        send_orders(running.bootstrap, TOPIC, range(90, 130), acks="all")
        _lake_job(running.bootstrap, lake, killed_after=3)
        _lake_job(running.bootstrap, lake)
        running.stop_node(1)
        copy_logs(running.log_dirs[1], mirror / "stopped", names)
        running.start_node(1)
        with mirror_maker(Path(scratch) / "second", running.bootstrap, TOPIC) as mirroring:
            until(lambda: written() >= 130, "the rest of the mirror", seconds=2 * _SECONDS)
            mirroring.stop()
    return {
        "mirror": {"topic": TOPIC, "mirrored": 90, "all": 130, "group": "readers", "committed": 60},
        "lake": {"records": 130, "twice": 20},
    }


def _lake_job(bootstrap: str, folder: Path, killed_after: int | None = None) -> None:
    command = [sys.executable, "-m", "tools.recordings.lake_writer", bootstrap, TOPIC, str(folder)]
    if killed_after is None:
        subprocess.run(command, check=True)
        return
    with subprocess.Popen([*command, str(killed_after)], stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        if job.stdout.readline() != "written\n":
            raise RecordingError("the job ended")
        job.kill()


def _sound(folder: Path, cache: Path | None, version: str) -> dict[str, Any]:
    topics = {"plain": 1, "source": 2, "copied": 1, "transactions": 2, TOPIC: 1, OUTPUT: 1}
    of_streams = [f"counts-{TOPIC}-counts-changelog", f"counts-{TOPIC}-counts-repartition"]
    with (
        tempfile.TemporaryDirectory(prefix="kafkawire-streams-") as scratch,
        one_broker(folder, topics, [*topics, *of_streams, *_INTERNAL], version=version, cache=cache) as running,
        Proxy(running.bootstrap, record=folder / CAPTURE) as proxy,
    ):
        address = proxy.address
        for codec in ("none", "lz4"):
            send_orders(address, "plain", range(10), acks="all", codec=codec)
            send_orders(address, "source", range(10), acks="all", codec=codec, idempotent=True)
            send_orders(address, TOPIC, range(10), acks="all", codec=codec, idempotent=True)
        _kafka_python(address)
        service = clients.Service(address, "transactions-service")
        service.transactions([("transactions", 0), ("transactions", 1)], 4, aborted=(2,))
        _exactly_once(address, service)
        clients.java_transactions(address, "transactions", "java-service", records=40, per_second=200, duration_ms=60)
        clients.java_consumer(address, "transactions", "java-reader", records=40)
        with streams(Path(scratch) / "streams", address, TOPIC, OUTPUT) as counting:
            until(lambda: end_of(running.bootstrap, OUTPUT, _STABLE) > 20, "counts", seconds=2 * _SECONDS)
            time.sleep(1)
            counting.stop()
    return {"topics": topics}


def _exactly_once(bootstrap: str, service: clients.Service) -> None:
    """An exactly-once copy of what is there, twice: the group goes on from its offsets."""
    for _ in range(2):
        reader = clients.consumer(bootstrap, "copier")
        clients.copy_exactly_once(service, reader, [("source", 0), ("source", 1)], ("copied", 0), lambda value: value)
        reader.close()
        send_orders(bootstrap, "source", range(10, 15), acks="all")


def _kafka_python(bootstrap: str) -> None:
    from kafka import KafkaConsumer

    kafka_python_orders(bootstrap, "plain", 10)
    reader = KafkaConsumer(
        "plain",
        bootstrap_servers=bootstrap,
        group_id="python-readers",
        client_id="python-reader",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=5000,
    )
    for number, _ in enumerate(reader, start=1):
        if number % 10 == 0:
            reader.commit()
        if number == 30:
            break
    reader.close()


def _commit(bootstrap: str, group: str, offset: int) -> None:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    reader.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    reader.close()

"""What brokers acknowledged and hold, and what groups were given and committed: runs of real brokers and clients.

The recording `deliveries`, which tcpdump captures: `lost/` has the capture of all brokers' ports, and the log
directories of both replicas after an unclean election: batches with acks=1 were acknowledged by a leader that failed
before its follower had them. `aborted-read/` has those of one broker whose transaction index was emptied while it was
stopped, so that it names no aborted transaction to consumers. `sound-VERSION/` has the capture and the log directory of
one broker, without a fault, for clients of several libraries.

The recording `group-deliveries`, which a proxy captures, without root: `sound-VERSION/` has the capture of all clients
of one broker, and its log directory with the coordinators' logs, without a fault: librdkafka, kafka-python, Java's
producer and consumer, an exactly-once copy, Kafka Streams. `lost-responses-VERSION/`: responses of Produce requests are
dropped once the broker has the batches, of producers with and without idempotence, and of one that gives up.
`late-data-VERSION/`: a batch that the network delays arrives after its transaction was aborted, at a broker that does
not verify transactions. `mirror/`: MirrorMaker 2 that is killed (`stopped/`), and goes on (`resumed/`). `lake/`:
Parquet files of a job that was killed, and of the next one.
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
from tools.broker import cluster
from tools.broker.jars import BROKER_VERSION
from tools.polling import until

from . import RecordingError, clients
from .cluster_clients import (
    ONE_PARTITION,
    await_in_sync,
    await_leader,
    end_of,
    kafka_python_orders,
    lose_response,
    one_broker,
    place_topics,
    read,
    read_offsets,
    send_orders,
)
from .frameworks import SOURCE, mirror_maker, streams
from .log_copies import copy_logs
from .raw_client import RawCluster, expect
from .tcpdump import recorded

CAPTURE = "brokers.pcap"
TOPIC = "ledger"
#: Releases of brokers that sound runs are recorded with.
SOUND = (BROKER_VERSION, "3.9.1")
#: The numbers of the records that only the old leader had.
LOST = range(5, 9)
_COORDINATOR = "__transaction_state"
_CONFIG = {**ONE_PARTITION, "replica.high.watermark.checkpoint.interval.ms": 500}
_UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
_TOPICS = {"plain": 1, "idempotent": 2, "transactions": 2, "stamped": 1}


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `lost/`, `aborted-read/`, `sound-*/` and `truth.json` in `folder`."""
    truth = {"lost": _lost(folder / "lost", cache), "aborted-read": _aborted_read(folder / "aborted-read", cache)}
    for version in SOUND:
        truth[f"sound-{version}"] = _sound(folder / f"sound-{version}", version, cache)
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def _lost(folder: Path, cache: Path | None) -> dict[str, Any]:
    folder.mkdir(parents=True)
    with cluster(3, config=_CONFIG, cache=cache) as running:
        place_topics(running.bootstrap, {TOPIC: ((1, 2), _UNCLEAN)})
        ports = [running.node(number).port for number in (3, 1, 2)]
        with recorded(folder / CAPTURE, *ports):
            send_orders(running.bootstrap, TOPIC, range(5), acks="all")
            time.sleep(2)
            running.stop_node(2)
            offsets = send_orders(running.bootstrap, TOPIC, LOST, acks="1")
            time.sleep(2)
            running.kill_node(1)
            running.start_node(2)
            await_leader(running.bootstrap, [TOPIC], 2)
            send_orders(running.bootstrap, TOPIC, range(20, 28), acks="all")
            running.start_node(1)
            await_in_sync(running.bootstrap, [TOPIC], 2)
            time.sleep(2)
        for number in (1, 2):
            running.stop_node(number)
            copy_logs(running.log_dirs[number], folder / f"node-{number}", [TOPIC, _COORDINATOR])
    return {"topic": TOPIC, "partition": 0, "lost_offsets": offsets}


def _aborted_read(folder: Path, cache: Path | None) -> dict[str, Any]:
    with (
        one_broker(folder, {TOPIC: 1}, [TOPIC, _COORDINATOR], config=_CONFIG, cache=cache) as running,
        recorded(folder / CAPTURE, running.node(1).port),
    ):
        clients.Service(running.bootstrap, "ledger-service").transactions([(TOPIC, 0)], 6, aborted=(2, 4))
        before = _offsets(running.bootstrap, "before")
        running.stop_node(1)
        for path in (running.log_dirs[1] / f"{TOPIC}-0").glob("*.txnindex"):
            path.write_bytes(b"")
        running.start_node(1)
        after = _offsets(running.bootstrap, "after")
    return {"topic": TOPIC, "partition": 0, "before": before, "after": after}


def _offsets(bootstrap: str, group: str) -> list[int]:
    return read_offsets(bootstrap, [(TOPIC, 0)], group, "read_committed")[f"{TOPIC}-0"]


def _sound(folder: Path, version: str, cache: Path | None) -> dict[str, Any]:
    stamped = {"stamped": {"message.timestamp.type": "LogAppendTime"}}
    copied = [*_TOPICS, _COORDINATOR]
    with (
        one_broker(
            folder, _TOPICS, copied, config=_CONFIG, topic_config=stamped, version=version, cache=cache
        ) as running,
        recorded(folder / CAPTURE, running.node(1).port),
    ):
        address = running.bootstrap
        for codec in ("none", "gzip", "lz4", "zstd"):
            send_orders(address, "plain", range(6), acks="1", codec=codec)
            send_orders(address, "stamped", range(4), acks="all", codec=codec)
            send_orders(address, "idempotent", range(6), acks="all", codec=codec, idempotent=True)
        send_orders(address, "plain", range(6), acks="0")
        kafka_python_orders(address, "plain", 12)
        service = clients.Service(address, "transactions-service", codec="lz4")
        service.transactions([("transactions", 0), ("transactions", 1)], 5, aborted=(2,))
        clients.java_transactions(address, "transactions", "java-service", records=60, per_second=200, duration_ms=60)
        everything = [(name, number) for name, count in _TOPICS.items() for number in range(count)]
        for isolation in ("read_committed", "read_uncommitted"):
            read(address, everything, f"reader-{isolation}", isolation)
        clients.java_consumer(address, "transactions", "java-reader", records=60)
    return {"topics": _TOPICS}


# Groups ---------------------------------------------------------------------------------------------------------------

GROUP_CAPTURE = "clients.pcapng"
#: Releases that sound runs are recorded with; those of late data do not verify transactions, or are configured not to.
GROUP_SOUND = ("2.8.2", "3.9.1", BROKER_VERSION)
LATE = ("2.8.2", "3.9.1")
EVENTS, COUNTS = "events", "counts"
_SECONDS = 90.0
#: Of ends: below it all is decided.
_STABLE = "read_committed"
_INTERNAL = ("__transaction_state", "__consumer_offsets")


def record_groups(folder: Path, cache: Path | None = None) -> None:
    """Makes all folders and `truth.json`."""
    runs = [
        *((f"late-data-{version}", partial(_late_data, version=version)) for version in LATE),
        *((f"lost-responses-{version}", partial(_lost_responses, version=version)) for version in GROUP_SOUND),
        *((f"sound-{version}", partial(_sound_groups, version=version)) for version in GROUP_SOUND),
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
        one_broker(folder, {EVENTS: 1}, [EVENTS, *_INTERNAL], config=config, version=version, cache=cache) as running,
        Proxy(running.bootstrap, record=folder / GROUP_CAPTURE) as proxy,
        RawCluster(proxy.address) as wire,
    ):
        producer = wire.init_producer("ledger")
        wire.add_partitions(producer, {EVENTS: [0]})
        wire.produce(EVENTS, 0, [b"first"], producer, timestamp=clients.now())
        held = proxy.hold(ProduceRequest)
        offsets: list[int] = []

        def delayed() -> None:
            with RawCluster(proxy.address) as other:
                offsets.append(other.produce(EVENTS, 0, [b"late"], producer, sequence=1, timestamp=clients.now()))

        thread = threading.Thread(target=delayed)
        thread.start()
        until(held.caught.is_set, "a request that is held", seconds=_SECONDS)
        expect(wire.end(producer, committed=False), 0, "EndTxn")
        time.sleep(2)  # the marker is written
        held.release()
        thread.join()
        wire.add_partitions(producer, {EVENTS: [0]})
        wire.produce(EVENTS, 0, [b"next"], producer, sequence=2, timestamp=clients.now())
        expect(wire.end(producer, committed=True), 0, "EndTxn")
        time.sleep(2)
        send_orders(proxy.address, EVENTS, range(3), acks="all")
    return {"topic": EVENTS, "partition": 0, "offset": offsets[0]}


def _lost_responses(folder: Path, cache: Path | None, version: str) -> dict[str, Any]:
    """Each producer writes twelve batches, and the response to the seventh is dropped; to the last one of all, too,
    whose producer does not send it again."""
    topics = {"idempotent": 1, "plain": 1, "given-up": 1}
    with (
        one_broker(folder, topics, [*topics, *_INTERNAL], version=version, cache=cache) as running,
        Proxy(running.bootstrap, record=folder / GROUP_CAPTURE) as proxy,
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
    names = [EVENTS, f"{SOURCE}.{EVENTS}", "mm2-offset-syncs.target.internal", f"{SOURCE}.checkpoints.internal"]
    lake, mirror = folder / "lake", folder / "mirror"
    lake.mkdir(parents=True)
    with (
        tempfile.TemporaryDirectory(prefix="kafkawire-mirror-") as scratch,
        one_broker(mirror, {EVENTS: 1}, names, name="resumed", cache=cache) as running,
    ):
        send_orders(running.bootstrap, EVENTS, range(90), acks="all")
        _commit(running.bootstrap, "readers", 60)
        written = partial(end_of, running.bootstrap, f"{SOURCE}.{EVENTS}", _STABLE)
        with mirror_maker(Path(scratch) / "first", running.bootstrap, EVENTS) as mirroring:
            until(lambda: written() >= 90, "a mirror", seconds=_SECONDS)
            until(lambda: end_of(running.bootstrap, names[3], _STABLE) > 0, "a checkpoint", seconds=2 * _SECONDS)
            mirroring.kill()
        send_orders(running.bootstrap, EVENTS, range(90, 130), acks="all")
        _lake_job(running.bootstrap, lake, killed_after=3)
        _lake_job(running.bootstrap, lake)
        running.stop_node(1)
        copy_logs(running.log_dirs[1], mirror / "stopped", names)
        running.start_node(1)
        with mirror_maker(Path(scratch) / "second", running.bootstrap, EVENTS) as mirroring:
            until(lambda: written() >= 130, "the rest of the mirror", seconds=2 * _SECONDS)
            mirroring.stop()
    return {
        "mirror": {"topic": EVENTS, "mirrored": 90, "all": 130, "group": "readers", "committed": 60},
        "lake": {"records": 130, "twice": 20},
    }


def _lake_job(bootstrap: str, folder: Path, killed_after: int | None = None) -> None:
    command = [sys.executable, "-m", "tools.recordings.lake_writer", bootstrap, EVENTS, str(folder)]
    if killed_after is None:
        subprocess.run(command, check=True)
        return
    with subprocess.Popen([*command, str(killed_after)], stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        if job.stdout.readline() != "written\n":
            raise RecordingError("the job ended")
        job.kill()


def _sound_groups(folder: Path, cache: Path | None, version: str) -> dict[str, Any]:
    topics = {"plain": 1, "source": 2, "copied": 1, "transactions": 2, EVENTS: 1, COUNTS: 1}
    of_streams = [f"counts-{EVENTS}-counts-changelog", f"counts-{EVENTS}-counts-repartition"]
    with (
        tempfile.TemporaryDirectory(prefix="kafkawire-streams-") as scratch,
        one_broker(folder, topics, [*topics, *of_streams, *_INTERNAL], version=version, cache=cache) as running,
        Proxy(running.bootstrap, record=folder / GROUP_CAPTURE) as proxy,
    ):
        address = proxy.address
        for codec in ("none", "lz4"):
            send_orders(address, "plain", range(10), acks="all", codec=codec)
            send_orders(address, "source", range(10), acks="all", codec=codec, idempotent=True)
            send_orders(address, EVENTS, range(10), acks="all", codec=codec, idempotent=True)
        _kafka_python(address)
        service = clients.Service(address, "transactions-service")
        service.transactions([("transactions", 0), ("transactions", 1)], 4, aborted=(2,))
        _exactly_once(address, service)
        clients.java_transactions(address, "transactions", "java-service", records=40, per_second=200, duration_ms=60)
        clients.java_consumer(address, "transactions", "java-reader", records=40)
        with streams(Path(scratch) / "streams", address, EVENTS, COUNTS) as counting:
            until(lambda: end_of(running.bootstrap, COUNTS, _STABLE) > 20, "counts", seconds=2 * _SECONDS)
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
    reader.commit(offsets=[TopicPartition(EVENTS, 0, offset)], asynchronous=False)
    reader.close()

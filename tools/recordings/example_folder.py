"""`examples/`: a capture and log directories of real brokers, and what the brokers answered about them.

And of two pages of docs/: what was answered to clients and what the broker holds (`docs/witness`), and a share group
with a dead-letter topic (`docs/share-groups`).
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka

from kafkawire import messages
from kafkawire.messages.describe_producers_request import TopicRequest
from kafkawire.proxy import Proxy
from tools.broker import RunningCluster, cluster
from tools.broker.jars import BROKER_VERSION, TOOLS_VERSION, java
from tools.pages import templates

from . import RecordingError, broker_answers, clients, transaction_recipes
from .clients import Service, order
from .cluster_clients import ONE_PARTITION, lose_response, one_broker
from .log_copies import copy_logs
from .raw_client import RawCluster, RawProducer, expect
from .share_groups import share_run
from .tcpdump import measured, recorded
from .transaction_recipes import HOUR, INVALID_TXN_STATE, MINUTE

# examples/capture -----------------------------------------------------------------------------------------------------

PORT = 9092  # where Wireshark looks for Kafka
CAPTURED_TOPICS = {"orders": 2, "payments": 1}
_TRANSACTIONAL_ID_NOT_FOUND = 105
_UNKNOWN_TOPIC_OR_PARTITION = 3


def make_capture(path: Path, *, cache: Path | None = None) -> dict[str, Any]:
    """Records one capture; the truth about it, as JSON values. Port 9092 has to be free."""
    with cluster(1, config=transaction_recipes.CONFIG, port=PORT, cache=cache) as running, recorded(path, PORT):
        bootstrap = running.bootstrap
        with RawCluster(bootstrap) as wire:
            now = clients.now()
            clients.create_topics(bootstrap, CAPTURED_TOPICS)
            _applications(bootstrap, now)
            aborts = [_abort_with_kafka_transactions(wire, now), _abort_by_hand(wire, now)]
            _questions(wire)
            truth = broker_answers.ask_until(
                wire, CAPTURED_TOPICS, lambda truth: not any(state.open for state in truth.producers)
            )
        if any(state.open for state in truth.producers):
            raise RecordingError(f"a transaction is still open: {truth.producers}")
    return {
        "port": PORT,
        "topics": dict(CAPTURED_TOPICS),
        "aborts": aborts,
        "exchanges_by_hand": broker_answers.as_json(wire.exchanges),
        **broker_answers.as_json(truth),
    }


def _applications(bootstrap: str, now: int) -> None:
    orders = Service(bootstrap, "orders-service")
    invoices = Service(bootstrap, "invoices-service", codec="lz4")
    orders.transaction({("orders", 0): range(4), ("orders", 1): range(4, 8)}, timestamp=now - 10 * MINUTE)
    orders.transaction({("orders", 0): range(8, 10)}, timestamp=now - 9 * MINUTE, committed=False)
    orders.transaction({("orders", 1): range(10, 12)}, timestamp=now - 8 * MINUTE)
    invoices.transaction({("payments", 0): range(100, 120)}, timestamp=now - 7 * MINUTE)
    invoices.transaction({("payments", 0): range(120, 125)}, timestamp=now - 6 * MINUTE, committed=False)

    reader = clients.consumer(bootstrap, "shipments")
    shipments = Service(bootstrap, "shipments-service")
    clients.copy_exactly_once(shipments, reader, [("orders", 0), ("orders", 1)], ("payments", 0), bytes.upper)
    reader.close()

    auditor = clients.consumer(bootstrap, "auditors")
    auditor.subscribe(["payments"])
    clients.consume(auditor, [("payments", 0)])
    auditor.close()

    clients.java_transactions(bootstrap, "payments", "java-service", records=60, per_second=150, duration_ms=100)
    clients.java_consumer(bootstrap, "payments", "java-auditors", records=60)


def _hang(
    wire: RawCluster, transactional_id: str, topic: str, partition: int, timestamp: int
) -> tuple[RawProducer, int]:
    producer = wire.init_producer(transactional_id)
    start = wire.produce(topic, partition, [order(n) for n in range(900, 903)], producer, timestamp=timestamp)
    expect(wire.end(producer, committed=True), INVALID_TXN_STATE, "EndTxn of a transaction that no coordinator knows")
    return producer, start


def _blocked(wire: RawCluster, topic: str, partition: int, start: int) -> int:
    """The last stable offset, once nothing but the transaction from `start` on holds it back."""

    def stops_there(found: broker_answers.Truth) -> bool:
        return found.offsets_of(topic, partition).last_stable_offset == start

    return broker_answers.ask_until(wire, [topic], stops_there).offsets_of(topic, partition).last_stable_offset


def _abort(
    wire: RawCluster, by: str, topic: str, partition: int, producer: RawProducer, start: int, before: int
) -> dict[str, Any]:
    truth = broker_answers.ask_until(
        wire, [topic], lambda truth: truth.offsets_of(topic, partition).last_stable_offset not in (before, start)
    )
    state = truth.producer(topic, partition, producer.producer_id)
    after = truth.offsets_of(topic, partition).last_stable_offset
    if state.open or not before == start < after:
        raise RecordingError(f"the abort has not freed {topic}-{partition}: {state}, {before} -> {after}")
    return {
        "by": by,
        "topic": topic,
        "partition": partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "start_offset": start,
        "last_stable_offset_before": before,
        "last_stable_offset_after": after,
    }


def _abort_with_kafka_transactions(wire: RawCluster, now: int) -> dict[str, Any]:
    """An operator finds a hanging transaction with kafka-transactions.sh and aborts it."""
    topic, partition = "orders", 1
    producer, start = _hang(wire, "orders-archiver", topic, partition, now - 3 * HOUR)
    before = _blocked(wire, topic, partition, start)
    place = ["--topic", topic, "--partition", str(partition)]
    clients.kafka_transactions(wire.bootstrap, "list")
    clients.kafka_transactions(wire.bootstrap, "describe", "--transactional-id", "orders-service")
    clients.kafka_transactions(wire.bootstrap, "describe-producers", *place)
    found = clients.kafka_transactions(wire.bootstrap, "find-hanging", "--topic", topic)
    if str(producer.producer_id) not in found.split():
        raise RecordingError(f"kafka-transactions.sh does not find producer id {producer.producer_id}:\n{found}")
    clients.kafka_transactions(wire.bootstrap, "abort", *place, "--start-offset", str(start))
    return _abort(wire, "kafka-transactions.sh abort", topic, partition, producer, start, before)


def _abort_by_hand(wire: RawCluster, now: int) -> dict[str, Any]:
    """The same with single requests: WriteTxnMarkers v1 over the client's listener."""
    topic, partition = "payments", 0
    producer, start = _hang(wire, "payments-archiver", topic, partition, now - 2 * HOUR)
    before = _blocked(wire, topic, partition, start)
    state = broker_answers.ask(wire, [topic]).producer(topic, partition, producer.producer_id)
    wire.write_marker(topic, partition, producer, coordinator_epoch=max(state.coordinator_epoch, 0))
    return _abort(wire, "WriteTxnMarkers v1", topic, partition, producer, start, before)


def _questions(wire: RawCluster) -> None:
    """Every version of what operators ask, and answers with errors in them."""
    peer = wire.connection(-1)
    peer.ask_api_versions_of_the_future(99)
    software = messages.ApiVersionsRequest(client_software_name="kafkawire", client_software_version="examples")
    for version in messages.ApiVersionsRequest.spec.valid_versions:
        peer.ask(software, version, messages.ApiVersionsResponse)
    for version in messages.ListTransactionsRequest.spec.valid_versions:
        peer.ask(messages.ListTransactionsRequest(), version, messages.ListTransactionsResponse)
    some = messages.ListTransactionsRequest(
        state_filters=("CompleteCommit", "NoSuchState"), producer_id_filters=(0, 1, 2)
    )
    peer.ask(some, 0, messages.ListTransactionsResponse)
    unknown = messages.DescribeTransactionsRequest(transactional_ids=("orders-service", "nobody"))
    described = peer.ask(unknown, 0, messages.DescribeTransactionsResponse)
    codes_of_ids = [state.error_code for state in described.transaction_states]
    expect(codes_of_ids, [0, _TRANSACTIONAL_ID_NOT_FOUND], "DescribeTransactions")
    asked = tuple(TopicRequest(name=name, partition_indexes=(0, 1)) for name in CAPTURED_TOPICS)
    producers = peer.ask(messages.DescribeProducersRequest(topics=asked), 0, messages.DescribeProducersResponse)
    codes = {(t.name, p.partition_index): p.error_code for t in producers.topics for p in t.partitions}
    known = dict.fromkeys((("orders", 0), ("orders", 1), ("payments", 0)), 0)
    expect(codes, {**known, ("payments", 1): _UNKNOWN_TOPIC_OR_PARTITION}, "DescribeProducers")


# docs/witness ---------------------------------------------------------------------------------------------------------

WITNESS_CAPTURE = "clients.pcap"
WITNESS_TOPICS = {"orders": 2, "payments": 1, "metrics": 1}


def make_witness(folder: Path, cache: Path | None = None) -> dict[str, Any]:
    """Makes the capture and the log directory in `folder`; what was done, as JSON values.

    The clients are recorded where they speak to a proxy, which loses two responses of the broker.
    """
    with (
        one_broker(
            folder, WITNESS_TOPICS, [*WITNESS_TOPICS, "__transaction_state"], "*", name="broker-1", cache=cache
        ) as running,
        Proxy(running.bootstrap) as proxy,
        recorded(folder / WITNESS_CAPTURE, int(proxy.address.rpartition(":")[2])),
    ):
        _witnessed(proxy.address)
        lost = [
            lose_response(proxy, "payments", idempotent=True),
            lose_response(proxy, "metrics", idempotent=False),
        ]
    return {"topics": WITNESS_TOPICS, "lost_responses": lost}


def _witnessed(bootstrap: str) -> None:
    now = clients.now()
    service = Service(bootstrap, "orders-service")
    for number in range(6):
        numbers = {
            ("orders", 0): range(10 * number, 10 * number + 4),
            ("orders", 1): range(10 * number + 4, 10 * number + 6),
        }
        service.transaction(numbers, timestamp=now - (10 - number) * MINUTE, committed=number != 3)


# docs/share-groups ----------------------------------------------------------------------------------------------------

SHARE_TOPIC, SHARE_GROUP, DEAD_LETTERS = "orders", "workers", "dlq.workers"
LIMIT = 3
SHARE_CONFIG = {
    "group.share.delivery.count.limit": LIMIT,
    "share.coordinator.state.topic.num.partitions": 1,
    "replica.high.watermark.checkpoint.interval.ms": 500,  # a copy of the running broker has what was written
    **ONE_PARTITION,
}
#: What the group does with the records of the topic, in order; after them are some that it has not got yet.
FATES = (*("accept",) * 4, "reject", "accept", "release", "accept", "retry", *("accept",) * 3, "reject", "release")
WAITING = 4
_COPIED = (SHARE_TOPIC, DEAD_LETTERS, "__share_group_state", "__cluster_metadata")


def make_share_groups(folder: Path, cache: Path | None = None) -> dict[str, Any]:
    """Makes the log directory in `folder`; what was done, as JSON values."""
    with cluster(1, config=SHARE_CONFIG, cache=cache) as running:
        deliveries = share_workload(running)
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / "broker-1", _COPIED, "*")
    return {"topic": SHARE_TOPIC, "group": SHARE_GROUP, "limit": LIMIT, "deliveries": deliveries}


def share_workload(running: RunningCluster) -> list[list[Any]]:
    """The records and what a consumer does with them; its deliveries: partition, offset, number, and what was done."""
    enabled = {DEAD_LETTERS: {"errors.deadletterqueue.group.enable": "true"}}
    clients.create_topics(running.bootstrap, {SHARE_TOPIC: 1, DEAD_LETTERS: 1}, config=enabled)
    with share_run(running) as run:
        run.configure(
            SHARE_GROUP,
            "share.auto.offset.reset=earliest",
            f"share.delivery.count.limit={LIMIT}",
            f"errors.deadletterqueue.topic.name={DEAD_LETTERS}",
            "errors.deadletterqueue.copy.record.enable=true",
        )
        run.produce(SHARE_TOPIC, 0, list(FATES))
        run.read("run", SHARE_GROUP, SHARE_TOPIC, seconds=5)
        run.produce(SHARE_TOPIC, 0, ["accept"] * WAITING)
        time.sleep(1)
        (given,) = run.deliveries()
    rows: list[list[Any]] = given["rows"]
    return rows


# The folder -----------------------------------------------------------------------------------------------------------

MAX_BYTES = 5_000_000
CAPTURE = "transactions.pcap"
#: Beside the pages about them, docs/witness.md and docs/share-groups.md: an audit of examples/ reads whole log
#: directories only.
WITNESS, SHARE_GROUPS = "witness", "share-groups"


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes everything of `examples/` that brokers and clients make, with READMEs, in `folder`.

    Raises:
        RecordingError: Kafka answered other than the recipe expects, a tool is missing, or the files are too large.
    """
    (folder / "capture").mkdir(parents=True)
    expected: dict[str, Any] = {"made": _versions(), "capture": {}, "kafka-logs": {}}
    pcap = folder / "capture" / CAPTURE
    _note(f"capture/{CAPTURE} ...")
    expected["capture"][CAPTURE] = make_capture(pcap, cache=cache)
    for recipe in transaction_recipes.RECIPES:
        _note(f"kafka-logs/{recipe.name} ...")
        expected["kafka-logs"][recipe.name] = transaction_recipes.make(
            recipe, folder / "kafka-logs" / recipe.name, cache=cache
        )
    _note("witness ...")
    expected["witness"] = make_witness(folder / WITNESS, cache)
    (folder / WITNESS / ".gitattributes").write_text("** -text\n")
    _note("share-groups ...")
    expected["share-groups"] = make_share_groups(folder / SHARE_GROUPS, cache)
    (folder / SHARE_GROUPS / ".gitattributes").write_text("** -text\n")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    (folder / ".gitattributes").write_text("capture/** -text\nkafka-logs/** -text\n")  # bytes, whatever they look like
    _write_readmes(folder, expected)
    refuse_paths(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MAX_BYTES:
        raise RecordingError(f"{size} bytes are too many for examples, {MAX_BYTES} may be")
    _note(f"{size} bytes")


def _versions() -> dict[str, str]:
    printed = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr
    if (tcpdump := shutil.which("tcpdump")) is None:
        raise RecordingError("no tcpdump in PATH: install it (apt-get install tcpdump)")
    sniffer = subprocess.run([tcpdump, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"tcpdump version (\S+)", sniffer.stdout + sniffer.stderr)
    runtime = re.search(r'version "([^"]+)"', printed)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "kafka": BROKER_VERSION,
        "kafka_tools": TOOLS_VERSION,
        "confluent_kafka": importlib.metadata.version("confluent-kafka"),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "java": runtime[1] if runtime else "unknown",
        "tcpdump": found[1] if found else "unknown",
    }


def _write_readmes(folder: Path, expected: dict[str, Any]) -> None:
    environment = templates(Path(__file__).parent / "templates")

    def write(target: Path, template: str, **values: Any) -> None:
        target.write_text(environment.get_template(template).render(made=expected["made"], **values))

    made = expected["made"]
    versions = ", ".join(f"{name.replace('_', ' ')} {version}" for name, version in made.items() if name != "date")
    described = {
        name: {
            **truth,
            "brokers": len(list((folder / "kafka-logs" / name).glob("broker-*"))),
            "asked": datetime.fromtimestamp(truth["asked_at"] / 1000, UTC).isoformat(timespec="seconds"),
            "segment_ms": [
                topic for recipe in transaction_recipes.RECIPES if recipe.name == name for topic in recipe.config
            ],
        }
        for name, truth in expected["kafka-logs"].items()
    }
    write(folder / "README.md", "examples.md.j2", versions=versions, expected={"kafka-logs": described})
    for name, truth in described.items():
        target = folder / "kafka-logs" / name / "README.md"
        write(target, "logs.md.j2", name=name, logs=truth, topics=_topics(truth["topics"]), age=_age)
    write(folder / WITNESS / "README.md", "witness.md.j2", name=WITNESS_CAPTURE, **expected["witness"])
    write(folder / SHARE_GROUPS / "README.md", "share-groups.md.j2", **expected["share-groups"])
    pcap = folder / "capture" / CAPTURE
    truth = expected["capture"][CAPTURE]
    shape = {**truth, **measured(pcap)._asdict()}
    target = folder / "capture" / "README.md"
    write(target, "capture.md.j2", name=CAPTURE, capture=shape, topics=_topics(truth["topics"]))


def refuse_paths(folder: Path) -> None:
    """No path of the machine that made them may be in the examples."""
    paths = (tempfile.gettempdir(), str(Path.home()), str(Path.cwd()))
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        for prefix in paths:
            if f"{prefix}/".encode() in data:
                raise RecordingError(f"{path.relative_to(folder)} contains the path {prefix}")


def _topics(topics: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count} partition{'s' if count > 1 else ''})" for name, count in topics.items())


def _age(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    return f"{seconds // 3600} h {seconds % 3600 // 60} min" if seconds >= 3600 else f"{seconds} s"


def replace(output: Path, made: Path) -> None:
    """Moves what `record` made to `output`; other files there stay."""
    output.mkdir(parents=True, exist_ok=True)
    for new in sorted(made.iterdir()):
        old = output / new.name
        if old.is_dir():
            shutil.rmtree(old)
        shutil.move(new, old)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

"""A world in which printed commands run as they stand: files and folders that they name, and a cluster in memory with
the topics, groups and transactions that they name.

Of a command only addresses and absolute paths are replaced, by those of the world.
"""

from __future__ import annotations

import glob
import json
import re
import shutil
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pyarrow
import pyarrow.parquet
from msgspec.structs import replace

from kafkawire import load_schemas
from kafkawire.frames import encode_request
from kafkawire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    TransactionLogKey,
    TransactionLogValue,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.records import Record, build, read
from kafkawire.testing import MockBroker
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from tests.docs.guide import ROOT
from tools.recordings.raw_client import RawCluster, RawProducer

_ADDRESS = re.compile(r"^(?:127\.0\.0\.1|broker(?:-1)?|kafka|b|host|HOST)(?::(?:9092|9093|PORT))(?:,.*)?$")
_PARTITIONS = 8
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
#: Where a word begins that is a path of another machine -> the folder of the world.
_PLACES = (
    ("/copies/east", "copies/broker-1"), ("/copies/west", "copies/broker-1"), ("/copies/tier", "tier"),
    ("/copies", "copies"), ("/etc/kafkawire", "etc"), ("/var/kafka-logs", "broker"), ("LOG_DIR", "broker"),
    ("s3://", "copies"), ("/var/lib/node_exporter", "metrics"), ("/opt/kafka", "opt"), ("~/kafka", "opt"),
    ("/lake", "lake"),
)  # fmt: skip
#: Offsets of orders-0, more than any command names.
_MOST_OFFSETS = 6000
_OLD_MS = 3 * 3_600_000


class World:
    """The files, in a folder that commands are run in, and how a command is run there.

    Attributes:
        root: the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("examples", "docs", "build", "tests"):
            (root / name).symlink_to(ROOT / name)
        _log_directories(root)
        _captures(root)
        _schemas(root)
        for name in ("client.properties", "ssl.properties", "keys.log", "config.properties"):
            (root / name).write_text("")
        (root / "metrics").mkdir()
        (root / "etc").mkdir()
        for name in ("client.properties", "web.yml"):
            (root / "etc" / name).write_text("")
        ping = load_schemas(root / "my").PingRequest(text="hello")
        (root / "ping.bin").write_bytes(encode_request(ping, version=0, correlation_id=1))
        (root / "value.bin").write_bytes(TransactionLogValue().encode_prefixed(version=1))
        (root / "frames").mkdir()
        marker = encode_request(WriteTxnMarkersRequest(), version=1, correlation_id=1)
        (root / "frames" / "000001-WriteTxnMarkers-v1.req.bin").write_bytes(marker)

    def words(self, words: list[str], address: str) -> list[str]:
        """The words of a command with the world's address and paths."""
        found: list[str] = []
        places = (("/copies", "docs/share-groups"),) if "--share-group" in words else _PLACES
        for word in words:
            place = next(((begin, name) for begin, name in places if word.startswith(begin)), None)
            if _ADDRESS.match(word):
                found.append(address)
            elif place is not None:
                begin, name = place
                path = str(self.root / name) + self._below(word.removeprefix(begin), begin)
                found += sorted(glob.glob(path)) if glob.has_magic(path) else [path]
            else:
                found.append(word)
        return found

    def _below(self, rest: str, begin: str) -> str:
        rest = rest.replace("/TOPIC-0", "/orders-0")
        return "" if begin == "s3://" else rest


def _log_directories(root: Path) -> None:
    """Copies of three brokers, with more records in orders-0; one of them as a broker's own directory, with more."""
    shutil.copytree(ROOT / "examples" / "kafka-logs" / "three-nodes", root / "copies")
    for segment in root.glob("copies/broker-*/orders-0/*.log"):
        data = segment.read_bytes()
        end = max((one.last_offset + 1 for one in read(data) if hasattr(one, "last_offset")), default=0)
        more = [Record(value=b"x", timestamp=1_795_000_000_000) for _ in range(_MOST_OFFSETS)]
        segment.write_bytes(data + build(more, base_offset=end))
    shutil.copytree(root / "copies" / "broker-1", root / "broker")
    for topic, records in (("west.checkpoints.internal", 1), ("orders", 2)):
        for number in (0, 1, 2, 3):
            folder = root / "broker" / f"{topic}-{number}"
            if not folder.exists():
                folder.mkdir()
                (folder / f"{0:020}.log").write_bytes(build([Record(value=b"x")] * records))
    (root / "tier").mkdir()
    (root / "lake" / "orders").mkdir(parents=True)
    columns = {"topic": ["orders"], "partition": [0], "offset": [0]}
    pyarrow.parquet.write_table(pyarrow.table(columns), root / "lake" / "orders" / "part-0.parquet")


def _captures(root: Path) -> None:
    for name in ("trace.pcap", "mirror.pcap", "growing.pcap", "a.pcap", "b.pcap", "ring1.pcapng"):
        shutil.copy(ROOT / "examples" / "capture" / "transactions.pcap", root / name)


def _schemas(root: Path) -> None:
    """Schemas of one's own, and Kafka's as jars and in folders, as releases have them."""
    (root / "my").mkdir()
    for name, key in (("PingRequest", 9001), ("OrderValue", None), ("OrderKey", None)):
        schema = {
            "name": name, "type": "data" if key is None else "request",
            "validVersions": "0-1" if name == "OrderValue" else "0",
            "flexibleVersions": "none" if key is None else "0+",
            "fields": [{"name": "Text", "type": "string", "versions": "0+"}],
        } | ({} if key is None else {"apiKey": key})  # fmt: skip
        (root / "my" / f"{name}.json").write_text(json.dumps(schema))
    (root / "PingRequest.json").write_text((root / "my" / "PingRequest.json").read_text())
    shipped = sorted((ROOT / "schemas" / "kafka" / "rpc").glob("*.json"))
    folders = ("2.4.1", "3.6.2", "4.4.0", "opt/clients/src/main/resources/common/message")
    for folder in (root / name for name in folders):
        folder.mkdir(parents=True)
        for path in shipped:
            shutil.copy(path, folder)
    (root / "opt" / "libs").mkdir()
    jars = [f"kafka-{part}-{version}.jar" for part in ("clients", "group-coordinator")
            for version in ("3.9.1", "4.2.0", "4.3.1", "4.4.0")]  # fmt: skip
    for jar in (*(root / name for name in jars), root / "opt" / "libs" / "kafka-clients-4.4.0.jar"):
        with zipfile.ZipFile(jar, "w") as archive:
            for path in shipped:
                archive.write(path, f"common/message/{path.name}")


# The cluster ----------------------------------------------------------------------------------------------------------


def _value(words: list[str], option: str) -> list[str]:
    return [after for before, after in pairwise(words) if before == option]


@contextmanager
def cluster_of(words: list[str]) -> Iterator[MockBroker]:
    """A cluster in which the topics, groups, ids and transactions of a command are."""
    named = _value(words, "--topic") if "--bootstrap-server" in words else ()
    topics = dict.fromkeys(("orders", "payments", *named), _PARTITIONS) | {OFFSETS: 50, STATE: 50}
    level = 0 if words[:2] == ["txn", "commit"] else 2  # with level 2 an epoch may have several transactions
    broker = MockBroker(topics=topics, verify_transactions=False, transaction_version=level)
    with broker, RawCluster(broker.address) as wire:
        for topic in topics:
            if not topic.startswith("__"):
                _write(wire, topic, words)
        for name in (*_value(words, "--transactional-id"), *(f"{one}1" for one in _value(words, "--prefix"))):
            _open_transaction(broker, wire, name, words)
        for producer_id in _value(words, "--producer-id"):
            if not _value(words, "--transactional-id"):
                _open_transaction(broker, wire, "of-a-producer", ["--producer-id", producer_id])
        for group in (*_value(words, "--group"), *_value(words, "--lag")):
            _commit(wire, group)
        yield broker


def _write(wire: RawCluster, topic: str, words: list[str]) -> None:
    """Records; and where a command names the offset at which a transaction begins, one that hangs there."""
    partition = int((_value(words, "--partition") or ["0"])[0])
    start = int((_value(words, "--start-offset") or ["0"])[0])
    before = max(start, *(int(one) + 1 for one in _value(words, "--offset") if one.isdigit()), 1)
    old = int(time.time() * 1000) - _OLD_MS
    if start or "--start-offset" not in words:
        count = start if "--start-offset" in words else before
        plain = wire.init_producer(None)
        wire.produce(topic, partition, [b"x"] * count, plain, timestamp=old - 1000 * count, transactional=False)
    if "--start-offset" in words:
        lost = wire.init_producer(f"lost-of-{topic}")
        wire.produce(topic, partition, [b"x"], lost, timestamp=old)


def _open_transaction(broker: MockBroker, wire: RawCluster, name: str, words: list[str]) -> RawProducer:
    """An open transaction of an id, with the producer id and epoch that a command names."""
    for number in _value(words, "--producer-id"):
        broker._transactions._next_producer_id = int(number) - 1
    epochs = int((_value(words, "--producer-epoch") or ["0"])[0])
    producer = wire.init_producer(name)
    while producer.epoch < epochs:
        producer = wire.init_producer(name)
    now = int(time.time() * 1000)
    wire.add_partitions(producer, {"orders": [0]})
    wire.produce("orders", 0, [b"x"], producer, timestamp=now)
    key = TransactionLogKey(transactional_id=name).encode_prefixed(version=0)
    empty = TransactionLogValue(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_timeout_ms=900_000,
        transaction_last_update_timestamp_ms=now,
        client_transaction_version=2,
    )
    partitions = (PartitionsSchema(topic="orders", partition_ids=(0,)),)
    ongoing = replace(
        empty, transaction_status=1, transaction_start_timestamp_ms=now, transaction_partitions=partitions
    )
    values = [one.encode_prefixed(version=1) for one in (empty, ongoing)]
    records = [Record(key=key, value=value, timestamp=now) for value in values]
    broker.append(STATE, partition_of_id(name, 50), records)
    return producer


def _commit(wire: RawCluster, group: str) -> None:
    partitions = (OffsetCommitRequestPartition(partition_index=0, committed_offset=0),)
    body = OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name="orders", partitions=partitions),))
    wire.connection(1).ask(body, 8, OffsetCommitResponse)

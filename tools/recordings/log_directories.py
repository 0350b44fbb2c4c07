"""Log directories of single brokers of three releases, each made by a recipe, and what a read_uncommitted consumer got
of each partition.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

from tools.broker import RunningCluster, cluster
from tools.polling import until

from . import RecordingError
from . import clients as applications
from .cluster_clients import Item, producer_of, read, set_topic_config, write
from .log_copies import copy_log_directory

TIMEOUT_S = 30.0
#: Releases for which librdkafka writes message sets of a magic: the broker is taken for one of them.
OLD_BROKER = {0: "0.9.0.1", 1: "0.10.0.0"}

_TIMESTAMP_TYPES = {TIMESTAMP_NOT_AVAILABLE: "NoTimestampType", TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}


def items(first: int, count: int, timestamp: int, *, keys: int | None = None) -> list[Item]:
    """Records that compress, with nulls among them; with `keys`, as many keys recur, and every third record has
    its own: compaction leaves those, and gaps between them.

    Args:
        first: number of the first record. `timestamp`: of the first record, epoch milliseconds; a second between two.
        keys: number of keys that recur; None for a key of its own, or none, for each record.
    """
    made: list[Item] = []
    for number in range(first, first + count):
        own = number if number % 3 == 0 else number % (keys or 1)
        key = b"key-%d" % own if keys else (None if number % 5 == 3 else b"key-%d" % number)
        value = None if number % 7 == 4 and not keys else b"value %d of many, much alike" % number
        made.append((key, value, timestamp + 1000 * (number - first)))
    return made


def produce(
    bootstrap: str, topic: str, written: Iterable[Item], *, codec: str = "none", magic: int = 2, partition: int = 0
) -> None:
    """Writes one batch (or message set): `magic` 0 and 1 as clients of that time did.

    Args:
        written: key, value and timestamp of each record. `codec`: compression.
        magic: 2, or 0 or 1 for a message set as an old client writes it.
    """
    config: dict[str, Any] = {
        "compression.type": codec,
        "linger.ms": 1000,  # all that is given goes into one batch: flush() does not wait
    }
    if magic in OLD_BROKER:
        config |= {"api.version.request": False, "broker.version.fallback": OLD_BROKER[magic]}
    write(producer_of(bootstrap, config), topic, written, partition=partition)


def read_all(bootstrap: str, topic: str, partition: int) -> list[dict[str, Any]]:
    """All records of a partition, aborted and open ones too, as librdkafka reads them; markers it does not show.

    Args:
        partition: number. It is read from its beginning to its end.
    """
    found: list[dict[str, Any]] = []
    for message in read(bootstrap, [(topic, partition)], "truth", "read_uncommitted"):
        kind, timestamp = message.timestamp()
        found.append(
            {
                "offset": message.offset(),
                "timestamp": -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
                "timestamp_type": _TIMESTAMP_TYPES.get(kind, "CreateTime"),
                "key": _text(message.key()),
                "value": _text(message.value()),
            }
        )
    return found


def last_magic(partition: Path) -> int:
    """Magic of the last batch in a partition's newest segment, -1 if it has none."""
    data = max(partition.glob("*.log")).read_bytes()
    magic, position = -1, 0
    while position < len(data):
        magic = data[position + 16]
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return magic


def _text(data: bytes | str | Sequence[Any] | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else None


# Recipes --------------------------------------------------------------------------------------------------------------

#: Small index files: the copy of a running broker has them at full size.
SMALL: Mapping[str, object] = {
    "log.index.size.max.bytes": 2048,
    "log.index.interval.bytes": 256,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}
#: 2021-09-13T12:26:40Z: older than no retention that is set here (-1), and always the same.
THEN = 1_631_536_000_000
FORMATS = {0: "0.9.0", 1: "0.10.0", 2: "2.8"}
CODECS = ("none", "gzip", "snappy", "lz4")

Topics = Mapping[str, Mapping[str, str]]


@dataclass
class LogDirectoryScene:
    """A running cluster, and the clients whose transactions are to stay open."""

    running: RunningCluster
    left_open: list[applications.Service] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return self.running.bootstrap

    def service(self, transactional_id: str, codec: str) -> applications.Service:
        return applications.Service(self.bootstrap, transactional_id, codec=codec)


@dataclass(frozen=True)
class LogDirectoryRecipe:
    """A folder: which release with which topics ({name: properties}, one partition each), and what happens to them.

    running: copied while the broker runs, otherwise after a clean stop.
    """

    name: str
    version: str
    topics: Topics
    act: Callable[[LogDirectoryScene], None]
    config: Mapping[str, object] = field(default_factory=dict)
    running: bool = False


def _old_topics() -> Topics:
    topics = {
        f"magic{magic}-{codec}": {"message.format.version": FORMATS[magic]} for magic in OLD_BROKER for codec in CODECS
    }
    topics["stamped"] = {"message.format.version": FORMATS[1], "message.timestamp.type": "LogAppendTime"}
    topics["upgraded"] = {"message.format.version": FORMATS[0], "segment.bytes": "2000"}
    topics["compacted"] = {
        "message.format.version": FORMATS[1],
        "cleanup.policy": "compact",
        "segment.bytes": "700",
        "min.cleanable.dirty.ratio": "0.001",
    }
    topics["orders"] = {}
    return topics


def _old_formats(scene: LogDirectoryScene) -> None:
    """Message sets of magic 0 and 1 by both roads: an old client's own, and those that the broker converts to."""
    for magic in OLD_BROKER:
        for codec in CODECS:
            topic = f"magic{magic}-{codec}"
            produce(scene.bootstrap, topic, items(0, 12, THEN), codec=codec, magic=magic)
            produce(scene.bootstrap, topic, items(12, 12, THEN), codec=codec)
            produce(scene.bootstrap, topic, items(24, 1, THEN), codec=codec, magic=magic)
    for codec in ("none", "gzip"):
        produce(scene.bootstrap, "stamped", items(0, 5, THEN), codec=codec, magic=1)
        produce(scene.bootstrap, "stamped", items(5, 5, THEN), codec=codec)
    _upgraded(scene)
    _compacted(scene)
    _transactions(scene, ("none", "lz4"))


def _upgraded(scene: LogDirectoryScene) -> None:
    """One partition through three formats, its segments with a mix."""
    partition = scene.running.log_dirs[1] / "upgraded-0"
    numbers = count()

    def written_as(magic: int) -> bool:
        produce(scene.bootstrap, "upgraded", items(2 * next(numbers), 2, THEN), codec="gzip")
        return last_magic(partition) == magic

    for magic, version in FORMATS.items():
        set_topic_config(scene.bootstrap, "upgraded", "message.format.version", version)
        until(partial(written_as, magic), f"messages of magic {magic}", seconds=TIMEOUT_S)
        for codec in CODECS:
            produce(scene.bootstrap, "upgraded", items(1000 * magic, 8, THEN), codec=codec)


def _compacted(scene: LogDirectoryScene) -> None:
    for first in range(0, 120, 20):
        produce(scene.bootstrap, "compacted", items(first, 20, THEN + 1000 * first, keys=7), codec="gzip")
    checkpoint = scene.running.log_dirs[1] / "cleaner-offset-checkpoint"
    until(lambda: checkpoint.exists() and "compacted 0 " in checkpoint.read_text(), "compaction", seconds=TIMEOUT_S)


def _transactions(scene: LogDirectoryScene, codecs: tuple[str, ...]) -> None:
    """Committed, aborted, interleaved, with offsets of a consumer group; one stays open."""
    services = [scene.service(f"{codec}-service", codec) for codec in codecs]
    for i, service in enumerate(services):
        then = THEN + 60_000 * i
        service.transaction({("orders", 0): range(10 * i, 10 * i + 4)}, timestamp=then)
        service.transaction({("orders", 0): range(10 * i + 4, 10 * i + 7)}, timestamp=then + 10_000, committed=False)
    first, second = services[:2]
    first.begin()
    second.begin()
    for numbers in (range(100, 102), range(102, 104)):
        first.send("orders", 0, numbers, timestamp=THEN + 600_000)
        second.send("orders", 0, numbers, timestamp=THEN + 660_000)
    second.end(committed=False)
    first.end(committed=True)
    reader = applications.consumer(scene.bootstrap, "readers")
    applications.copy_exactly_once(first, reader, [("orders", 0)], ("orders", 0), bytes.upper)
    reader.close()
    second.begin()
    second.send("orders", 0, range(200, 203), timestamp=int(time.time() * 1000))
    scene.left_open.append(second)


def _modern(scene: LogDirectoryScene) -> None:
    for codec in (*CODECS, "zstd"):
        produce(scene.bootstrap, "plain", items(0, 10, THEN), codec=codec)
    produce(scene.bootstrap, "stamped", items(0, 10, THEN), codec="zstd")
    _transactions(scene, ("none", "gzip", "snappy", "lz4", "zstd"))


def _snapshots(scene: LogDirectoryScene) -> None:
    """Metadata that grows until the controller writes a snapshot of it."""
    _modern(scene)
    metadata = scene.running.log_dirs[1] / "__cluster_metadata-0"
    changes = count(10**12)

    def taken() -> bool:
        set_topic_config(scene.bootstrap, "plain", "retention.ms", str(next(changes)))
        return len(list(metadata.glob("*.checkpoint"))) > 1

    until(taken, "a metadata snapshot", seconds=TIMEOUT_S)


_MODERN_TOPICS: Topics = {
    "plain": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "orders": {"segment.bytes": "1500"},
}

RECIPES = (
    LogDirectoryRecipe("kafka-2.8.2", "2.8.2", _old_topics(), _old_formats, config={"log.cleaner.backoff.ms": 100}),
    LogDirectoryRecipe(
        "kafka-3.9.1",
        "3.9.1",
        _MODERN_TOPICS,
        _snapshots,
        config={"metadata.log.max.record.bytes.between.snapshots": 4000},
    ),
    LogDirectoryRecipe(
        "kafka-4.4.0-running",
        "4.4.0",
        # Segments of 4.x are at least a mebibyte, unless an internal test option is set.
        {name: {k: v for k, v in config.items() if k != "segment.bytes"} for name, config in _MODERN_TOPICS.items()},
        _modern,
        running=True,
    ),
)


def create_topics(scene: LogDirectoryScene, topics: Topics) -> None:
    keep = {"retention.ms": "-1"}
    applications.create_topics(
        scene.bootstrap,
        dict.fromkeys(topics, 1),
        replicas=1,
        config={name: keep | dict(config) for name, config in topics.items()},
    )


def record(recipe: LogDirectoryRecipe, folder: Path, cache: Path | None = None) -> None:
    """Makes `data/`, the broker's log directory, and `expected.json`, what librdkafka read from it, in `folder`.

    Args:
        recipe: release, topics, and what is done to them. `folder`: exists, and is empty.
        cache: folder of Kafka's jars; by default `jars.cache_dir()`.

    Raises:
        RecordingError: the broker was not shut down cleanly, or a client did not get an answer.
    """
    with cluster(version=recipe.version, config={**SMALL, **recipe.config}, cache=cache) as running:
        scene = LogDirectoryScene(running)
        create_topics(scene, recipe.topics)
        recipe.act(scene)
        expected = {f"{topic}-0": read_all(running.bootstrap, topic, 0) for topic in recipe.topics}
        log_dir = running.log_dirs[1]
        if not recipe.running and not (running.stop() and (log_dir / ".kafka_cleanshutdown").exists()):
            raise RecordingError(f"{recipe.name}: the broker was not shut down cleanly")
        copy_log_directory(log_dir, folder / "data")
        scene.left_open.clear()
    _write_expected(folder / "expected.json", {"version": recipe.version, "records": expected})


def _write_expected(path: Path, expected: dict[str, Any]) -> None:
    """JSON with a record a line."""
    lines = []
    for place, found in expected["records"].items():
        rows = ",\n".join("  " + json.dumps(record) for record in found)
        lines.append(f" {json.dumps(place)}: [\n{rows}\n ]")
    text = f'{{"version": {json.dumps(expected["version"])}, "records": {{\n' + ",\n".join(lines) + "\n}}\n"
    path.write_text(text)

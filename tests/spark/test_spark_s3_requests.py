"""What planning costs an object store: a LIST for a thousand keys, no HEAD of a segment; counted at the store."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import records
from kafkawire.logdir import remote
from kafkawire.logdir.tiers import uuid_of
from kafkawire.spark.errors import SourceError
from kafkawire.spark.listing import fleet_listing
from kafkawire.spark.sources.segment_columns import BATCHES
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.segment_streams import SegmentStream
from kafkawire.spark.sources.source_base import SourceOptions
from tests.spark import stores

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BROKERS, PARTITIONS, SEGMENTS, KINDS = 2, 8, 55, (".log", ".index", ".timeindex")
IDS = [f"{number:022}" for number in range(PARTITIONS)]


def batch(offset: int) -> bytes:
    return records.build(
        [records.Record(offset=offset, value=b"value")], base_offset=offset, timestamp=1_700_000_000_000
    )


def fleet(root: Path) -> int:
    """Log directories with 2,600 files and more; the number of files."""
    for broker in range(BROKERS):
        for partition in range(PARTITIONS):
            folder = root / f"broker-{broker}" / f"orders-{partition}"
            folder.mkdir(parents=True)
            for segment in range(SEGMENTS):
                for kind in KINDS:
                    data = b"" if kind != ".log" else batch(segment)
                    (folder / f"{segment:020}{kind}").write_bytes(data)
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {IDS[partition]}\n")
        (root / f"broker-{broker}" / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={broker}\n")
    return sum(len(names) for _, _, names in os.walk(root))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    root = tmp_path_factory.mktemp("fleet")
    files = fleet(root)
    with stores.bucket({"logs": root}) as uri:
        yield uri("logs"), files
    shutil.rmtree(root)


def options(uri: str, **more: str) -> SourceOptions:
    return SourceOptions({"rows": "batches", "path": uri, **more})


def test_a_batch_costs_a_list_for_a_thousand_keys_and_no_head_of_a_segment(store: Any) -> None:
    uri, files = store
    with stores.counted() as requests:
        reader = SegmentReader(from_arrow_schema(BATCHES), options(uri))
        tasks = reader.partitions()
    found = requests.named()
    assert found.pop(("GET", "LIST")) == -(-files // 1000)
    # Two replicas have each name: their topic ids are asked for, and checkpoints by log directory.
    by_directory = {"meta.properties", "replication-offset-checkpoint"}
    assert {name for _, name in found} <= {"partition.metadata", *by_directory}
    assert found["GET", "partition.metadata"] == BROKERS * PARTITIONS
    assert all(count <= BROKERS for (_, name), count in found.items() if name in by_directory)
    assert sum(len(task.items) for task in tasks) == PARTITIONS * SEGMENTS
    with stores.counted() as requests:
        rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert Counter(row["base_offset"] for row in rows) == dict.fromkeys(range(SEGMENTS), PARTITIONS)
    assert not any(name == "LIST" for _, name in requests.named())


def test_one_replica_of_each_is_planned_by_the_list_and_the_ids_of_topics(store: Any) -> None:
    """A task reads an id again for each segment, to see whether the topic is still the one that was planned."""
    uri, files = store
    place, mark, query = uri.partition("?")
    reader = SegmentReader(from_arrow_schema(BATCHES), options(f"{place}/broker-1{mark}{query}"))
    with stores.counted() as requests:
        tasks = reader.partitions()
    found = requests.named()
    assert found.pop(("GET", "LIST")) == -(-files // BROKERS // 1000)
    assert found["GET", "partition.metadata"] == PARTITIONS
    assert {name for _, name in found} <= {"meta.properties", "replication-offset-checkpoint", "partition.metadata"}
    with stores.counted() as requests:
        rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert len(rows) == PARTITIONS * SEGMENTS
    found = requests.named()
    assert found["GET", "partition.metadata"] == PARTITIONS * SEGMENTS
    assert {name for _, name in found} == {"partition.metadata", *(f"{one:020}.log" for one in range(SEGMENTS))}


@pytest.mark.parametrize("together", [True, False])
def test_workers_list_a_log_directory_with_a_request_for_a_thousand_keys(
    store: Any, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """The audit and a lake. One with many keys is divided among workers."""
    uri, files = store
    if not together:
        monkeypatch.setattr(fleet_listing, "_KEYS_TOGETHER", files // BROKERS // 2)
    with stores.counted() as of_driver:
        folders = fleet_listing._folders(0, uri)
    # The store (what is there, and what is in it), each log directory, and three partitions of each; where these are
    # divided, all partitions.
    assert of_driver.named()["GET", "LIST"] <= 2 + 4 * BROKERS + (0 if together else BROKERS * PARTITIONS)
    with stores.counted() as of_workers:
        rows = [row for folder in folders for row in fleet_listing._rows_of(folder)]
    below = BROKERS * -(-files // BROKERS // 1000) if together else BROKERS * (1 + PARTITIONS)
    assert of_workers.named()["GET", "LIST"] == 1 + below
    kinds = Counter(row[0] for row in rows)
    assert kinds == {fleet_listing.REPLICA: BROKERS * PARTITIONS, fleet_listing.BROKER: kinds[fleet_listing.BROKER]}
    sizes = {tuple(row[fleet_listing.LISTING.names.index("sizes")]) for row in rows if row[0] == fleet_listing.REPLICA}
    assert len(sizes) == 1
    assert {os.fsdecode(row[2]).rpartition("/")[2] for row in rows if row[0] == fleet_listing.REPLICA} == {
        f"orders-{number}" for number in range(PARTITIONS)
    }


def test_an_idle_trigger_of_a_stream_reads_no_segment(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, files = store
    monkeypatch.setattr(remote, "_TICK_NS", 0)  # the files were written just now
    time.sleep(1.1)  # the store's times are whole seconds
    stream = SegmentStream(from_arrow_schema(BATCHES), options(uri))
    with stores.counted() as requests:
        first = stream.latestOffset()
    assert requests.named()["GET", f"{SEGMENTS - 1:020}.log"] <= 2 * PARTITIONS
    with stores.counted() as requests:
        assert stream.latestOffset(first) == first
    found = requests.named()
    assert found.pop(("GET", "LIST")) == -(-files // 1000)
    assert {name for _, name in found} <= {"replication-offset-checkpoint"}


def test_what_was_written_since_is_read(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_TICK_NS", 0)
    uri = store[0].replace("/logs?", "/growing?")
    name = f"fleet/growing/orders-0/{0:020}.log"

    def write(data: bytes) -> None:
        with remote._opened(store[0])[0].open_output_stream(name) as file:
            file.write(data)

    write(batch(0))
    time.sleep(1.1)
    stream = SegmentStream(from_arrow_schema(BATCHES), options(uri))
    first = stream.latestOffset()
    write(batch(0) + batch(1))
    second = stream.latestOffset(first)
    tasks = stream.partitions(first, second)
    rows = [row for task in tasks for found in stream.read(task) for row in found.to_pylist()]
    assert [row["base_offset"] for row in rows] == [1]


@pytest.mark.parametrize("id_is_there", [True, False])
def test_a_topic_that_is_created_again_before_the_tasks_read_is_not_taken_for_the_planned_one(
    store: Any, id_is_there: bool
) -> None:
    """A store whose copies are renewed: the new topic's segments have the names of those that were planned."""
    uri = store[0].replace("/logs?", "/renewed?")
    filesystem = remote._opened(store[0])[0]
    names = [f"{segment:020}.log" for segment in range(3)]
    files = {f"fleet/renewed/orders-0/{name}": batch(offset) for offset, name in enumerate(names)}
    metadata = "fleet/renewed/orders-0/partition.metadata"

    def write(key: str, data: bytes) -> None:
        with filesystem.open_output_stream(key) as file:
            file.write(data)

    def topic(number: int) -> str:
        id = f"{number}{'0' * 21}"
        write(metadata, f"version: 0\ntopic_id: {id}\n".encode())
        for key, data in files.items():
            write(key, data)
        return str(uuid_of(id))

    former = topic(1)
    readers = [
        SegmentReader(from_arrow_schema(BATCHES), options(uri, **more)) for more in ({}, {"failOnDataLoss": "true"})
    ]
    plans = [(reader, reader.partitions()) for reader in readers]
    same, _ = (
        [row["base_offset"] for task in tasks for b in one.read(task) for row in b.to_pylist()] for one, tasks in plans
    )
    assert sorted(same) == [0, 1, 2]
    created = topic(2)
    text = f"the topic {former} was deleted, and created again with the id {created}"
    if not id_is_there:
        filesystem.delete_file(metadata)
        text = f"the directory has no topic id any more; it had {former}"
    reader, tasks = plans[0]
    rows = [row for task in tasks for found in reader.read(task) for row in found.to_pylist()]
    assert [row["base_offset"] for row in rows] == [None] * 3
    reason = "out_of_range: the log was removed before it was read" if id_is_there else "unreadable"
    assert {row["error"] for row in rows} == {f"{reason}: {text}"}
    if id_is_there:
        reader, tasks = plans[1]
        with pytest.raises(SourceError, match=text):
            list(reader.read(tasks[0]))

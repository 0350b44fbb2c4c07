"""Committed records, decided from parts of logs: on recorded clusters, what a consumer got from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir
from kafkawire.logdir import Partition
from kafkawire.logdir.cleaning import NOT_CLEANED, Cleaned
from kafkawire.logdir.isolation import cleaned as cleaned_of
from kafkawire.logdir.splits import batches_of, ranges
from kafkawire.logdir.transaction_doubts import NO_OFFSET
from kafkawire.logdir.view import View
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Batch, Record, build, build_marker
from kafkawire.records.columns import Batches, records
from kafkawire.spark.lake.lake_outcomes import Decided, decide, scan_part
from kafkawire.transactions import outcome_of, read_committed
from tests.audit_logs import PartitionLog
from tests.consumed import REPLICAS, Replicas
from tests.spark.lake_jobs import undecodable
from tools.recordings.archive import unpacked

DATA = unpacked("read-committed")
CONSUMED: dict[str, Any] = json.loads((DATA / "consumed.json").read_text("utf-8"))
EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"


EVERYWHERE = Cleaned(NO_OFFSET)


def decided(
    partition: Partition,
    size: int,
    start: int = 0,
    limit: int | None = None,
    *,
    cleaned: Cleaned = NOT_CLEANED,
    decode: bool = False,
) -> Decided:
    scans = [
        scan_part(file, begin, end, start, limit, decode=decode, cleaned=cleaned)
        for file in partition.segments
        for begin, end in ranges(file, size)
    ]
    return decide(scans, start, limit, cleaned=cleaned)


def committed(partition: Partition, found: Decided, start: int = 0) -> list[list[Any]]:
    """Offset, key and value of the records from an offset on, as text."""
    rows = []
    view = View(outcomes=found.outcomes, isolation_level="read_committed")
    for file in partition.segments:
        for item in batches_of(file):
            if isinstance(item, Batches):
                for one in records(item.where(view.see(item).kept)):
                    keys, values = one.arrow_keys().to_pylist(), one.arrow_values().to_pylist()
                    rows += map(list, zip(one.offset.tolist(), keys, values, strict=True))
    return [
        [offset, *(None if data is None else data.decode() for data in texts)]
        for offset, *texts in rows
        if start <= offset < found.end
    ]


def partitions(name: str) -> dict[str, Partition]:
    return {one.topic: one for one in logdir.open(DATA / name).partitions if one.topic in CONSUMED[name]["records"]}


@pytest.mark.parametrize("size", [1 << 10, 64 << 20])
@pytest.mark.parametrize("name", sorted(CONSUMED))
def test_committed_records_are_those_that_a_consumer_got(name: str, size: int) -> None:
    truth = CONSUMED[name]
    found = {topic: decided(one, size, one.local_start_offset or 0) for topic, one in partitions(name).items()}
    assert {topic: one.held for topic, one in found.items() if one.held} == {}
    assert {topic: one.end for topic, one in found.items()} == truth["last_stable_offset"]
    got = {topic: committed(one, found[topic], one.local_start_offset or 0) for topic, one in partitions(name).items()}
    assert got == truth["records"]


@pytest.mark.slow
@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
def test_committed_records_are_those_of_a_java_consumer(replicas: Replicas) -> None:
    truth = replicas.consumed("read_committed")
    for one in logdir.open(replicas.path).partitions:
        start = one.local_start_offset or 0
        found = decided(one, 1 << 10, start, one.high_watermark, cleaned=cleaned_of(one))
        expected = truth[one.topic or ""]
        assert (found.held, found.end) == ("", expected["end"]), one
        assert committed(one, found, start) == expected["records"]


@pytest.mark.slow
@pytest.mark.parametrize("topic", sorted(CONSUMED["stopped"]["records"]))
def test_runs_that_follow_one_another_give_each_record_once(topic: str) -> None:
    partition = partitions("stopped")[topic]
    offset = first = partition.local_start_offset or 0
    rows = []
    for limit in sorted(
        {batch.last_offset + 1 for batch in partition if isinstance(batch, Batch)}
    ):  # the high watermark, batch by batch
        # A broker's cleaner-offset-checkpoint names that topic.
        found = decided(partition, 1 << 10, offset, limit, cleaned=Cleaned(72 if topic == "compacted" else 0))
        assert found.end >= offset
        rows += committed(partition, found, offset)
        offset = found.end
    assert offset == max(first, CONSUMED["stopped"]["last_stable_offset"][topic])
    assert rows == CONSUMED["stopped"]["records"][topic]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_that_cannot_be_decoded_end_what_is_passed_on(tmp_path: Path, codec: str) -> None:
    """Their batch has the right checksum."""
    batches = [
        build([Record(b"k", b"v"), Record(b"k", b"w")], base_offset=2 * number, codec=codec) for number in range(4)
    ]
    batches[2] = undecodable(batches[2])
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    (partition,) = logdir.open(tmp_path).partitions
    assert decided(partition, 64 << 20)[:2] == (8, "")
    for size in (1, 64 << 20):
        found = decided(partition, size, decode=True)
        assert (found.end, len(found.outcomes.aborted.first)) == (4, 0)
        assert f"at byte {len(batches[0]) * 2}: bad_records: " in found.held
    assert decided(partition, 64 << 20, 6, decode=True)[:2] == (8, "")


def test_a_missing_segment_of_a_compacted_log_ends_what_is_passed_on(tmp_path: Path) -> None:
    """Where a transaction begins before it; a snapshot behind it may show that it was still open there."""
    ids = {"producer_id": 1, "producer_epoch": 0}
    data = [build([Record(b"k")], base_offset=offset, transactional=True, **ids) for offset in (0, 6)]
    commit = build_marker("COMMIT", offset=7, timestamp=1, coordinator_epoch=0, **ids)
    (tmp_path / "orders-0").mkdir()
    for base, log in ((0, data[0]), (6, data[1] + commit)):
        (tmp_path / "orders-0" / f"{base:020}.log").write_bytes(log)
    (partition,) = logdir.open(tmp_path).partitions
    assert decided(partition, 1 << 10, cleaned=EVERYWHERE)[:2] == (0, "offsets 1 to 5 are missing")
    for still_open, expected in ((True, (8, "")), (False, (0, "offsets 1 to 5 are missing"))):
        entry = ProducerEntry(producer_id=1, epoch=0, current_txn_first_offset=0 if still_open else -1)
        PartitionLog(tmp_path / "orders-0").snapshot(entry, offset=6)
        assert decided(partition, 1 << 10, cleaned=EVERYWHERE)[:2] == expected


# Logs that are made up ------------------------------------------------------------------------------------------------

DATA_OF, PLAIN, COMMITTED, ABORTED = "data", "plain", "COMMIT", "ABORT"
EVENTS = st.lists(
    st.tuples(st.sampled_from([DATA_OF, DATA_OF, PLAIN, COMMITTED, ABORTED]), st.integers(1, 3), st.integers(1, 3)),
    max_size=30,
)


def written(folder: Path, events: list[tuple[str, int, int]]) -> list[int]:
    """A segment with these batches: kind, producer, number of records. Returns where batches end; a marker without
    a transaction is left out."""
    log, ends, open_ = b"", [0], set()
    for kind, producer, count in events:
        offset = ends[-1]
        if kind in (COMMITTED, ABORTED):
            if producer not in open_:
                continue
            open_.discard(producer)
            log += build_marker(
                kind, offset=offset, timestamp=1, producer_id=producer, producer_epoch=0, coordinator_epoch=0
            )
            ends.append(offset + 1)
            continue
        if kind == DATA_OF:
            open_.add(producer)
        owner = {"producer_id": producer, "producer_epoch": 0} if kind == DATA_OF else {}
        found = [Record(b"%d" % (offset + n), timestamp=1) for n in range(count)]
        log += build(found, base_offset=offset, transactional=kind == DATA_OF, base_sequence=0, **owner)
        ends.append(offset + count)
    (folder / "orders-0").mkdir(exist_ok=True)
    (folder / "orders-0" / f"{0:020}.log").write_bytes(log)
    return ends


@pytest.mark.slow
@given(EVENTS, st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_parts_and_runs_give_what_a_broker_computes(
    tmp_path: Path, events: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    ends = written(tmp_path, events)
    marks = [*sorted(data.draw(st.lists(st.sampled_from(ends), max_size=3))), ends[-1]]
    size = data.draw(st.sampled_from([1, 100, 300, 1 << 20]))
    (partition,) = logdir.open(tmp_path).partitions
    offset, offsets = 0, []
    for mark in marks:
        aborted, stable = outcome_of(partition, high_watermark=mark)
        found = decided(partition, size, offset, mark)
        assert (found.held, found.end) == ("", max(offset, stable))
        offsets += [row[0] for row in committed(partition, found, offset)]
        offset = found.end
    expected = [record.offset for batch in read_committed(partition, aborted, stable) for record in batch.records]
    assert offsets == expected


LOG = [(DATA_OF, 1, 2), (PLAIN, 1, 1), (ABORTED, 1, 1), (DATA_OF, 2, 1), (PLAIN, 1, 3), (COMMITTED, 2, 1)]


def test_a_transaction_that_began_before_the_first_segment_ends_as_its_marker_says(tmp_path: Path) -> None:
    written(tmp_path, LOG)
    (partition,) = logdir.open(tmp_path).partitions
    found = decided(partition, 1 << 20, 1)
    assert (found.end, found.held) == (9, "")
    assert [row[0] for row in committed(partition, found, 1)] == [2, 4, 5, 6, 7]


def test_missing_offsets_end_what_is_passed_on(tmp_path: Path) -> None:
    ends = written(tmp_path, LOG)
    path = tmp_path / "orders-0" / f"{0:020}.log"
    (partition,) = logdir.open(tmp_path).partitions
    positions = [batch.position for batch in partition if isinstance(batch, Batch)]
    log = path.read_bytes()
    path.write_bytes(log[: positions[1]] + log[positions[2] :])
    (partition,) = logdir.open(tmp_path).partitions
    # The transaction before the gap may have ended in it.
    assert decided(partition, 1 << 20)[:2] == (0, "offsets 2 to 2 are missing")
    assert decided(partition, 1)[:2] == decided(partition, 1 << 20)[:2]
    scan = scan_part(partition.segments[0], 0, None, 0, None)
    assert decide([scan], 0, cleaned=EVERYWHERE).end == ends[-1]


def test_damage_ends_what_is_passed_on_unless_it_is_above_the_high_watermark(tmp_path: Path) -> None:
    ends = written(tmp_path, LOG)
    path = tmp_path / "orders-0" / f"{0:020}.log"
    log = path.read_bytes()
    path.write_bytes(log[:-3])  # torn
    (partition,) = logdir.open(tmp_path).partitions
    found = decided(partition, 1 << 20)
    assert found.end == 4
    assert found.held.startswith(f"{path}: at byte ")
    assert ": truncated: " in found.held
    for size in (1, 1 << 20):
        found = decided(partition, size, 0, ends[-2])
        assert found[:2] == (4, "")
        assert [row[0] for row in committed(partition, found)] == [2]


def test_a_marker_that_cannot_be_read_ends_what_is_passed_on(tmp_path: Path) -> None:
    written(tmp_path, LOG)
    path = tmp_path / "orders-0" / f"{0:020}.log"
    strange = build(
        [Record(b"\0\0\0\7")], base_offset=9, producer_id=1, producer_epoch=0, transactional=True, control=True
    )
    data = build([Record(b"x")], base_offset=10, producer_id=1, producer_epoch=0, transactional=True)
    again = build(
        [Record(b"\0\0\0\7")], base_offset=11, producer_id=1, producer_epoch=0, transactional=True, control=True
    )
    path.write_bytes(path.read_bytes() + strange + data + again)
    (partition,) = logdir.open(tmp_path).partitions
    for size in (1, 1 << 20):
        found = decided(partition, size)
        assert (found.end, found.held) == (
            10,
            "the marker at offset 11 does not show how producer 1's transaction from 10 on ended",
        )

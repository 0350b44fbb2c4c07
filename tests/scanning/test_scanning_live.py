"""Live topics as Arrow streams: the records of the disks, and those of Java's consumers, over the wire."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import kafkawire
from kafkawire.client import ClientError
from kafkawire.client.diagnosis import live_log
from kafkawire.errors import ScanError
from kafkawire.messages import (
    ApiVersionsRequest,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    MetadataRequest,
)
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.records import Record
from kafkawire.testing import MockBroker
from tests.audit_logs import PartitionLog
from tests.client.recorded import denied, leaders, serving
from tests.consumed import LEVELS, REPLICAS, Replicas
from tests.docs.guide import ROOT
from tools.recordings.archive import unpacked

RECORDED = {
    "hanging-transactions": lambda: unpacked("hanging-transactions"),
    "kafka-3.9.1": lambda: unpacked("kafka-3.9.1") / "data",
    "three-nodes": lambda: ROOT / "examples" / "kafka-logs" / "three-nodes",
}
FIRST = 1_750_000_000_000


def read(broker: MockBroker, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scan(broker, **options).reader().read_all().to_pylist()
    return found


def scan(broker: MockBroker, **options: Any) -> Any:
    return kafkawire.scan(bootstrap_servers=broker.address, **options)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few batches."""
    original = live_log.pieces
    monkeypatch.setattr(live_log, "pieces", lambda *given, **named: original(*given, **named, most=300))


@contextmanager
def orders(count: int = 30) -> Iterator[MockBroker]:
    with MockBroker({"orders": 2}) as broker:
        for at in range(count):
            broker.append("orders", at % 2, [Record(b"k%d" % at, b"v%d" % at, timestamp=FIRST + at)])
        yield broker


def values(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["value"] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
def test_records_are_those_of_a_java_consumer(replicas: Replicas, level: str, small: None) -> None:
    expected = replicas.records(level)
    with serving(replicas.path) as broker:
        for topic, records in expected.items():
            found = read(broker, topics=topic, isolation_level=level)
            texts = [[value and value.decode() for value in (row["key"], row["value"])] for row in found]
            assert [[row["offset"], *both] for row, both in zip(found, texts, strict=True)] == records


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_rows_are_those_of_the_disks(name: str, small: None) -> None:
    path = RECORDED[name]()
    chosen = leaders(path)
    folders = [one.path for one in chosen]
    starts = {(one.topic, one.partition): one.log_start_offset or 0 for one in chosen}
    options: dict[str, Any] = {
        "control": True,
        "columns": [*kafkawire.scan(*folders).schema.names, "control", "leader_epoch", "codec"],
        "errors": "collect",
    }
    with serving(path) as broker:
        over_the_wire = scan(broker, **options)
        found = sorted(over_the_wire.reader().read_all().to_pylist(), key=_place)
    of_disks = kafkawire.scan(*folders, **options).reader().read_all().to_pylist()
    # Deleted records are on disks until their segment goes.
    there = [row for row in of_disks if row["offset"] >= starts[row["topic"], row["partition"]]]
    assert found == sorted(there, key=_place)
    assert over_the_wire.problems == ()
    assert {"committed", "aborted", "open"} <= {row["transaction"] for row in found}


STEPS = st.lists(
    st.tuples(st.sampled_from(["data", "plain", "COMMIT", "ABORT"]), st.integers(1, 3), st.integers(1, 3)), max_size=30
)


@pytest.mark.slow
@given(steps=STEPS, most=st.sampled_from([1, 300, 1 << 20]), level=st.sampled_from([None, *LEVELS]), ends=st.booleans())
@example(steps=[("data", 1, 1), ("ABORT", 1, 1), ("data", 1, 1), ("COMMIT", 1, 1)], most=1 << 20, level=None, ends=True)
def test_outcomes_are_those_of_the_disks_whatever_the_transactions(
    steps: list[tuple[str, int, int]], most: int, level: str | None, ends: bool
) -> None:
    """Transactions of three producers that begin, end and stay open in any order, in pieces of any size."""
    with TemporaryDirectory() as folder:
        log = PartitionLog(Path(folder) / "orders-0")
        log.plain()
        began: set[int] = set()
        for what, producer, count in steps:
            if what == "data":
                log.data(producer, records=count)
                began.add(producer)
            elif what == "plain":
                log.plain(records=count)
            elif producer in began:
                log.marker(what, producer)
                began.discard(producer)
        for producer in sorted(began) if ends else ():
            log.marker("COMMIT", producer)
        log.write()
        expected = kafkawire.scan(folder, isolation_level=level).reader().read_all().to_pylist()
        original = live_log.pieces
        live_log.pieces = lambda *given, **named: original(*given, **named, most=most)  # type: ignore[assignment]
        try:
            with serving(Path(folder)) as broker:
                assert read(broker, isolation_level=level) == expected
        finally:
            live_log.pieces = original


def _place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def test_nothing_is_committed_and_no_group_is_joined() -> None:
    with orders() as broker:
        assert len(read(broker)) == 30
        asked = {type(request.body) for request in broker.requests}
    assert asked == {ApiVersionsRequest, MetadataRequest, ListOffsetsRequest, FetchRequest}


def test_the_end_is_that_of_the_beginning(small: None) -> None:
    with orders() as broker:
        batches = iter(scan(broker))
        first = next(batches)
        broker.append("orders", 0, [Record(b"later", b"later")])
        assert first.num_rows + sum(batch.num_rows for batch in batches) == 30
        assert len(read(broker)) == 31


def test_filters_select_what_is_fetched() -> None:
    at = datetime.fromtimestamp(FIRST / 1000, UTC)
    with orders() as broker:
        assert values(read(broker, partitions=1, offsets=(3, 5))) == [b"v7", b"v9"]
        assert values(read(broker, offsets={("orders", 0): (14, None)})) == [b"v28"]
        broker.requests.clear()
        assert values(read(broker, times=(FIRST + 26, FIRST + 29), columns=["value"])) == [b"v26", b"v28", b"v27"]
        fetched = [request.body.topics[0].partitions[0].fetch_offset for request in broker.requests
                   if isinstance(request.body, FetchRequest)]  # fmt: skip
        assert sorted(fetched) == [13, 13]
        assert read(broker, times=(FIRST + 100, None)) == []
        assert read(broker, producer_id=7) == []
        pl = pytest.importorskip("polars")
        query = scan(broker).lazy().filter(pl.col("partition") == 0, pl.col("timestamp") > at, pl.col("offset") < 3)
        assert query.select("value").collect()["value"].to_list() == [b"v2", b"v4"]


def test_what_is_not_there_is_refused() -> None:
    with orders() as broker:
        with pytest.raises(LookupError, match="there is no topic 'order', or it may not be described"):
            scan(broker, topics="order")
        with pytest.raises(LookupError, match="no topic has a partition 2; there are 0, 1"):
            scan(broker, topics="orders", partitions=2)
        with pytest.raises(LookupError, match="no column 'file'; the columns are topic"):
            scan(broker, columns=["file"])
        with pytest.raises(ValueError, match="tier_keys is not for live topics"):
            scan(broker, tier_keys=["key.pem"])
        with pytest.raises(TypeError, match="give a source or bootstrap_servers, and not both"):
            kafkawire.scan("examples", bootstrap_servers=broker.address)
        with pytest.raises(ClientError, match="sasl"):
            scan(broker, config={"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"})
        address = broker.address
    with pytest.raises(ClientError, match="connection refused"):
        kafkawire.scan(bootstrap_servers=address)
    with pytest.raises(ValueError, match="config is not for files"):
        kafkawire.scan("examples", config={})


# What happens meanwhile -----------------------------------------------------------------------------------------------


def test_deleted_offsets_are_a_problem_and_reading_goes_on(small: None) -> None:
    with orders() as broker:
        log = broker._log("orders", 0)

        def deleted(request: Any) -> FetchResponse:
            log.start = 4
            log.batches[:] = [one for one in log.batches if one.last_offset >= 4]
            parts = (PartitionData(partition_index=0, error_code=1, high_watermark=-1, records=b""),)
            return FetchResponse(responses=(FetchableTopicResponse(topic="orders", partitions=parts),))

        stream = scan(broker, partitions=0)
        broker.answer(FetchRequest, deleted)
        with pytest.raises(ScanError, match=r"^orders-0: deleted: offsets 0 to 3 were deleted .*; 11 rows were read"):
            list(stream)
        assert values(read(broker, partitions=0)) == [b"v%d" % at for at in range(8, 30, 2)]


def test_throttling_and_a_leader_that_moves_are_waited_for() -> None:
    def empty(request: Any) -> FetchResponse:
        parts = (PartitionData(partition_index=0, high_watermark=15, records=b""),)
        return FetchResponse(throttle_time_ms=50, responses=(FetchableTopicResponse(topic="orders", partitions=parts),))

    def moved(request: Any) -> FetchResponse:
        parts = (PartitionData(partition_index=0, error_code=6, high_watermark=-1, records=b""),)
        return FetchResponse(responses=(FetchableTopicResponse(topic="orders", partitions=parts),))

    with orders() as broker:
        stream = scan(broker, partitions=0)
        for answer in (moved, empty, empty):
            broker.answer(FetchRequest, answer)
        assert stream.reader().read_all().num_rows == 15


def test_a_partition_that_may_not_be_read_is_a_problem() -> None:
    with orders() as broker:
        stream = scan(broker, errors="collect")
        broker.answer(FetchRequest, denied)
        assert stream.reader().read_all().num_rows == 15
    (problem,) = stream.problems
    assert (problem.topic, problem.partition, problem.reason) == ("orders", 0, "unreadable")
    assert "the principal needs Read on topic orders" in (problem.detail or "")


def test_damage_is_a_problem() -> None:
    with orders() as broker:
        log = broker._log("orders", 1)
        stored = log.batches[2]
        log.batches[2] = stored._replace(data=stored.data[:-1] + bytes([stored.data[-1] ^ 1]))
        stream = scan(broker, errors="collect")
        assert stream.reader().read_all().num_rows == 29
    (problem,) = stream.problems
    assert (problem.topic, problem.partition, problem.reason) == ("orders", 1, "crc_mismatch")


# Threads --------------------------------------------------------------------------------------------------------------


def test_streams_work_in_a_running_loop_and_leave_no_thread(small: None) -> None:
    async def in_a_notebook(broker: MockBroker) -> int:
        return len(read(broker))

    with orders() as broker:
        assert asyncio.run(in_a_notebook(broker)) == 30
        batches = iter(scan(broker))
        next(batches)
        assert any(thread.name == "kafkawire" for thread in threading.enumerate())
        batches.close()
    assert not any(thread.name == "kafkawire" for thread in threading.enumerate())

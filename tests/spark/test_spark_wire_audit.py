"""The audit of a live cluster whose logs Spark tasks fetch: the result, and the load, of one process."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

pytest.importorskip("pyspark", reason="pyspark is not installed")

import kafkawire.spark
from kafkawire import rows
from kafkawire.cli import main
from kafkawire.client import Admin, Offsets, Search, TopicPartition
from kafkawire.client.diagnosis.log_reading import FetchRange, Load
from kafkawire.client.diagnosis.reading_plan import ReadingPlan
from kafkawire.client.diagnosis.wire_audit import WireAudit, audit
from kafkawire.messages import FetchRequest
from kafkawire.spark.errors import SparkError
from kafkawire.spark.wire_audit import audit_cluster, reader_on, shares
from kafkawire.testing import MockBroker
from tests.client.recorded import denied, serving
from tests.docs.guide import ROOT
from tools.recordings.archive import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER: int = json.loads((unpacked("hanging-transactions") / "truth.json").read_text("utf-8"))["later"]


def in_one_process(broker: MockBroker, wanted: WireAudit) -> rows.Audit:
    async def run() -> rows.Audit:
        async with Admin.connect(broker.address) as admin:
            return await audit(admin.cluster, wanted)

    return asyncio.run(run())


def but_when(found: rows.Audit) -> rows.Audit:
    """The answer without the times at which brokers were asked, which differ between two readings."""
    times = ((one, one.blocked_since) for one in found.findings)
    return replace(
        found, findings=tuple(replace(one, blocked_since=None) if (at or 0) > LATER else one for one, at in times)
    )


def fetched(broker: MockBroker) -> Counter[tuple[str, int, int]]:
    """The partition and offset of each Fetch."""
    return Counter(
        (topic.topic, one.partition, one.fetch_offset)
        for request in broker.requests
        if isinstance(request.body, FetchRequest)
        for topic in request.body.topics
        for one in topic.partitions
    )


def of_both(
    spark: SparkSession, name: str = "hanging-transactions", since: int | None = 0, **options: Any
) -> tuple[rows.Audit, rows.Audit]:
    """The audit of a recorded cluster by one process, and by Spark, which fetches the same offsets."""
    path = ROOT / "examples" / "kafka-logs" / name if name == "three-nodes" else unpacked(name)
    with serving(path) as broker:
        wanted = WireAudit(search=Search(as_of=LATER, confirm_after_s=0, address="h:1"), since_ms=since)
        expected = in_one_process(broker, wanted)
        once = fetched(broker)
        found = audit_cluster(broker.address, wanted, spark=spark, **options)
        assert fetched(broker) - once == once  # none twice
    return expected, found


@pytest.mark.spark
@pytest.mark.parametrize(("name", "since"), [("hanging-transactions", 0), ("three-nodes", None)])
def test_equals_the_audit_of_one_process(spark: SparkSession, name: str, since: int | None) -> None:
    plans: list[ReadingPlan] = []
    expected, found = of_both(spark, name, since, announce=plans.append)
    assert but_when(found) == but_when(expected)
    assert found.read.complete
    assert {one.verdict for one in found.findings} >= {"hanging", "not_hanging"}
    assert {one.check for one in found.answers if one.held} > {"one_outcome", "id_in_its_partition", "marker_epoch"}
    assert "4 side by side, at most 10.0 MB a second" in str(plans[0])


@pytest.mark.spark
def test_a_partition_that_may_not_be_fetched_is_a_gap(spark: SparkSession) -> None:
    broker = serving(unpacked("hanging-transactions"))
    broker.on(FetchRequest, denied)
    search = Search(as_of=LATER, confirm_after_s=0, address="h:1", topics=("late-batch",))
    wanted = WireAudit(search=search, since_ms=0)
    with broker:
        found = audit_cluster(broker.address, wanted, spark=spark)
        assert but_when(found) == but_when(in_one_process(broker, wanted))
    assert "late-batch" in {one.topic for one in found.unread}
    assert any("the principal needs Read on topic late-batch" in gap for gap in found.read.gaps)


@pytest.mark.spark
def test_a_cancelled_audit_ends_its_job(spark: SparkSession) -> None:
    wanted = WireAudit(search=Search(as_of=LATER, confirm_after_s=0), since_ms=0, load=Load(2, 2))

    async def run(broker: MockBroker) -> None:
        async with Admin.connect(broker.address) as admin:
            reading = asyncio.create_task(audit(admin.cluster, wanted, reader=reader_on(spark, broker.address, {})))
            while not fetched(broker):
                await asyncio.sleep(0.05)
                assert not reading.done()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

    with serving(unpacked("hanging-transactions")) as broker:
        asyncio.run(run(broker))  # it waits for the thread that has started the job
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    assert sum(fetched(broker).values()) <= 2


@pytest.mark.spark
def test_the_command_prints_what_one_process_prints(spark: SparkSession, capsysbinary: Any) -> None:
    def printed(*arguments: str) -> tuple[int, Any, str]:
        options = "--since", "0", "--confirm-after", "0", "--as-of", str(LATER), "--format", "json"
        code = main(["audit", "--bootstrap-server", broker.address, *options, *arguments])
        out, err = capsysbinary.readouterr()
        answer = json.loads(out)
        for finding in answer["findings"]:
            assert finding["impact"].pop("measured_at") > LATER
            if (finding["blocked_since"] or 0) > LATER:  # when its partition was asked
                del finding["blocked_since"]
        return code, answer, err.decode()

    with serving(unpacked("hanging-transactions")) as broker:
        expected = printed("--parallel", "3")
        assert printed("--engine", "spark", "--parallel", "3") == expected
    assert expected[0] == 3
    assert "3 side by side, at most 10.0 MB a second" in expected[2]


@pytest.mark.slow
def test_the_command_starts_no_spark_for_a_cluster_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[object] = []
    monkeypatch.setattr(kafkawire.spark, "session_on", lambda *given, **more: started.append(given))
    with MockBroker() as broker:
        address = broker.address
    assert main(["audit", "--bootstrap-server", address, "--engine", "spark", "--timeout", "2"]) == 1
    assert "connection refused" in capsys.readouterr().err
    assert not started


def test_ctrl_c_ends_an_audit_that_waits_for_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reading runs in a thread, which Ctrl-C does not reach."""
    begun, main, patience_s = threading.Event(), threading.get_ident(), 10

    async def waiting(*given: object, **more: object) -> rows.Audit:
        begun.set()
        await asyncio.sleep(patience_s)
        raise AssertionError("it was not cancelled")

    def interrupt() -> None:
        begun.wait()
        signal.pthread_kill(main, signal.SIGINT)

    monkeypatch.setattr("kafkawire.spark.wire_audit.audit_over_the_wire", waiting)
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: default))
    with MockBroker() as broker:
        threading.Thread(target=interrupt).start()
        before = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            audit_cluster(broker.address, spark=cast("SparkSession", session))
    assert time.monotonic() - before < patience_s


def test_ctrl_c_before_an_audit_waits_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the thread is started."""
    patience_s = 10

    async def waiting(*given: object, **more: object) -> rows.Audit:
        await asyncio.sleep(patience_s)
        raise AssertionError("it was not cancelled")

    class Interrupted(ThreadPoolExecutor):
        def submit(self, *given: Any, **more: Any) -> Any:
            super().submit(*given, **more)
            raise KeyboardInterrupt

    monkeypatch.setattr("kafkawire.spark.wire_audit.audit_over_the_wire", waiting)
    monkeypatch.setattr("kafkawire.spark.wire_audit.ThreadPoolExecutor", Interrupted)
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: default))
    with MockBroker() as broker:
        before = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            audit_cluster(broker.address, spark=cast("SparkSession", session))
    assert time.monotonic() - before < patience_s


def test_refuses_a_journal() -> None:
    with pytest.raises(ValueError, match="journal of a reading is kept by one process"):
        audit_cluster("h:1", WireAudit(journal="file"))


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_refuses_a_session_that_starts_copies_of_tasks(value: str) -> None:
    session = SimpleNamespace(conf=SimpleNamespace(get={"spark.speculation": value}.get))
    with pytest.raises(SparkError, match="would exceed the load on brokers"):
        reader_on(cast("SparkSession", session), "h:1", {})


def asked(number: int, size: int | None, offsets: int) -> FetchRange:
    known = Offsets(log_start=0, last_stable_offset=offsets, high_watermark=offsets)
    return FetchRange(place=TopicPartition("orders", number), leader=1, start=0, offsets=known, size=size)


@pytest.mark.parametrize("load", [Load(10_000_000, 4), Load(1000, 3), Load(7, 4), Load(1, 4), Load(50, 40)])
@pytest.mark.parametrize("sizes", [[10, 20, 3000, 40, 50, 0], [100, None, 7, 7], [0, 0], [5]])
def test_shares_of_all_tasks_keep_the_load(load: Load, sizes: list[int | None]) -> None:
    ranges = [asked(number, size, 3 * number) for number, size in enumerate(sizes)]
    found = shares(ranges, load)
    assert len(found) <= load.side_by_side
    assert sum(one.bytes_per_s for one in found) <= load.bytes_per_s
    assert all(one.bytes_per_s > 0 for one in found)
    assert sorted(one.place for share in found for one in share.ranges) == [one.place for one in ranges]


def test_a_large_partition_gets_the_larger_share() -> None:
    found = shares([asked(0, 9_000_000, 10), *(asked(n, 10, 10) for n in range(1, 9))], Load(1_000_000, 4))
    of_large = next(one for one in found if one.ranges[0].place.partition == 0)
    assert [one.place.partition for one in of_large.ranges] == [0]
    assert of_large.bytes_per_s == pytest.approx(625_000, abs=5)  # half of all, and a fourth of the other half
    assert {len(one.ranges) for one in found if one is not of_large} == {2, 3}

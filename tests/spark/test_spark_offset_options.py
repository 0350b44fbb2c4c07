"""Options that choose partitions and offsets: what is accepted, and the offsets that they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire import logdir
from kafkawire.logdir import Partition
from kafkawire.logdir.splits import end_offset
from kafkawire.records import Record, build
from kafkawire.spark.sources.offset_options import Bounds, RequestedRange, bounds, subscription
from kafkawire.spark.sources.source_base import SourceOptions


def given(**options: str) -> SourceOptions:
    return SourceOptions(options)


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({}, ["orders", "orders2", "x"]),
        ({"subscribe": " orders , x,"}, ["orders", "x"]),
        ({"SUBSCRIBEPATTERN": "ord.*s"}, ["orders"]),
        ({"assign": '{"x":[1,0],"orders":[3]}'}, ["x"]),
    ],
)
def test_subscriptions(options: dict[str, str], topics: list[str]) -> None:
    chosen = subscription(given(**options))
    assert [topic for topic in ("orders", "orders2", "x") if chosen.selects(topic, 1)] == topics


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribe": "a", "assign": "{}"}, "only one of subscribe, assign can be given"),
        ({"subscribe": " ,"}, "subscribe names no topic"),
        ({"subscribePattern": "a("}, "subscribePattern is not a regular expression: "),
        ({"assign": "{}"}, "assign names no partition"),
        ({"assign": "orders-0"}, 'assign is {"orders":[0,1]}, not orders-0: '),
        ({"assign": '{"orders":[-1]}'}, 'assign is {"orders":[0,1]}, not {"orders":[-1]}: '),
        ({"assign": '{"orders":{"0":1}}'}, 'assign is {"orders":[0,1]}, not '),
        ({"assign": "[" * 100_000}, 'assign is {"orders":[0,1]}, not '),
        ({"startingOffsets": "newest"}, 'startingOffsets is earliest, latest or {"orders":{"0":23}}, not newest: '),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets cannot be latest in a batch"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets is earliest, latest or "),
        ({"startingOffsets": '{"t":{"x":3}}'}, "startingOffsets is earliest, latest or "),
        ({"startingOffsets": '{"t":{}}'}, "startingOffsets names no partition"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest in a batch"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets cannot be earliest in a batch"),
        ({"startingTimestamp": "2026-01-01"}, "startingTimestamp is a timestamp in epoch milliseconds, not 2026-01-01"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":-1}}'}, 'endingOffsetsByTimestamp is {"orders":{"0":17000000'),
        ({"startingOffsets": "earliest", "startingTimestamp": "5"},
         "only one of startingOffsets, startingTimestamp can be given"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "startingTimestamp is after endingTimestamp"),
        ({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'}, "startingOffsets is after ending"),
        ({"startingOffsetsByTimestampStrategy": "none"}, "startingOffsetsByTimestampStrategy is error or latest"),
    ],
)  # fmt: skip
def test_rejects_options(options: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        (subscription(given(**options)), bounds(given(**options)))
    assert str(caught.value).startswith(expected)
    assert len(str(caught.value)) < 300


def test_streams_may_begin_at_the_end() -> None:
    assert bounds(given(startingOffsets="latest"), stream=True).start is not None


def test_defaults_ask_for_nothing() -> None:
    assert bounds(given(startingOffsets="Earliest", endingOffsets="latest")) == Bounds() == bounds(given())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"t":{"0":1}}', "startingOffsets does not name t-1; "),
        ('{"t":{"0":1,"1":1,"2":1}}', "startingOffsets names t-2; "),
    ],
)
def test_json_names_each_partition_that_is_read(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        bounds(given(startingOffsets=text)).check({("t", 0), ("t", 1)})


@pytest.fixture
def replica(tmp_path: Path) -> Partition:
    """Offsets 10 to 29 in two segments, two a batch, with timestamps 1000 and so on; one record is late."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (10, 20):
        batches = []
        for offset in range(base, base + 10, 2):
            pair = [Record(b"k", b"v", timestamp=100 * (offset + n)) for n in range(2)]
            batches.append(build(pair, base_offset=offset))
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    (partition,) = logdir.open(tmp_path).partitions
    return partition


@pytest.mark.parametrize(
    ("options", "first", "end"),
    [
        ({"startingOffsets": '{"t":{"0":-2}}'}, None, None),
        ({"startingOffsets": '{"t":{"0":12}}', "endingOffsets": '{"t":{"0":-1}}'}, 12, None),
        ({"startingTimestamp": "1"}, 10, None),
        ({"startingTimestamp": "1301", "endingTimestamp": "2500"}, 14, 25),
        ({"startingOffsetsByTimestamp": '{"t":{"0":2900}}'}, 29, None),
        ({"endingOffsetsByTimestamp": '{"t":{"0":2901}}'}, None, None),
        ({"startingTimestamp": "9999", "startingOffsetsByTimestampStrategy": "latest"}, 30, None),
    ],
)
def test_offsets_of_a_replica(replica: Partition, options: dict[str, str], first: int | None, end: int | None) -> None:
    assert bounds(given(**options)).of(replica) == RequestedRange(first, end)


def test_a_beginning_without_a_record_as_new_is_an_error(replica: Partition) -> None:
    with pytest.raises(ValueError, match=r"startingTimestamp: no record of .*t-0 is as new as 2901; with starting"):
        bounds(given(startingTimestamp="2901")).of(replica)


def test_the_end_of_a_log(replica: Partition, tmp_path: Path) -> None:
    assert end_offset(replica.segments) == 30
    (tmp_path / "t-0" / f"{30:020}.log").touch()
    assert end_offset(logdir.open(tmp_path).partitions[0].segments) == 30

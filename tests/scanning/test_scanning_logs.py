"""Log directories as Arrow streams: the rows of `dump`, the records of Java's consumers, and damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

import kafkawire  # noqa: E402
from kafkawire import logdir, rows  # noqa: E402
from kafkawire.errors import ScanError  # noqa: E402
from kafkawire.records import Header, Record, build  # noqa: E402
from kafkawire.scanning.record_columns import ERROR  # noqa: E402
from tests.audit_logs import NOON, PartitionLog  # noqa: E402
from tests.consumed import LEVELS, REPLICAS, Replicas  # noqa: E402
from tests.docs.guide import ROOT  # noqa: E402
from tools.recordings.archive import unpacked  # noqa: E402

EXAMPLES = ROOT / "examples" / "kafka-logs" / "one-node" / "broker-1"
EVERYTHING = (
    "topic", "partition", "offset", "timestamp", "key", "value", "headers", "producer_id", "producer_epoch", "sequence",
    "transaction", "timestamp_type", "leader_epoch", "transactional", "codec", "control", "coordinator_epoch",
    "key_size", "value_size", "file", "position",
)  # fmt: skip


def read(*source: Any, **options: Any) -> list[dict[str, Any]]:
    table = kafkawire.scan(*source, **options).reader().read_all()
    table.validate(full=True)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def as_scanned(directory: logdir.LogDirectory, **options: Any) -> Iterator[dict[str, Any]]:
    """The records that `dump` prints, with the values that a scan has."""
    outcomes = logdir.OutcomesByFile(directory.partitions, ())
    for partition in directory.partitions:
        view = logdir.View(outcomes=outcomes.of_partition(partition), shown=True)
        chosen = logdir.Options(deep=True, payloads=True, show_secrets=True, view=view, **options)
        for file in partition.segments:
            batches = {}
            for row in logdir.rows_of(file, chosen):
                if isinstance(row, rows.BatchRow):
                    batches[row.position] = row
                elif isinstance(row, rows.RecordRow):
                    yield _scanned(rows.to_dict(row), batches[row.position])


def _scanned(row: dict[str, Any], batch: rows.BatchRow) -> dict[str, Any]:
    from base64 import b64decode

    for part in ("key", "value"):
        text, encoded = row.pop(part), row.pop(f"{part}_base64")
        row[part] = text.encode() if text is not None else encoded and b64decode(encoded)
    for header in row["headers"]:
        encoded = header.pop("value_base64")
        header["value"] = header["value"].encode() if header["value"] is not None else encoded and b64decode(encoded)
    at = timedelta(milliseconds=row["timestamp"])
    row["timestamp"] = None if row["timestamp"] == -1 else datetime(1970, 1, 1, tzinfo=UTC) + at
    for name in ("producer_id", "producer_epoch", "sequence"):
        row[name] = None if row[name] == -1 else row[name]
    row["leader_epoch"] = None if batch.leader_epoch == -1 else batch.leader_epoch
    row["codec"] = batch.codec
    row["headers"] = list(row["headers"])
    del row["kind"], row["decoded"]
    return {name: row[name] for name in EVERYTHING}


def test_all_columns_have_the_values_of_dump() -> None:
    found = read(EXAMPLES, columns=EVERYTHING, control=True, show_secrets=True)
    assert found == list(as_scanned(logdir.open(EXAMPLES)))
    assert {row["transaction"] for row in found} == {"none", "committed", "aborted", "open"}
    assert {"COMMIT", "ABORT", "LEADER_CHANGE"} <= {row["control"] for row in found}


def test_types_are_those_that_analysts_expect() -> None:
    schema = kafkawire.scan(EXAMPLES, columns=EVERYTHING).schema
    text = pa.dictionary(pa.int32(), pa.string())
    names = ("topic", "timestamp", "key", "transaction", "producer_epoch")
    assert {name: schema.field(name).type for name in names} == {
        "topic": text, "timestamp": pa.timestamp("ms", "UTC"), "key": pa.binary(), "transaction": text,
        "producer_epoch": pa.int16(),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
def test_records_are_those_of_a_java_consumer(replicas: Replicas, level: str) -> None:
    for topic, expected in replicas.records(level).items():
        found = read(replicas.path, topics=topic, isolation_level=level)
        assert [[row["offset"], *_texts(row)] for row in found] == expected


def _texts(row: dict[str, Any]) -> list[str | None]:
    return [value if value is None else value.decode() for value in (row["key"], row["value"])]


# What is read ---------------------------------------------------------------------------------------------------------


def test_a_partition_and_a_segment_are_sources_too() -> None:
    whole = read(EXAMPLES, topics="orders", partitions=1)
    partition = EXAMPLES / "orders-1"
    assert read(partition) == whole
    assert read(*sorted(partition.glob("*.log"))) == whole
    assert whole


def test_a_pattern_names_several_paths() -> None:
    both = read(EXAMPLES / "orders-*")
    assert {(row["topic"], row["partition"]) for row in both} == {("orders", 0), ("orders", 1)}
    assert both == read(EXAMPLES, topics="orders")
    with pytest.raises(FileNotFoundError):
        kafkawire.scan(EXAMPLES / "nothing-*")
    with pytest.raises(FileNotFoundError):
        kafkawire.scan("nothing*.pcapng")


def test_several_copies_of_a_partition_are_refused_unless_rows_say_which() -> None:
    brokers = ROOT / "examples" / "kafka-logs" / "three-nodes"
    with pytest.raises(ValueError, match=r"has several copies here, such as .* give the directory of one broker"):
        kafkawire.scan(brokers)
    found = read(brokers, columns=["file", "topic", "partition", "offset"], errors="collect")
    assert len({(row["topic"], row["partition"], row["offset"]) for row in found}) < len(found)


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(LookupError, match=r"^there is no topic 'order'; the topics are __cluster_metadata, "):
        kafkawire.scan(EXAMPLES, topics="order")
    with pytest.raises(LookupError, match="no topic has a partition 7; there are 0, 1"):
        kafkawire.scan(EXAMPLES, topics="orders", partitions=7)
    with pytest.raises(LookupError, match="no column 'ofset'; the columns are topic, partition, offset"):
        kafkawire.scan(EXAMPLES, columns=["ofset"])
    with pytest.raises(LookupError, match="offsets: there is no partition orders-5"):
        kafkawire.scan(EXAMPLES, offsets={("orders", 5): (0, 1)})
    with pytest.raises(FileNotFoundError):
        kafkawire.scan(EXAMPLES / "nowhere")
    with pytest.raises(ValueError, match="neither a log directory nor a segment"):
        kafkawire.scan(ROOT / "LICENSE")


def test_directories_that_a_broker_removes_are_read_where_they_are_named(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "orders-0")
    log.plain(records=3)
    log.write()
    removed = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    shutil.copytree(tmp_path / "orders-0", removed)
    assert len(read(tmp_path)) == 3
    assert len(read(removed)) == 3


def test_old_batches_have_rows(tmp_path: Path) -> None:
    (tmp_path / "old-0").mkdir()
    listed = [Record(b"a", b"b", timestamp=5), Record(None, b"", timestamp=6)]
    data = build(listed, magic=1, base_offset=7)
    data += build([Record(b"c", b"d", (Header("h", b"i"),), timestamp=9)], base_offset=9)
    (tmp_path / "old-0" / ("0" * 20 + ".log")).write_bytes(data)
    found = read(tmp_path, columns=EVERYTHING)
    assert found == list(as_scanned(logdir.open(tmp_path)))
    assert [row["offset"] for row in found] == [7, 8, 9]
    assert [row["offset"] for row in read(tmp_path, offsets=(8, None), times=(None, 9))] == [8]
    assert [row["offset"] for row in read(tmp_path, transaction="committed")] == []


def test_secrets_of_the_metadata_log_are_redacted() -> None:
    hidden, shown = (read(EXAMPLES, topics="__cluster_metadata", show_secrets=show) for show in (False, True))
    different = [one["value"] for one, other in zip(hidden, shown, strict=True) if one != other]
    assert set(different) <= {b"[redacted]"}


# Damage ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    log = PartitionLog(tmp_path / "orders-0")
    for _ in range(5):
        log.plain(records=2)
    log.write()
    (segment,) = (tmp_path / "orders-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    return tmp_path


def test_damage_is_an_error_behind_the_last_row(damaged: Path) -> None:
    stream = kafkawire.scan(damaged)
    seen: list[int] = []
    with pytest.raises(ScanError, match=r"\.log at byte \d+: crc_mismatch: .*; 8 rows were read\. errors=") as raised:
        seen.extend(batch.num_rows for batch in stream)
    assert (sum(seen), raised.value.rows, raised.value.count) == (8, 8, 1)
    assert stream.problems == raised.value.problems
    with pytest.raises(pa.ArrowInvalid, match="crc_mismatch"):
        pa.table(stream)


def test_damage_can_be_collected(damaged: Path) -> None:
    stream = kafkawire.scan(damaged, errors="collect")
    assert stream.problem_count == 0
    assert stream.reader().read_all().num_rows == 8
    (problem,) = stream.problems
    assert (problem.reason, problem.topic, problem.partition, stream.problem_count) == ("crc_mismatch", "orders", 0, 1)


def test_outcomes_that_are_unknown_are_problems_of_a_filter(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "orders-0")
    log.data(5)
    log.skip(3)  # the marker may have been there
    log.marker("COMMIT", 5)
    log.data(6)
    log.marker("COMMIT", 6)
    log.write()
    committed = kafkawire.scan(tmp_path, transaction="committed", errors="collect")
    assert [row["offset"] for row in committed.reader().read_all().to_pylist()] == [5]
    assert [problem.reason for problem in committed.problems] == ["unknown_outcome"]
    assert read(tmp_path, transaction=["committed", "unknown"], columns=["transaction"]) == [
        {"transaction": "unknown"},
        {"transaction": "committed"},
    ]


# Messages -------------------------------------------------------------------------------------------------------------


def test_values_are_decoded_to_structs() -> None:
    from kafkawire.messages import TransactionLogKey, TransactionLogValue
    from kafkawire.records import MessageFormat, RecordMessages

    both = RecordMessages(key=MessageFormat(TransactionLogKey, None), value=MessageFormat(TransactionLogValue, None))
    found = read(EXAMPLES, topics=["__transaction_state", "orders"], decode={"__transaction_state": both})
    decoded = [row for row in found if row["topic"] == "__transaction_state"]
    assert {row["TransactionLogKey"]["transactional_id"] for row in decoded} > {"orders-archiver"}
    for row in decoded:
        message, _ = TransactionLogValue.decode_prefixed(row["value"])
        assert row["TransactionLogValue"]["producer_id"] == message.producer_id
    others = [row for row in found if row["topic"] == "orders"]
    assert others
    assert {(row["TransactionLogKey"], row["TransactionLogValue"], row[ERROR]) for row in others} == {
        (None, None, None)
    }


def test_a_value_that_is_no_message_says_why() -> None:
    from kafkawire.messages import TransactionLogValue

    found = read(
        EXAMPLES, topics="orders", decode={"orders": (TransactionLogValue, "prefix")}, columns=[ERROR, "offset"]
    )
    assert all(row[ERROR] for row in found)
    with pytest.raises(ValueError, match="TransactionLogValue has versions 0 to 1: give"):
        kafkawire.scan(EXAMPLES, decode={"orders": TransactionLogValue})
    with pytest.raises(LookupError, match="decode: there is no topic 'order'"):
        kafkawire.scan(EXAMPLES, decode={"order": (TransactionLogValue, 0)})
    with pytest.raises(TypeError, match="is no class of a message"):
        kafkawire.scan(EXAMPLES, decode={"orders": "TransactionLogValue"})  # type: ignore[dict-item]


def test_own_schemas_are_decoded(tmp_path: Path) -> None:
    schema = '{"name": "OrderValue", "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": ['
    schema += (
        '{"name": "Amount", "type": "int64", "versions": "0+"}, {"name": "City", "type": "string", "versions": "0+"}]}'
    )
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "OrderValue.json").write_text(schema)
    message = kafkawire.load_schemas(tmp_path / "schemas").OrderValue
    log = PartitionLog(tmp_path / "logs" / "orders-0")
    log.records(
        [Record(b"k", message(amount=5, city="Bern").encode(version=0)), Record(b"k", None), Record(b"k", b"\0")]
    )
    log.write()
    found = read(tmp_path / "logs", decode={"orders": message}, columns=["OrderValue", ERROR])
    assert [row["OrderValue"] for row in found] == [{"amount": 5, "city": "Bern"}, None, None]
    assert [row[ERROR] is None for row in found] == [True, True, False]


# How it comes ---------------------------------------------------------------------------------------------------------


def test_batches_have_at_most_that_many_rows_and_one_dictionary() -> None:
    stream = kafkawire.scan(EXAMPLES, batch_size=7)
    batches = list(stream)
    assert max(batch.num_rows for batch in batches) == 7
    assert all(batch.schema == stream.schema for batch in batches)
    assert len({tuple(batch["topic"].dictionary.to_pylist()) for batch in batches}) == 1
    counted = pa.Table.from_batches(batches).group_by("topic").aggregate([("offset", "count")])
    assert sum(counted["offset_count"].to_pylist()) == stream.reader().read_all().num_rows


def test_a_stream_can_be_read_again_and_left_early() -> None:
    stream = kafkawire.scan(EXAMPLES, columns=["offset"])
    reader = stream.reader()
    reader.read_next_batch()
    del reader
    assert pa.table(stream) == pa.table(stream)


def test_no_column_counts_rows() -> None:
    assert sum(batch.num_rows for batch in kafkawire.scan(EXAMPLES, columns=[])) == len(read(EXAMPLES))


@pytest.mark.slow
def test_memory_is_bounded_by_the_batch(tmp_path: Path) -> None:
    """More data, and the same peak."""
    import tracemalloc

    peaks = []
    for times in (2, 5):
        folder = tmp_path / str(times) / "orders-0"
        folder.mkdir(parents=True)
        whole = b"".join(
            build([Record(b"k", bytes(1000), timestamp=NOON)] * 500, base_offset=500 * at) for at in range(20 * times)
        )
        (folder / ("0" * 20 + ".log")).write_bytes(whole)
        tracemalloc.start()
        count = sum(batch.num_rows for batch in kafkawire.scan(folder.parent))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count == 10_000 * times
    assert peaks[1] < 1.2 * peaks[0]


# Tiers and other stores


@pytest.mark.slow
@pytest.mark.parametrize("as_uri", [False, True], ids=["paths", "URIs"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_a_log_and_its_tier_are_one_source(node: str, level: str, as_uri: bool) -> None:
    folder = unpacked("tiered-storage")
    expected = json.loads((folder / "consumed.json").read_text())[level]
    paths = [folder / node, folder / "tier"]
    found = read(*(path.as_uri() if as_uri else path for path in paths), topics="orders", isolation_level=level)
    assert [(row["offset"], *_texts(row)) for row in found] == [
        (row["offset"], row["key"], row["value"]) for row in expected
    ]

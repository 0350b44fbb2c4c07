"""What a task of `kafka_segment` reads, without a Spark session: parts, columns, offsets, secrets, stores."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir
from kafkawire.errors import RecordError
from kafkawire.logdir.splits import ranges
from kafkawire.messages import UserScramCredentialRecord
from kafkawire.records import Batch, Header, Record, build, build_marker
from kafkawire.spark.errors import SourceError
from kafkawire.spark.sources.segment_columns import BATCHES, RECORDS
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions, Task
from tests.audit_logs import PartitionLog
from tests.consumed import LEVELS, REPLICAS, Replicas
from tools.recordings.archive import unpacked

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node" / "broker-1"
DATA = unpacked("read-committed")
CONSUMED: dict[str, Any] = json.loads((DATA / "consumed.json").read_text("utf-8"))
OLD = unpacked("kafka-2.8.2") / "data"

Rows = list[dict[str, Any]]


def reader(path: object, schema: pa.Schema | None = None, **options: str) -> Any:
    given = {"rows": "records", **options, "path": str(path)}
    chosen = schema or (RECORDS if given["rows"] == "records" else BATCHES)
    return SegmentReader(from_arrow_schema(chosen), SourceOptions(given))


def rows(path: object, *arguments: Any, **options: str) -> Rows:
    """All rows, by place; an error behind what it stands with."""
    found = reader(path, *arguments, **options)
    read = [row for task in found.partitions() for batch in found.read(task) for row in batch.to_pylist()]
    return sorted(read, key=lambda row: (row.get("file", ""), row.get("position", 0), row.get("error") or "",
                                         row.get("offset") or 0))  # fmt: skip


def parts(path: object, **options: str) -> int:
    return sum(len(task.items) for task in reader(path, **options).partitions() if isinstance(task, Task))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment of every kind of batch, with damage of several kinds, and no index."""
    folder = tmp_path_factory.mktemp("logs") / "orders-3"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(bytes(_damaged(_batches(400))))
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same segment without damage."""
    folder = tmp_path_factory.mktemp("sound") / "orders-3"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(_batches(400)))
    return folder


def _batches(count: int) -> Iterator[bytes]:
    offset = 0
    for number in range(count):
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
        if number % 7 == 6:
            data = build_marker(
                "COMMIT" if number % 2 else "ABORT",
                offset=offset,
                timestamp=1000 + number,
                producer_id=7,
                producer_epoch=1,
                coordinator_epoch=number,
            )
            offset += 1
        else:
            records = [
                Record(b"k%d" % i, None if i == 2 else b"v" * number, timestamp=1000 + number,
                       headers=(Header("h", b"x"), Header("\udcff", None)))
                for i in range(number % 4 + 1)
            ]  # fmt: skip
            data = build(records, base_offset=offset, codec=codec, producer_id=number % 3, producer_epoch=1,
                         base_sequence=number, transactional=bool(number % 2))  # fmt: skip
            offset += len(records)
        yield data


def _damaged(found: Iterable[bytes]) -> bytearray:
    data = bytearray()
    for number, batch in enumerate(found):
        changed = bytearray(batch)
        if number % 50 == 20:
            changed[-1] ^= 1  # its checksum is wrong
        if number % 50 == 30:
            changed[8:12] = (5000).to_bytes(4, "big")  # its length is
        if number % 50 == 40:
            changed[:8] = (1).to_bytes(8, "big")  # its offset goes back, and no checksum shows it
        data += changed
    return data


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["records", "batches", "headers"])
@pytest.mark.parametrize("size", [1, 999, 4097, 20_001])
def test_parts_give_the_same_rows(log: Path, size: int, kind: str) -> None:
    whole = rows(log, rows=kind)
    assert rows(log, rows=kind, maxPartBytes=str(size)) == whole
    assert any(row["error"] for row in whole)


@pytest.mark.slow
def test_parts_of_what_a_broker_wrote() -> None:
    """With indexes, and with batches of magic 0 and 1."""
    for path in (EXAMPLES, OLD):
        for kind in ("records", "batches"):
            assert rows(path, rows=kind, maxPartBytes="500") == rows(path, rows=kind)
        assert parts(path, maxPartBytes="500") > parts(path)


def test_parts_begin_at_positions_of_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data, entries = bytearray(), bytearray()
    for offset in range(300):
        if offset % 10 == 9:
            entries += offset.to_bytes(4, "big") + len(data).to_bytes(4, "big")
        data += build([Record(b"k", b"v" * 400)], base_offset=offset)
    (folder / f"{0:020}.log").write_bytes(data)
    plain = logdir.open(folder).partitions[0].segments[0]
    without = ranges(plain, 20_000)
    (folder / f"{0:020}.index").write_bytes(entries)
    assert ranges(plain, 20_000) == without
    read: list[int] = []
    original = logdir.FileSource.at

    def at(self: Any, position: int, length: int) -> Any:
        read.append(length)
        return original(self, position, length)

    monkeypatch.setattr(logdir.FileSource, "at", at)
    assert ranges(plain, 20_000) == without
    assert len(without) > 5
    # An index that leads astray is not believed.
    (folder / f"{0:020}.index").write_bytes(bytes(entries).replace((4).to_bytes(1, "big"), b"\x05"))
    assert rows(folder, maxPartBytes="20000") == rows(folder)


def test_rows_are_those_of_the_package() -> None:
    for path in (EXAMPLES, OLD):
        expected = []
        for partition in logdir.open(path).partitions:
            for file in partition.segments:
                for batch in file.batches():
                    assert isinstance(batch, Batch)
                    control = batch.control
                    for record in batch.records:
                        expected.append((file.path, batch.position, record.offset, record.timestamp, record.key,
                                         record.value, batch.producer_id, batch.timestamp_type,
                                         control and control.name, control and control.coordinator_epoch))  # fmt: skip
        names = ("file", "position", "offset", "timestamp", "key", "value", "producer_id", "timestamp_type", "control",
                 "coordinator_epoch")  # fmt: skip
        found = [tuple(row[name] for name in names) for row in rows(path)]
        assert found == sorted(expected, key=lambda row: row[:3])
        assert found


@pytest.mark.slow
def test_gives_only_the_wanted_columns(log: Path) -> None:
    some = pa.schema([RECORDS.field(name) for name in ("value", "offset", "control")])
    everything = sorted((row["offset"] or 0, row["value"] or b"") for row in rows(log))
    assert sorted((row["offset"] or 0, row["value"] or b"") for row in rows(log, some)) == everything
    found = reader(log, pa.schema([]))
    assert sum(batch.num_rows for task in found.partitions() for batch in found.read(task)) == len(everything)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["records", "batches", "headers"])
@pytest.mark.parametrize(("first", "end"), [(0, 5), (3, None), (101, 300), (150, 150), (None, 77)])
def test_offsets_choose_rows(sound: Path, kind: str, first: int | None, end: int | None) -> None:
    """Of batches those with a wanted record."""
    given = {"startingOffsets": f'{{"orders":{{"3":{first}}}}}', "endingOffsets": f'{{"orders":{{"3":{end}}}}}'}
    options = {name: text for name, text in given.items() if "null" not in text and "None" not in text}
    low, high = -1 if first is None else first, 1 << 40 if end is None else end

    def wanted(row: dict[str, Any]) -> bool:
        if kind == "records":
            return bool(low <= row["offset"] < high)
        return bool(row["last_offset"] >= low and row["base_offset"] < high)

    whole = rows(sound, rows=kind)
    for size in ("700", "1000000"):
        assert rows(sound, rows=kind, maxPartBytes=size, **options) == [row for row in whole if wanted(row)]


def test_offsets_choose_rows_without_columns(log: Path) -> None:
    found = reader(log, pa.schema([]), subscribe="orders", endingOffsets='{"orders":{"3":5}}')
    counted = sum(batch.num_rows for task in found.partitions() for batch in found.read(task))
    assert counted == len(rows(log, endingOffsets='{"orders":{"3":5}}'))


def test_offsets_choose_rows_of_old_formats(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    listed = [Record(b"k", b"v", offset=offset) for offset in range(4)]
    (folder / f"{0:020}.log").write_bytes(build(listed, magic=1, codec="gzip"))
    chosen = {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":3}}'}
    assert [row["offset"] for row in rows(folder, **chosen)] == [1, 2]


def test_offsets_choose_segments_and_parts(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 10, 20):
        data = b"".join(build([Record(b"k", b"v")], base_offset=base + n) for n in range(10))
        (folder / f"{base:020}.log").write_bytes(data)
    assert parts(folder) == 3
    chosen = {"startingOffsets": '{"t":{"0":12}}', "endingOffsets": '{"t":{"0":14}}'}
    found = reader(folder, **chosen)
    assert [part.file.offset for task in found.partitions() for part in task.items] == [10]
    assert parts(folder, maxPartBytes="71", **chosen) < parts(folder, maxPartBytes="71") / 3
    assert [row["offset"] for row in rows(folder, maxPartBytes="71", **chosen)] == [12, 13]


def test_subscriptions_choose_partitions() -> None:
    whole = rows(EXAMPLES)
    for options, wanted in (
        ({"subscribe": "orders, payments"}, lambda row: row["topic"] in ("orders", "payments")),
        ({"subscribePattern": "__.*"}, lambda row: row["topic"].startswith("__")),
        ({"assign": '{"orders":[1]}'}, lambda row: (row["topic"], row["partition"]) == ("orders", 1)),
    ):
        assert rows(EXAMPLES, **options) == [row for row in whole if wanted(row)] != []
    with pytest.raises(ValueError, match="subscribe names ordres, but the paths contain no such partition"):
        reader(EXAMPLES, subscribe="ordres,orders").partitions()
    with pytest.raises(ValueError, match="assign names orders-9, but"):
        reader(EXAMPLES, assign='{"orders":[9, 0]}').partitions()


def test_reports_offsets_that_a_replica_does_not_have(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{10:020}.log").write_bytes(build([Record(b"k", b"v")], base_offset=10))
    early, late = '{"t":{"0":3}}', '{"t":{"0":30}}'
    row, error = rows(folder, startingOffsets=early, endingOffsets=late)
    assert error["error"] == (
        "out_of_range: it begins at 10, after the starting offset 3; it ends at 11, before the ending offset 30"
    )
    assert row["offset"] == 10
    with pytest.raises(SourceError, match="it ends at 11, before the starting offset 30"):
        rows(folder, startingOffsets=late, mode="failfast")


def test_secrets_of_the_cluster_metadata_are_redacted(tmp_path: Path) -> None:
    """As `kafkawire dump` shows them, in segments of every format."""
    scram = UserScramCredentialRecord(name="u", mechanism=1, salt=b"SALT", stored_key=b"STORED", server_key=b"SERVER")
    frame = bytes((1, UserScramCredentialRecord.spec.api_key, 0)) + scram.encode(0)
    records = [Record(None, b"plain"), Record(None, frame), Record(b"k", None)]
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    for magic in (1, 2):
        (folder / f"{0:020}.log").write_bytes(b"".join(build(records, base_offset=at, magic=magic) for at in (0, 3)))
        hidden = [row["value"] for row in rows(folder)]
        assert hidden == [b"plain", b"[redacted]", None] * 2
        assert [row["value"] for row in rows(folder, showSecrets="true")] == [b"plain", frame, None] * 2
    (tmp_path / "t-0").mkdir()
    shutil.move(folder / f"{0:020}.log", tmp_path / "t-0" / f"{0:020}.log")
    assert frame in [row["value"] for row in rows(tmp_path / "t-0")]


def test_a_malformed_marker_is_a_row_and_damage(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    malformed = bytearray(build([Record(b"\x00", b"")], producer_id=1))
    malformed[22] |= 0x20  # control
    marker = build_marker("COMMIT", offset=1, timestamp=5, producer_id=1, producer_epoch=0, coordinator_epoch=2)
    (folder / f"{0:020}.log").write_bytes(_with_checksum(malformed) + marker)
    markers = [(row["control"], row["coordinator_epoch"]) for row in rows(folder, rows="batches")]
    assert markers == [("MALFORMED", None), ("COMMIT", 2)]


def test_reports_files_that_are_gone(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "orders-0", tmp_path / "orders-0")
    found = reader(tmp_path)
    tasks = found.partitions()
    shutil.rmtree(tmp_path / "orders-0")
    (row,) = [row for task in tasks for batch in found.read(task) for row in batch.to_pylist()]
    assert row["error"].startswith("unreadable: No such file")
    assert row["topic"] == "orders"


def test_globs_and_uris() -> None:
    expected = rows(EXAMPLES / "orders-0") + rows(EXAMPLES / "orders-1")
    assert rows(EXAMPLES / "orders-*") == expected
    (uri,) = {row["file"].rpartition("/orders")[0] for row in rows(EXAMPLES.as_uri()) if row["topic"] == "orders"}
    assert uri == str(EXAMPLES)
    with pytest.raises(OSError, match="nothing matches"):
        reader(EXAMPLES / "no-*").partitions()


def test_files_that_are_named_are_read_whatever_their_state(tmp_path: Path) -> None:
    """As `kafkawire dump` reads them; below a directory, segments in use are read."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = build([Record(b"k", b"v")])
    names = [f"{0:020}.log.deleted", f"{5:020}-{1:010}.checkpoint", f"{0:020}.log"]
    for name in names:
        (folder / name).write_bytes(data)
    (tmp_path / names[-1]).write_bytes(data)
    for name in names:
        assert [row["file"] for row in rows(folder / name)] == [str(folder / name)]
    assert [(row["topic"], row["value"]) for row in rows(tmp_path / names[-1])] == [(None, b"v")]
    assert len(rows(folder / "*")) == 3
    assert [row["file"] for row in rows(tmp_path)] == [str(folder / names[-1])]


def test_reports_directories_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    scandir = os.scandir

    def refused(path: str) -> Any:
        if str(path) == str(folder):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    assert [(row["file"], row["error"]) for row in rows(tmp_path)] == [(str(folder), "unreadable: Permission denied")]


def test_rejects_invalid_options() -> None:
    with pytest.raises(ValueError, match=r"maxPartBytes is a size such as .*, not big"):
        reader(EXAMPLES, maxPartBytes="big")
    with pytest.raises(ValueError, match="no path is given"):
        reader("").partitions()


def test_reports_records_that_cannot_be_read(tmp_path: Path) -> None:
    """The records before the malformed one are rows, and so is what is wrong."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    good = build([Record(b"a", b"1"), Record(b"b", b"2")])
    bad = bytearray(good)
    bad[-3] = 0x7E  # the length of the last value
    (folder / f"{0:020}.log").write_bytes(_with_checksum(bad))
    (batch,) = logdir.open(folder).partitions[0]
    with pytest.raises(RecordError):
        list(batch.records)
    found = rows(folder)
    assert [(row["key"], (row["error"] or "")[:11]) for row in found] == [(b"a", ""), (None, "bad_records")]


def _with_checksum(data: bytearray) -> bytes:
    import crc32c

    data[17:21] = crc32c.crc32c(data[21:]).to_bytes(4, "big")
    return bytes(data)


def test_reports_what_is_gone_since_the_log_was_split(tmp_path: Path) -> None:
    """Parts are read by other processes, later: a follower may have truncated its log by then."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    path = folder / f"{0:020}.log"
    batches = [build([Record(value=b"v" * 100)], base_offset=offset) for offset in range(100)]
    path.write_bytes(b"".join(batches))
    found = reader(folder, maxPartBytes="2000")
    tasks = list(found.partitions())
    size = len(b"".join(batches[:10]))
    os.truncate(path, size)
    read = [row for task in tasks for batch in found.read(task) for row in batch.to_pylist()]
    assert sorted(row["offset"] for row in read if row["error"] is None) == list(range(10))
    (error,) = (row["error"] for row in read if row["error"] is not None)
    assert error.startswith(f"truncated: ended at {size}, was ")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CONSUMED))
@pytest.mark.parametrize("size", ["300", "32m"])
def test_committed_rows_are_what_a_consumer_got(name: str, size: str) -> None:
    options = {"isolationLevel": "read_committed", "maxPartBytes": size}
    found: dict[str, list[Any]] = {topic: [] for topic in CONSUMED[name]["records"]}
    for row in rows(DATA / name, **options):
        assert row["error"] is None
        texts = [None if row[column] is None else row[column].decode() for column in ("key", "value")]
        found[row["topic"]].append([row["offset"], *texts])
    assert {topic: sorted(listed) for topic, listed in found.items()} == CONSUMED[name]["records"]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
def test_rows_are_those_of_a_java_consumer(replicas: Replicas, level: str) -> None:
    found: dict[str, list[Any]] = {topic: [] for topic in replicas.consumed(level)}
    for row in rows(replicas.path, isolationLevel=level, maxPartBytes="700"):
        assert row["error"] is None
        texts = [None if row[column] is None else row[column].decode() for column in ("key", "value")]
        found[row["topic"]].append([row["offset"], *texts])
    assert {topic: sorted(listed) for topic, listed in found.items()} == replicas.records(level)


def test_uncommitted_rows_are_all_data_and_show_the_states_of_their_transactions() -> None:
    table = RECORDS.append(pa.field("transaction", pa.string()))
    found = rows(DATA / "stopped" / "hanging-0", table, isolationLevel="read_uncommitted")
    assert {row["control"] for row in found} == {None}
    assert [(row["transaction"], row["offset"]) for row in found] == [
        ("committed", 0), ("committed", 1), ("committed", 2), ("aborted", 4), ("aborted", 5), ("aborted", 6),
        ("open", 8), ("open", 9), ("aborted", 10), ("aborted", 11), ("aborted", 12), ("committed", 14),
        ("committed", 15), ("committed", 16), ("open", 18),
    ]  # fmt: skip
    assert "transaction" not in rows(DATA / "stopped" / "hanging-0")[0]


def test_an_unknown_outcome_is_a_row_with_an_error(tmp_path: Path) -> None:
    ids = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    log = build([Record(b"k")], **ids) + build([Record(b"k")], base_offset=4)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(log)
    (undecided,) = rows(tmp_path, isolationLevel="read_committed")
    assert undecided["error"].startswith(
        "unknown_outcome: offsets 0 to 4: whether a transaction from before them is open"
    )
    PartitionLog(tmp_path / "t-0").snapshot(offset=5)
    lost, kept = rows(tmp_path, isolationLevel="read_committed")
    assert lost["error"].startswith("unknown_outcome: offsets 0 to 0: whether producer 1's transaction was committed")
    assert (kept["offset"], kept["error"]) == (4, None)


def test_damage_of_what_an_isolation_level_rests_on_is_one_row(tmp_path: Path) -> None:
    """The high watermark of both partitions may have been in the line that cannot be read."""
    for number in range(2):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / f"{0:020}.log").write_bytes(build([Record(b"k")]))
    checkpoint = tmp_path / "replication-offset-checkpoint"
    checkpoint.write_text("0\n2\nt 0 one\nt 1 one\n")
    found = rows(tmp_path, isolationLevel="read_committed")
    errors = [(row["file"], row["error"]) for row in found if row["error"] is not None]
    assert [file for file, _ in errors] == [str(checkpoint)] * 2
    assert all("bad" in text for _, text in errors), errors
    assert sorted(row["partition"] for row in found if row["error"] is None) == [0, 1]
    assert {row["error"] for row in rows(tmp_path)} == {None}
    with pytest.raises(SourceError, match="replication-offset-checkpoint"):
        rows(tmp_path, isolationLevel="read_committed", mode="FAILFAST")


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_a_replica_and_its_tier_have_the_rows_that_a_consumer_got(level: str) -> None:
    folder = unpacked("tiered-storage")
    consumed = json.loads((folder / "consumed.json").read_text("utf-8"))[level]
    paths = json.dumps([str(folder / "node-2"), str(folder / "tier")])
    found = rows(folder, paths=paths, subscribe="orders", isolationLevel=level)
    assert {row["error"] for row in found} == {None}
    assert sorted(row["offset"] for row in found) == [record["offset"] for record in consumed]

"""Captures as the rows of `kafka_pcap`."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.own_schemas import write
from tools.recordings.archive import unpacked

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import capture, errors, load_schemas
from kafkawire.capture.reader import read_with
from kafkawire.rows import arrow
from kafkawire.spark import register
from kafkawire.spark.errors import SourceError
from kafkawire.spark.sources import capture_reader
from kafkawire.spark.sources.capture_reader import CaptureReader
from kafkawire.spark.sources.source_base import SourceOptions, Task
from tests.capture.wiretap import Conversation, ask, ethernet, pcap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
Row = dict[str, Any]


def reader(path: object, *columns: str, **options: str) -> CaptureReader:
    given = SourceOptions({**options, "path": str(path)})
    schema = (
        capture_reader.EXCHANGES if given.choice("rows", capture_reader.ROWS) == "exchanges" else capture_reader.FRAMES
    )
    chosen = [field for field in schema if not columns or field.name in columns]
    return CaptureReader(from_arrow_schema(capture_reader.pa.schema(chosen)), given)


def taken(reader: CaptureReader) -> list[Row]:
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def read(path: object, *columns: str, **options: str) -> list[Row]:
    return taken(reader(path, *columns, **options))


def in_order(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: (row["packet"] or row["response_packet"], str(row)))


def expected(path: Path = PCAP, **options: Any) -> list[Row]:
    found = read_with(path, body=True, text=True, **options)
    return [row for batch in arrow.batches(found, capture_reader.EXCHANGES) for row in batch.to_pylist()]


def test_decodes_messages_of_a_schema_directory_that_workers_do_not_have(tmp_path: Path) -> None:
    folder = write(tmp_path / "my")
    mine = load_schemas(folder)
    talk = Conversation().request(mine.PingRequest(text="a"), version=1, correlation_id=1)
    talk.response(mine.PingResponse(text="b"), version=1, correlation_id=1)
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(map(ethernet, talk.packets)))
    made = reader(path, schemaDirectory=str(folder), body="true")
    shutil.rmtree(folder)
    (row,) = taken(pickle.loads(pickle.dumps(made)))
    assert (row["api"], row["request"], row["response"]) == ("Ping", '{"text":"a"}', '{"text":"b"}')
    with pytest.raises(ValueError, match=r"schemaDirectory: .*the folder does not exist"):
        reader(path, schemaDirectory=str(folder))


def test_key_log_decrypts_captures_of_tls_in_any_number_of_tasks(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    import ssl

    from tests.capture.test_capture_tls import MESSAGES, packets
    from tests.capture.tls_traffic import Endpoints

    ends = Endpoints(tmp_path, ssl.TLSVersion.TLSv1_3)
    connections = [packets(ends.connect(MESSAGES).sent, 40000 + number) for number in range(5)]
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(packet for connection in connections for packet in connection))
    found = read(path, keylog=str(ends.key_log), body="true", maxPartBytes="100000")
    assert len(reader(path, maxPartBytes="100000").partitions()) > 1
    assert in_order(found) == in_order(expected(path, keylog=ends.key_log))
    assert len(found) == 5 * len(MESSAGES) // 2
    with pytest.raises(ValueError, match=r"keylog: /no/file\.log is not a file that can be read"):
        reader(path, keylog="/no/file.log")


def test_decode_as_reads_udp_ports_as_encapsulations(tmp_path: Path) -> None:
    from tests.capture import tunnels, wiretap

    path = tmp_path / "trace.pcap"
    talk = wiretap.ask(wiretap.Conversation(), 1)
    sent = [tunnels.over_udp(12345, tunnels.VXLAN + ethernet(packet)) for packet in talk.packets]
    path.write_bytes(pcap(sent))
    rules = "udp.port==12345,vxlan;udp.port==12346,geneve"
    assert [row["api"] for row in read(path, decodeAs=rules)] == ["ApiVersions"]
    assert "UDP port 12345" in read(path)[0]["problem"]
    with pytest.raises(ValueError, match=r"decodeAs: .*'vxlam' is none of"):
        reader(path, decodeAs="udp.port==1,vxlam")


def test_rows_are_those_of_capture() -> None:
    assert read(PCAP) == expected()


def test_what_is_inside_of_bytes_is_beside_them() -> None:
    """In bodies as text, by the table that `capture` and `dump` have."""
    path = unpacked("client-captures") / "java-2.4.1.pcap"
    found = read(path)
    assert found == expected(path)
    bodies = [
        json.loads(text) for row in found if row["api"] == "JoinGroup" for text in (row["request"], row["response"])
    ]
    members = [protocol["metadataDecoded"] for body in bodies for protocol in body.get("protocols", ())]
    assert members
    assert {member["name"] for member in members} == {"ConsumerProtocolSubscription"}


@pytest.mark.parametrize("part_bytes", [20_000, 33_333, 59_407, 120_001])
def test_odd_shares_give_the_same_rows(part_bytes: int) -> None:
    options = {"maxPartBytes": str(part_bytes)}
    tasks = reader(PCAP, **options).partitions()
    shares = min(-(-PCAP.stat().st_size // part_bytes), capture_reader.MOST_SHARES)
    assert sum(len(task.items) for task in tasks if isinstance(task, Task)) == shares
    assert in_order(read(PCAP, **options)) == in_order(expected())


@pytest.mark.parametrize("rows", capture_reader.ROWS)
def test_bytes_before_the_first_frame_of_a_joined_connection_are_no_row(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "joined.pcap"
    talk = Conversation(handshake=False).send(1, b"the end of a response")
    path.write_bytes(pcap(map(ethernet, ask(talk, 1).packets)))
    found = read(path, rows=rows)
    assert [row["problem"] for row in found] == [None] * (1 if rows == "exchanges" else 2)


def test_bodies_are_decoded_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plain = capture_reader.read_with

    def noted(*arguments: Any, **options: Any) -> Any:
        asked.append((options["body"], options["keep"]))
        return plain(*arguments, **options)

    monkeypatch.setattr(capture_reader, "read_with", noted)
    found = read(PCAP, "api", "latency_ms")
    assert found == [{name: row[name] for name in ("api", "latency_ms")} for row in expected()]
    read(PCAP, "api", "response")
    read(PCAP, "data", "frame", rows="frames")
    assert asked == [(False, False), (True, False), (False, True)]


def test_frames_are_those_of_the_exchanges() -> None:
    found = {(row["frame"], row["packet"], row["data"]) for row in read(PCAP, rows="frames", showSecrets="true")}
    kept = list(capture.read(PCAP, keep=True).matched())
    requests = {("request", one.row.packet, one.request_frame) for one in kept if one.request_frame is not None}
    responses = {
        ("response", one.row.response_packet, one.response_frame) for one in kept if one.response_frame is not None
    }
    assert found == requests | responses
    one = next(row for row in read(PCAP, rows="frames") if row["frame"] == "response")
    of = next(row for row in expected() if row["response_packet"] == one["packet"])
    assert (one["time_ns"], one["bytes"], one["correlation_id"], one["data"] is not None) == (
        of["response_time_ns"], of["response_bytes"], of["correlation_id"], True,
    )  # fmt: skip


def test_frames_with_secrets_are_withheld(tmp_path: Path) -> None:
    from kafkawire.messages import SaslAuthenticateRequest

    talk = Conversation()
    ask(talk, 1)
    talk.request(SaslAuthenticateRequest(auth_bytes=b"\0me\0hunter2"), version=2, correlation_id=2)
    path = tmp_path / "sasl.pcap"
    path.write_bytes(pcap(map(ethernet, talk.packets)))
    hidden = [row["data"] for row in read(path, rows="frames") if row["api"] == "SaslAuthenticate"]
    shown = [row["data"] for row in read(path, rows="frames", showSecrets="true") if row["api"] == "SaslAuthenticate"]
    assert hidden == [None]
    assert b"hunter2" in shown[0]


def test_options_choose_exchanges() -> None:
    all_rows = expected()
    times = sorted(row["time_ns"] // 1_000_000 for row in all_rows)
    low, high = times[20], times[40]
    chosen = read(PCAP, startingTimestamp=str(low), endingTimestamp=str(high))
    assert chosen == [row for row in all_rows if low <= row["time_ns"] // 1_000_000 < high] != []
    (one, *_) = (row["connection"] for row in all_rows if row["api"] == "EndTxn")
    chosen = read(PCAP, api="Produce, EndTxn", connection=f"0,{one}")
    assert chosen == [row for row in all_rows if row["api"] in ("Produce", "EndTxn") and row["connection"] == one] != []
    assert {row["api"] for row in read(PCAP, rows="frames", api="endtxn")} == {"EndTxn"}
    with pytest.raises(ValueError, match="startingTimestamp is after endingTimestamp"):
        reader(PCAP, startingTimestamp="2", endingTimestamp="1")


def test_compressed_files_are_one_task(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap.gz"
    path.write_bytes(gzip.compress(PCAP.read_bytes()))
    found = reader(path, maxPartBytes="1000")
    assert [[part.shares for part in task.items] for task in found.partitions() if isinstance(task, Task)] == [[1]]
    assert [row | {"file": str(PCAP)} for row in taken(found)] == expected()


def folder_with_all_kinds(folder: Path) -> dict[str, str]:
    """Its files: name -> beginning of the problem."""
    shutil.copy(PCAP, folder / "good.pcap")
    (folder / "cut.pcap").write_bytes(PCAP.read_bytes()[:-10])
    (folder / "README.md").write_text("not a capture")
    (folder / "empty.pcap").touch()
    (folder / "_SUCCESS").touch()
    (folder / "below").mkdir()
    talk = Conversation().send(0, b"GET / HTTP/1.1\r\n\r\n" * 4)
    (folder / "below" / "web.pcap").write_bytes(pcap(map(ethernet, talk.packets)))
    return {
        "cut.pcap": "the file is damaged after packet",
        "README.md": "expected a pcap or pcapng file, found a file that begins with",
        "empty.pcap": "expected a pcap or pcapng file, found an empty file",
        "web.pcap": "no Kafka was recognised in",
    }


def test_foreign_and_damaged_files_are_rows(tmp_path: Path) -> None:
    reasons = folder_with_all_kinds(tmp_path)
    for part_bytes in ("33554432", "30000"):
        found = read(tmp_path, maxPartBytes=part_bytes)
        problems = {Path(row["file"]).name: row["problem"] for row in found if row["connection"] is None}
        assert set(problems) == set(reasons)
        assert all(reasons[name] in problem for name, problem in problems.items()), problems
        assert len([row for row in found if row["connection"] is None]) == len(reasons)
        assert {Path(row["file"]).name for row in found if row["connection"]} == {"good.pcap", "cut.pcap"}


@pytest.mark.parametrize("name", ["cut.pcap", "README.md"])
def test_failfast_fails_the_job(tmp_path: Path, name: str) -> None:
    folder_with_all_kinds(tmp_path)
    with pytest.raises(SourceError, match=name):
        read(tmp_path / name, mode="failfast")
    assert read(tmp_path / "good.pcap", mode="failfast")


def test_reports_a_file_that_vanishes_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    shutil.copy(PCAP, path)
    found = reader(path, maxPartBytes="60000")
    tasks = found.partitions()
    path.unlink()
    gone = [row for task in tasks for batch in found.read(task) for row in batch.to_pylist()]
    assert [(row["file"], row["problem"]) for row in gone] == [(str(path), "No such file or directory")]


def test_an_empty_folder_has_no_rows_and_a_missing_path_is_an_error(tmp_path: Path) -> None:
    assert read(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.pcap")


def test_large_bodies_are_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "BATCH_BYTES", 20_000)
    found = reader(PCAP)
    sizes = [batch.nbytes for task in found.partitions() for batch in found.read(task)]
    assert len(sizes) > 3
    assert sum(sizes) > 5 * max(sizes) or max(sizes) < 80_000


def test_reads_captures_in_a_session(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    shutil.copy(PCAP, tmp_path / "t.pcap")
    reader = spark.read.format("kafka_pcap").option("maxPartBytes", "40000")
    assert not {"request", "response", "data"} & set(reader.load(str(tmp_path)).columns)
    assert "data" in reader.option("rows", "frames").option("body", "true").load(str(tmp_path)).columns
    table = reader.option("rows", "exchanges").option("body", "true").load(str(tmp_path))
    assert table.schema == from_arrow_schema(capture_reader.EXCHANGES)
    assert table.rdd.getNumPartitions() > 1
    assert table.count() == len(expected())
    counts = {row.api: row["count"] for row in table.groupBy("api").count().collect()}
    assert counts == {api: sum(row["api"] == api for row in expected()) for api in {row["api"] for row in expected()}}
    produced = table.where("api = 'Produce' AND connection > 0").select("packet", "request", "errors").collect()
    assert sorted((row.packet, row.request, dict(row.errors)) for row in produced) == sorted(
        (row["packet"], row["request"], dict(row["errors"])) for row in expected() if row["api"] == "Produce"
    )


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="rows is exchanges or frames, not packets"):
        reader(PCAP, rows="packets")
    with pytest.raises(ValueError, match="no path"):
        CaptureReader(from_arrow_schema(capture_reader.EXCHANGES), SourceOptions({})).partitions()
    assert issubclass(SourceError, errors.KafkaWireError)

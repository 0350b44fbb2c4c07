"""`kafkawire capture`."""

from __future__ import annotations

import csv
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kafkawire import frames
from kafkawire.capture import reader
from kafkawire.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ProduceRequest,
    ProduceResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafkawire.messages.describe_transactions_response import TransactionState
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.records import Record, build
from kafkawire.wire import backend
from tests.cli.harmless import harmless
from tests.cli.runner import Run

CLIENT, BROKER = ("10.0.0.1", 40000), ("10.0.0.2", 9999)
SYN, ACK = 2, 16
READ = reader.read_with

RECORDS = build([Record(key=b"k", value=b"[bold]\x1b=cmd")])
ASKED = DescribeTransactionsRequest(transactional_ids=("tx\x1b[2J",))
ANSWERED = DescribeTransactionsResponse(transaction_states=(TransactionState(error_code=105),))
PRODUCED = ProduceRequest(
    acks=1, topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=RECORDS),)),)
)
TALK = [
    (
        frames.encode_request(ASKED, version=0, correlation_id=1, client_id="=me"),
        frames.encode_response(ANSWERED, version=0, correlation_id=1),
    ),
    (
        frames.encode_request(PRODUCED, version=9, correlation_id=2),
        frames.encode_response(ProduceResponse(), version=9, correlation_id=2),
    ),
    (
        frames.encode_request(SaslAuthenticateRequest(auth_bytes=b"\0user\0secret"), version=0, correlation_id=3),
        frames.encode_response(SaslAuthenticateResponse(), version=0, correlation_id=3),
    ),
]


def packet(source: tuple[str, int], target: tuple[str, int], sequence: int, ack: int, flags: int, data: bytes) -> bytes:
    """An Ethernet frame with an IPv4 packet with a TCP segment; no checksums."""
    tcp = struct.pack(">HHIIBBHHH", source[1], target[1], sequence, ack, 5 << 4, flags, 65535, 0, 0) + data
    addresses = bytes(int(part) for ip in (source[0], target[0]) for part in ip.split("."))
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + addresses
    return bytes(12) + b"\x08\x00" + ip + tcp


def pcap(talk: list[tuple[bytes, bytes]], *, lost: int | None = None) -> bytes:
    """One connection in a classic pcap: request, response, request, ... a millisecond apart, but for one packet."""
    packets = [packet(CLIENT, BROKER, 99, 0, SYN, b""), packet(BROKER, CLIENT, 499, 100, SYN | ACK, b"")]
    sent, received = 100, 500
    for request, response in talk:
        packets.append(packet(CLIENT, BROKER, sent, received, ACK, request))
        sent += len(request)
        packets.append(packet(BROKER, CLIENT, received, sent, ACK, response))
        received += len(response)
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for number, data in enumerate(packets):
        if number == lost:
            continue
        out += struct.pack("<IIII", 1_700_000_000, 1000 * number, len(data), len(data)) + data
    return out


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(TALK))
    return path


def exchanges(run: Run, *arguments: object, code: int = 0, **options: Any) -> list[dict[str, Any]]:
    result = run("capture", *arguments, **options)
    assert result.code == code, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_prints_a_row_for_each_exchange(run: Run, trace: Path) -> None:
    rows = exchanges(run, trace)
    assert [(row["api"], row["version"], row["correlation_id"], row["errors"]) for row in rows] == [
        ("DescribeTransactions", 0, 1, {"TRANSACTIONAL_ID_NOT_FOUND": 1}),
        ("Produce", 9, 2, {}),
        ("SaslAuthenticate", 0, 3, {}),
    ]
    first = rows[0]
    assert (first["client"], first["broker"], first["packet"], first["response_packet"]) == (
        "10.0.0.1:40000", "10.0.0.2:9999", 3, 4,
    )  # fmt: skip
    assert (first["time"], first["latency_ms"], first["problem"]) == ("2023-11-14T22:13:20.002000Z", 1, None)
    assert not any("request" in row or "response" in row for row in rows)


def test_body_prints_whole_messages(run: Run, trace: Path) -> None:
    rows = exchanges(run, trace, "--body")
    assert rows[0]["request"] == {"transactionalIds": ["tx\x1b[2J"]}
    assert rows[0]["response"]["transactionStates"][0]["errorCode"] == 105
    assert isinstance(rows[1]["request"]["topicData"][0]["partitionData"][0]["records"], str)
    assert rows[2]["request"] == {"authBytes": "[redacted]"}
    assert exchanges(run, trace, "--body", "--show-secrets")[2]["request"] == {
        "authBytes": "AHVzZXIAc2VjcmV0",
        "authBytesDecoded": {"name": "text", "version": None, "data": "\0user\0secret"},
    }


def test_records_decodes_batches_and_no_payloads_omits_them(run: Run, trace: Path) -> None:
    def records(*flags: str) -> Any:
        return exchanges(run, trace, *flags)[1]["request"]["topicData"][0]["partitionData"][0]["records"]

    assert records("--records")[0]["records"][0]["value"] == "[bold]\x1b=cmd"
    assert records("--records", "--no-payloads") is None
    assert records("--body", "--no-payloads") is None


def test_records_that_cannot_be_read_exit_with_4(run: Run, trace: Path) -> None:
    """Their batch is whole where its inside is not read."""
    data = trace.read_bytes().replace(RECORDS, RECORDS[:-1] + bytes((RECORDS[-1] ^ 1,)))
    trace.write_bytes(data)
    assert [row["problem"] for row in exchanges(run, trace, "--body")] == [None] * 3
    result = run("capture", trace, "--records")
    assert result.code == 4
    row = json.loads(result.out.splitlines()[1])
    assert row["problem"].startswith("request: records: at byte 0: crc_mismatch: ")
    (batch,) = row["request"]["topicData"][0]["partitionData"][0]["records"]
    assert (batch["kind"], batch["reason"]) == ("damage", "crc_mismatch")
    assert result.err.startswith(f"incomplete: {trace}: packet 5: request: records: at byte 0: crc_mismatch: ")


@pytest.mark.parametrize("number", [1, 0])
def test_a_connection_of_one_request_that_is_not_certain_exits_with_4(run: Run, trace: Path, number: int) -> None:
    """A whole frame of a version that is not known, without a response: by its client id it may be Kafka's."""
    name = b"\0\2me" if number else b"\xff\xff"
    request = b"\0\1\0\x19" + number.to_bytes(4, "big") + name + bytes(range(40))
    unknown = len(request).to_bytes(4, "big") + request
    trace.write_bytes(pcap([(unknown, b"")]) + pcap(TALK)[24:].replace(b"\x0a\0\0\1", b"\x0a\0\0\3"))
    result = run("capture", trace)
    assert len(result.out.splitlines()) == 3
    what = (
        "that may be Kafka's, with too few frames to be certain: they are not shown"
        if number
        else "of which too little was captured to determine whether they are Kafka's"
    )
    start = f"{'incomplete' if number else 'note'}: {trace}: 1 connection ({len(unknown)} bytes) {what}\n"
    assert (result.code, result.err) == (4 if number else 0, start)


@pytest.mark.parametrize("format", ["table", "csv", "json", "jsonl"])
def test_every_format_is_harmless(run: Run, trace: Path, format: str) -> None:
    result = run("capture", trace, "--records", "--format", format)
    assert result.code == 0
    assert harmless(result.text)
    assert "DescribeTransactions" in result.text


def test_writes_csv(run: Run, trace: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(run("capture", trace, "--format", "csv").text)))
    assert lines[0]["client_id"] == "'=me"
    assert lines[0]["errors"] == '{"TRANSACTIONAL_ID_NOT_FOUND":1}'
    assert not {"request", "response"} & set(lines[0])
    lines = list(csv.DictReader(io.StringIO(run("capture", trace, "--format", "csv", "--body").text)))
    assert json.loads(lines[0]["request"]) == {"transactionalIds": ["tx\x1b[2J"]}


def test_reads_standard_input_and_several_files(run: Run, trace: Path) -> None:
    assert [row["file"] for row in exchanges(run, "-", stdin=trace.read_bytes())] == ["-"] * 3
    assert len(exchanges(run, trace, trace)) == 6


def test_pure_python_reads_standard_input_in_order_and_does_not_follow(
    run: Run, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run("capture", "-", stdin=trace.read_bytes()).out
    monkeypatch.setattr(backend, "native", None)
    monkeypatch.setattr(reader, "native", None)
    assert run("capture", "-", stdin=trace.read_bytes()).out == expected
    refused = run("capture", "--follow", trace)
    assert (refused.code, refused.out) == (2, b"")
    assert "--follow needs the native engine" in refused.err


def test_damage_and_undecoded_messages_exit_with_4(run: Run, trace: Path, tmp_path: Path) -> None:
    trace.write_bytes(pcap(TALK)[:-10])
    assert len(exchanges(run, trace, code=4)) == 4
    unknown = b"\0\0\0\x0a" + bytes.fromhex("0041 0063 00000001 ffff")
    trace.write_bytes(pcap([*TALK, (unknown, b"\0\0\0\x04\0\0\0\x01")]))
    result = run("capture", trace)
    assert result.code == 4
    assert result.err.startswith(
        f"incomplete: {trace}: packet 9: request: DescribeTransactionsRequest has no version 99"
    )
    assert result.err.count("\n") == 1

    other = tmp_path / "other.pcap"
    trace.write_bytes(pcap(TALK))
    result = run("capture", tmp_path / "none.pcap", trace, other)
    assert (result.code, len(result.out.splitlines())) == (4, 3)
    assert result.err.splitlines() == [
        f"incomplete: {tmp_path / name}: No such file or directory" for name in ("none.pcap", "other.pcap")
    ]
    result = run("capture", tmp_path / "none.pcap", other)
    assert (result.code, result.err) == (
        1, f"error: {tmp_path / 'none.pcap'}: No such file or directory (and 1 more)\n"
    )  # fmt: skip


def joined(path: Path, packets: bytes) -> Path:
    """The same capture without its first three packets: the handshake and the first request."""
    at = 24
    for _ in range(3):
        at += 16 + struct.unpack_from("<I", packets, at + 8)[0]
    path.write_bytes(packets[:24] + packets[at:])
    return path


@pytest.mark.parametrize("arguments", [(), ("--errors",), ("--stats",), ("--body",), ("--follow",)])
def test_notes_bytes_before_the_first_frame_of_a_connection_from_before_the_capture(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = joined(tmp_path / "joined.pcap", pcap(TALK))
    if "--follow" in arguments:
        monkeypatch.setattr(
            reader, "read_with", lambda file, **options: READ(file, **options | {"follow": lambda: False})
        )
    result = run("capture", path, *arguments)
    assert result.code == 0, result.err
    notes = result.err.splitlines()
    size = len(TALK[0][1])
    assert notes[0] == (
        f"note: {path}: {size} bytes before the first frames of 1 connection whose beginning was not captured"
    )
    assert [note.partition(".pcap: ")[2] for note in notes[1:]] == (
        ["none of its 2 exchanges matches the options"] if "--errors" in arguments else []
    )
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["api"] for row in rows] == ([] if "--errors" in arguments else ["Produce", "SaslAuthenticate"])


def test_a_hole_in_a_connection_from_before_the_capture_exits_with_4(run: Run, tmp_path: Path) -> None:
    path = joined(tmp_path / "joined.pcap", pcap([*TALK, *TALK[1:]], lost=8))
    rows = exchanges(run, path, code=4)
    assert any("missing in the capture" in str(row["problem"]) for row in rows)


def test_a_capture_that_ends_before_a_response_exits_with_0(run: Run, trace: Path) -> None:
    trace.write_bytes(pcap([*TALK, (TALK[0][0].replace(b"\0\0\0\x01", b"\0\0\0\x07"), b"")]))
    assert exchanges(run, trace)[-1]["problem"] == "no response was captured"


def test_files_without_kafka_exit_with_1(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data, error in (
        (b"", "at byte 0"),
        (b"not a capture, but long enough", "at byte 0"),
        (pcap([(b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n")]), "no Kafka was recognised in 4 packets "),
    ):
        path.write_bytes(data)
        result = run("capture", path)
        assert (result.code, result.out) == (1, b"")
        assert result.err.startswith(f"error: {path}: ")
        assert error in result.err
        assert result.err.count("\n") == 1
    assert run("capture", tmp_path / "none").err == f"error: {tmp_path / 'none'}: No such file or directory\n"
    assert run("capture", tmp_path).code == 1
    assert run("capture").code == 2


def test_a_capture_without_packets_exits_with_0(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(pcap([])[:24])
    assert exchanges(run, tmp_path / "x") == []


# Choosing, counting, following ---------------------------------------------------------------------------------------


def test_options_choose_exchanges(run: Run, trace: Path) -> None:
    assert [row["api"] for row in exchanges(run, trace, "--api", "produce", "--api", "36")] == [
        "Produce",
        "SaslAuthenticate",
    ]
    assert [row["api"] for row in exchanges(run, trace, "--topic", "t")] == ["Produce"]
    assert [row["api"] for row in exchanges(run, trace, "--errors")] == ["DescribeTransactions"]
    assert exchanges(run, trace, "--slow", "2") == []
    assert len(exchanges(run, trace, "--port", "9999", "--connection", "1")) == 3
    assert exchanges(run, trace, "--time", "..2023-11-14T22:13:20.003Z")[-1]["api"] == "DescribeTransactions"
    assert exchanges(run, trace, "--client-id", "=me", "--topic", "t") == []


def test_reports_problems_of_exchanges_that_were_not_chosen(run: Run, trace: Path) -> None:
    unknown = b"\0\0\0\x0a" + bytes.fromhex("0041 0063 00000001 ffff")
    trace.write_bytes(pcap([*TALK, (unknown, b"\0\0\0\x04\0\0\0\x01")]))
    result = run("capture", trace, "--api", "Produce")
    assert (result.code, len(result.out.splitlines())) == (4, 1)
    assert result.err == (
        f"incomplete: {trace}: packet 9: request: DescribeTransactionsRequest has no version 99; it has 0; "
        "response: DescribeTransactionsResponse has no version 99; it has 0\n"
    )
    result = run("capture", trace, "--port", "1")
    assert (result.code, result.out) == (4, b"")
    assert result.err.endswith(f"note: {trace}: none of its 4 exchanges matches the options\n")


def test_decode_as_reads_a_udp_port_as_an_encapsulation(run: Run, trace: Path) -> None:
    from tests.capture import tunnels, wiretap

    frames = [wiretap.ethernet(packet) for packet in wiretap.ask(wiretap.Conversation(), 1).packets]
    trace.write_bytes(wiretap.pcap(frames))
    plain = run("capture", trace)
    trace.write_bytes(wiretap.pcap(tunnels.over_udp(12345, tunnels.VXLAN + frame) for frame in frames))
    result = run("capture", trace, "--decode-as", "udp.port==12345,vxlan")
    assert (result.code, result.out, result.err) == (0, plain.out, "")
    result = run("capture", trace)
    assert (result.code, result.out) == (1, b"")
    assert f"{len(frames)} packets: UDP port 12345)" in result.err


def test_decode_as_reads_a_tcp_port_as_kafkas(run: Run, trace: Path) -> None:
    trace.write_bytes(pcap([(b"\0\0\0\x0e\0\1\0\x5a\0\0\0\1" + bytes(6), b"\0\0\0\4\0\0\0\1")]))
    assert run("capture", trace).code == 1
    (row,) = exchanges(run, trace, "--decode-as", f"tcp.port=={BROKER[1]},kafka", code=4)
    assert (row["api"], row["version"], row["response_bytes"]) == ("Fetch", 90, 4)


def test_unknown_encapsulation_is_a_usage_error_that_lists_the_known_ones(run: Run, trace: Path) -> None:
    result = run("capture", trace, "--decode-as", "udp.port==12345,vxlam")
    assert result.code == 2
    text = " ".join(result.err.split())
    assert "--decode-as" in text
    assert "'vxlam' is none of geneve, gtp, mpls, tzsp, vxlan, vxlan-gpe" in text
    assert "is not udp.port==N,NAME" in " ".join(run("capture", trace, "--decode-as", "vxlan").err.split())


def test_prints_a_line_for_each_file_with_unread_data(run: Run, trace: Path) -> None:
    """Incomplete ends of a capture are notes and no failure; TLS and packets without TCP are counted."""
    hello = packet(("10.0.0.9", 7), BROKER, 5, 0, ACK, b"\x16\x03\x01\0\x05hello")
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    cut = packet(CLIENT, BROKER, 100 + sum(len(request) for request, _ in TALK), 0, ACK, TALK[0][0][:20])
    opened = packet(("10.0.0.9", 7), BROKER, 4, 0, SYN, b"")
    more = b"".join(struct.pack("<IIII", 1_700_000_000, 9000, len(p), len(p)) + p for p in (opened, hello, arp, cut))
    trace.write_bytes(pcap(TALK) + more)
    result = run("capture", trace)
    assert (result.code, len(result.out.splitlines())) == (0, 4)
    assert result.err == (
        f"note: {trace}: packet 12: from the client: 20 bytes of a frame that is not whole; "
        "1 connection (10 bytes) encrypted (TLS), not decoded; 10.0.0.9:7 - 10.0.0.2:9999: a handshake message is "
        "malformed; 1 packet skipped: not IP\n"
    )
    trace.write_bytes(pcap(TALK) + more + b"\1")
    lines = run("capture", trace).err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(
        f"incomplete: {trace}: the file is damaged after packet 12: at byte {trace.stat().st_size - 1}: "
    )
    assert lines[0].endswith("1 packet skipped: not IP")


def test_prints_each_kind_of_problem_once(run: Run, trace: Path) -> None:
    unknown = [b"\0\0\0\x0a" + bytes.fromhex(f"0041 0063 000000{n:02x} ffff") for n in range(9)]
    trace.write_bytes(pcap([*TALK, *((frame, b"") for frame in unknown)]))
    assert run("capture", trace).err == (
        f"incomplete: {trace}: packet 9: request: DescribeTransactionsRequest has no version 99; it has 0; "
        "no response was captured (and 8 more like it)\n"
    )


def test_invalid_options_are_usage_errors(run: Run, trace: Path) -> None:
    for wrong, hint in (
        (["--api", "Prodce"], "near: Produce"),
        (["--time", "yesterday.."], "neither ISO 8601"),
        (["--time", "5"], "no range of times"),
        (["--stats", "--timeline", "t"], "exclude each other"),
        (["--stats", "--follow"], "--follow does not end"),
    ):
        result = run("capture", trace, *wrong)
        assert result.code == 2
        assert hint in " ".join(result.err.replace("│", " ").split())


def test_stats_prints_a_row_for_each_api_version_and_client(run: Run, trace: Path) -> None:
    first = exchanges(run, trace, "--stats")[0]
    assert (first["api"], first["client_id"], first["count"], first["latency_max_ms"]) == (
        "DescribeTransactions", "=me", 1, 1.0,
    )  # fmt: skip
    assert first["errors"] == {"TRANSACTIONAL_ID_NOT_FOUND": 1}
    table = run("capture", trace, "--stats", "--format", "table").text
    assert harmless(table)
    assert table.splitlines()[0].split() == [
        "api", "version", "client_id", "count", "unanswered", "request_bytes", "response_bytes", "latency_p50_ms",
        "latency_p99_ms", "latency_max_ms", "errors", "problems",
    ]  # fmt: skip


def test_timeline_prints_the_steps_of_a_producer(run: Run) -> None:
    example = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
    steps = exchanges(run, example, "--timeline", "payments-archiver", code=4)
    assert [step["api"] for step in steps] == ["InitProducerId", "Produce", "EndTxn", "WriteTxnMarkers"]
    assert steps[-1]["what"].startswith("abort payments-0")
    result = run("capture", example, "--timeline", "nobody")
    assert result.out == b""
    assert "note: no request of the transactional or producer id 'nobody'\n" in result.err


def test_frames_out_writes_frames_unchanged(run: Run, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    run("capture", trace, "--frames-out", folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "000001-DescribeTransactions-v0.req.bin",
        "000001-DescribeTransactions-v0.resp.bin",
        "000002-Produce-v9.req.bin",
        "000002-Produce-v9.resp.bin",
        "000003-SaslAuthenticate-v0.req.withheld",
        "000003-SaslAuthenticate-v0.resp.withheld",
    ]
    assert (folder / "000002-Produce-v9.req.bin").read_bytes() == TALK[1][0][4:]
    decoded = run("decode", "--frame", folder / "000001-DescribeTransactions-v0.req.bin")
    assert "transactionalIds" in decoded.text
    trace.write_bytes(pcap([*TALK, (b"", b"\0\0\0\x08\0\0\0\x63what")]))
    run("capture", trace, "--frames-out", folder)
    assert (folder / "000004-unknown.resp.withheld").is_file()
    run("capture", trace, "--frames-out", folder, "--show-secrets", "--api", "SaslAuthenticate")
    assert b"secret" in (folder / "000001-SaslAuthenticate-v0.req.bin").read_bytes()


def test_writes_parquet(run: Run, trace: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("capture", trace, "-o", tmp_path / "out.parquet").code == 0
    assert parquet.read_table(tmp_path / "out.parquet").column("api").to_pylist() == [
        "DescribeTransactions",
        "Produce",
        "SaslAuthenticate",
    ]


def test_otlp_json_prints_lines_of_spans_that_act_on_no_terminal(trace: Path, run: Run) -> None:
    result = run("capture", str(trace), "--format", "otlp-json")
    (line,) = map(json.loads, result.out.splitlines())
    (resource,) = line["resourceSpans"]
    found = resource["scopeSpans"][0]["spans"]
    assert [span["name"] for span in found] == ["DescribeTransactions", "Produce t", "SaslAuthenticate"]
    assert b"secret" not in result.out
    assert harmless(result.out.decode())
    assert run("capture", str(trace), "--format", "otlp-json").out == result.out


@pytest.mark.parametrize("option", [["--stats"], ["--timeline", "tx"], ["--body"], ["--records"]])
def test_otlp_json_excludes_options_of_other_rows(option: list[str], trace: Path, run: Run) -> None:
    result = run("capture", str(trace), "--format", "otlp-json", *option)
    assert (result.code, result.out) == (2, b"")


def test_pattern_and_directory_are_one_capture(trace: Path, tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    data = trace.read_bytes()
    cut = 24
    for number in range(3):  # a packet each, and the rest
        end = len(data) if number == 2 else cut + 16 + int.from_bytes(data[cut + 8 : cut + 12], "little")
        (folder / f"ring{number}").write_bytes(data[:24] + data[cut:end])
        cut = end
    expected = run("capture", str(trace), "--stats", "--format", "jsonl").out
    assert expected
    for name in (folder, folder / "ring*"):
        result = run("capture", str(name), "--stats", "--format", "jsonl")
        assert result.out == expected
    assert run("capture", str(folder / "ring*"), "-o", str(folder / "ring1")).code == 2
    missing = run("capture", str(folder / "none*"))
    assert missing.code == 1
    assert b"no file matches" in missing.err.encode()


def test_stats_note_a_producer_id_that_two_connections_use_at_the_same_time(tmp_path: Path, run: Run) -> None:
    from tests.capture.test_capture_producer_overlaps import HERE, PRODUCE_9, THERE, traffic

    path = tmp_path / "zombie.pcap"
    turns = [(0, *PRODUCE_9), (1, *PRODUCE_9), (0, *PRODUCE_9)]
    path.write_bytes(traffic(*turns, ends=[(HERE, 0), (THERE, 0)]))
    result = run("capture", str(path), "--stats", "--format", "jsonl")
    assert json.loads(result.out)["count"] == 3
    assert (
        "producer id 7 epoch 1 is used at the same time by connection 1 (10.0.0.1:40000 - 10.0.0.2:9092) and "
        "connection 2 (10.0.0.3:40000 - 10.0.0.2:9092), from 2023-11-14T22:13:20.006000Z to "
        "2023-11-14T22:13:20.008000Z"
    ) in result.err

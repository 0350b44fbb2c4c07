"""Captures of Kafka over TLS: with a key log, they give the rows of the plain connection."""

from __future__ import annotations

import os
import ssl
import struct
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafkawire import capture
from kafkawire.capture import memory_limits
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkawire.rows import Exchange
from tests.capture.tls_traffic import CLIENT, SERVER, Endpoints
from tests.capture.wiretap import Conversation, ethernet, pcap, pcapng

pytest.importorskip("cryptography")

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
MESSAGES: list[tuple[int, bytes]] = [
    (CLIENT, encode_request(ApiVersionsRequest(), version=3, correlation_id=1, client_id="orders")),
    (SERVER, encode_response(ApiVersionsResponse(), version=3, correlation_id=1)),
    (CLIENT, encode_request(MetadataRequest(topics=None), version=9, correlation_id=2, client_id="orders")),
    (SERVER, encode_response(MetadataResponse(cluster_id="x" * 30_000), version=9, correlation_id=2)),
    *(
        message
        for number in range(3, 40)
        for message in (
            (
                CLIENT,
                encode_request(
                    EndTxnRequest(transactional_id="t", producer_id=number),
                    version=3,
                    correlation_id=number,
                    client_id="orders",
                ),
            ),
            (SERVER, encode_response(EndTxnResponse(), version=3, correlation_id=number)),
        )
    ),
]


def packets(sent: Sequence[tuple[int, bytes]], port: int = 40000) -> list[bytes]:
    talk = Conversation(client=("10.0.0.1", port))
    for side, data in sent:
        talk.send(side, data)
    return [ethernet(packet) for packet in talk.close().packets]


def content(found: Sequence[Exchange]) -> list[dict[str, Any]]:
    """Rows without what TLS changes: packets and times."""
    rows = [msgspec.to_builtins(row) for row in found]
    return [
        {name: value for name, value in row.items() if not any(part in name for part in ("packet", "time", "latency"))}
        for row in rows
    ]


@pytest.fixture(params=VERSIONS, ids=["1.2", "1.3"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Endpoints:
    return Endpoints(tmp_path, request.param)


PLAIN = content(list(capture.read(BytesIO(pcap(packets(MESSAGES))), body=True)))


def with_secrets(file: bytes, keys: bytes) -> bytes:
    """A pcapng with a Decryption Secrets Block behind its section header."""
    section = int.from_bytes(file[4:8], "little")
    body = struct.pack("<II", 0x544C534B, len(keys)) + keys + bytes(-len(keys) % 4)
    size = struct.pack("<I", len(body) + 12)
    return file[:section] + b"\x0a\x00\x00\x00" + size + body + size + file[section:]


def test_key_log_gives_the_rows_of_the_plain_connection(ends: Endpoints) -> None:
    sent = ends.connect(MESSAGES).sent
    found = capture.read(BytesIO(pcap(packets(sent))), body=True, keylog=ends.key_log)
    assert content(list(found)) == PLAIN
    assert found.summary.connections == {"kafka": 1}
    assert found.summary.decrypted == 1
    assert next(iter(found.summary.tls)).endswith("server name broker1.example, server certificate CN=broker1.example")


def test_secrets_in_a_pcapng_give_the_rows_without_an_option(ends: Endpoints) -> None:
    file = with_secrets(pcapng(packets(ends.connect(MESSAGES).sent)), ends.key_log.read_bytes())
    assert content(list(capture.read(BytesIO(file), body=True))) == PLAIN


def test_connections_without_their_secrets_are_named_beside_those_with_them(ends: Endpoints) -> None:
    first = ends.connect(MESSAGES).sent
    keys = ends.key_log.read_bytes()
    second = ends.connect(MESSAGES).sent
    both = [packet for pair in zip(packets(first), packets(second, 40001), strict=False) for packet in pair]
    both += packets(first)[len(both) // 2 :]
    found = capture.read(BytesIO(with_secrets(pcapng(both), keys)), body=True)
    assert content(list(found)) == PLAIN
    assert found.summary.connections == {"kafka": 1, "tls": 1}
    client_random = second[0][1][11:43].hex()
    assert found.summary.encrypted == {"10.0.0.1:40001 - 10.0.0.2:9092": f"no secret for client random {client_random}"}


def test_without_secrets_nothing_is_decrypted_and_the_client_random_is_named(ends: Endpoints) -> None:
    sent = ends.connect(MESSAGES).sent
    found = capture.read(BytesIO(pcap(packets(sent))))
    assert list(found) == []
    assert found.summary.connections == {"tls": 1}
    assert sent[0][1][11:43].hex() in found.summary.encrypted["10.0.0.1:40000 - 10.0.0.2:9092"]


def test_lost_packet_costs_the_exchanges_in_it_and_is_reported(ends: Endpoints) -> None:
    all_packets = packets(ends.connect(MESSAGES).sent)
    lost = len(all_packets) - 20
    assert len(all_packets[lost]) > 80
    found = list(capture.read(BytesIO(pcap(all_packets[:lost] + all_packets[lost + 1 :])), keylog=ends.key_log))
    problems = [row.problem for row in found if row.problem]
    assert any("of TLS records that cannot be decrypted" in problem for problem in problems)
    whole = [row for row in found if row.response_packet and not row.problem]
    assert len(PLAIN) - 2 <= len(whole) < len(PLAIN)
    assert {row.correlation_id for row in whole} >= {1, 2, 3, 39}


def test_capture_that_ends_within_a_record_loses_only_that(ends: Endpoints) -> None:
    cut = packets(ends.connect(MESSAGES).sent)[:-9]
    found = capture.read(BytesIO(pcap(cut)), keylog=ends.key_log)
    rows = list(found)
    assert [row.correlation_id for row in rows if row.response_packet][:30] == list(range(1, 31))
    assert not any("cannot be decrypted" in (row.problem or "") for row in rows)


def test_secret_of_sasl_inside_tls_stays_redacted(ends: Endpoints) -> None:
    from kafkawire.messages import SaslAuthenticateRequest, SaslAuthenticateResponse

    messages = [
        *MESSAGES[:2],
        (
            CLIENT,
            encode_request(
                SaslAuthenticateRequest(auth_bytes=b"\0me\0hunter2"), version=2, correlation_id=2, client_id="orders"
            ),
        ),
        (SERVER, encode_response(SaslAuthenticateResponse(), version=2, correlation_id=2)),
    ]
    found = capture.read(BytesIO(pcap(packets(ends.connect(messages).sent))), body=True, keylog=ends.key_log)
    text = msgspec.json.encode([msgspec.to_builtins(row) for row in found]).decode()
    assert "SaslAuthenticate" in text
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text


def test_other_protocols_inside_tls_are_no_kafka(ends: Endpoints) -> None:
    sent = ends.connect([(CLIENT, b"GET / HTTP/1.1\r\n\r\n" * 9), (SERVER, b"HTTP/1.1 200 OK\r\n\r\n")]).sent
    found = capture.read(BytesIO(pcap(packets(sent))), keylog=ends.key_log)
    assert list(found) == []
    assert found.summary.connections == {"other": 1}


@pytest.mark.slow
@pytest.mark.parametrize("make", [Path.touch, os.mkfifo])
def test_follow_waits_for_secrets_that_are_written_later(
    ends: Endpoints, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """Also for those of a pipe that had no writer."""
    sent = ends.connect(MESSAGES).sent
    late = tmp_path / "late.log"
    make(late)
    file = tmp_path / "growing.pcap"
    *first, last = packets(sent)
    file.write_bytes(pcap(first))
    waits = iter([True, False])

    def goes_on() -> bool:
        late.write_bytes(ends.key_log.read_bytes())
        file.write_bytes(pcap([*first, last]))
        return next(waits)

    found = [{**row, "file": "-"} for row in content(list(capture.read(file, follow=goes_on, body=True, keylog=late)))]
    assert found == PLAIN


@pytest.mark.parametrize("one_sided", [False, True])
def test_connection_that_began_before_the_capture_is_recognised_as_tls(ends: Endpoints, one_sided: bool) -> None:
    sent = packets(ends.connect(MESSAGES).sent)
    joined = [packet for packet in sent[20:] if not one_sided or packet[26:30] == bytes([10, 0, 0, 2])]
    found = capture.read(BytesIO(pcap(joined)), keylog=ends.key_log)
    assert list(found) == []
    assert found.summary.connections == {"tls": 1}
    (reason,) = found.summary.encrypted.values()
    assert reason == "its TLS handshake was not captured: start the capture first, then reconnect the client"
    assert found.summary.tls == {"TLS, whose handshake was not captured": 1}


def test_joined_connections_without_tls_are_not_taken_for_it() -> None:
    for first in range(1, 30):
        found = capture.read(BytesIO(pcap(packets(MESSAGES)[first:])))
        assert list(found)
        assert found.summary.connections == {"kafka": 1}


def test_connections_that_wait_for_secrets_free_memory(ends: Endpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "MOST_HELD", 100_000)
    monkeypatch.setattr(memory_limits, "EVERY_BYTES", 5_000)
    sent = ends.connect(MESSAGES).sent
    open_ = [packets(sent, 40000 + number)[:-4] for number in range(10)]
    assert 10 * sum(len(data) for _, data in sent) > 300_000
    held = []

    def follow() -> bool:
        held.append(found.tracker.held)
        return False

    ends.key_log.write_text("")
    mixed = BytesIO(pcap([packet for turn in zip(*open_, strict=True) for packet in turn]))
    found = capture.read(mixed, keylog=ends.key_log, follow=follow)
    assert list(found) == []
    assert 0 < held[0] <= 105_000

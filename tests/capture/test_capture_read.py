"""From packets to exchanges: what is matched, what is recognised, and what is reported when something is missing."""

from __future__ import annotations

import base64
import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from wiretap import (
    BROKER,
    CLIENT,
    START_NS,
    Talk,
    answer,
    ask,
    asked,
    brief,
    ethernet,
    exchanges,
    pcap,
    pcapng,
    produce,
    question,
)

from kafkawire import capture, records
from kafkawire.capture.matcher import NO_REQUEST, NO_RESPONSE, TOKEN
from kafkawire.messages import (
    ApiVersionsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    FetchRequest,
    FetchResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ProduceResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.messages.api_versions_response import ApiVersion
from kafkawire.messages.describe_producers_request import TopicRequest
from kafkawire.messages.describe_producers_response import PartitionResponse, TopicResponse
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kafkawire.rows import to_dict

# Whole conversations -------------------------------------------------------------------------------------------------


def test_an_exchange() -> None:
    missing = PartitionResponse(partition_index=0, error_code=3), PartitionResponse(partition_index=1, error_code=3)
    response = DescribeProducersResponse(topics=(TopicResponse(name="t", partitions=missing),))
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0, 1)),))
    talk = Talk().request(request, version=0, correlation_id=7).response(response, version=0, correlation_id=7)
    (exchange,) = exchanges(talk)
    assert to_dict(exchange) == {
        "time": "2023-11-14T22:13:20.003000Z",
        "time_ns": START_NS + 3_000_000,
        "response_time_ns": START_NS + 4_000_000,
        "file": "-",
        "connection": 1,
        "client": "10.0.0.1:40000",
        "broker": "10.0.0.2:9092",
        "api": "DescribeProducers",
        "api_key": 61,
        "version": 0,
        "correlation_id": 7,
        "client_id": "tests",
        "latency_ms": 1.0,
        "request_bytes": 30,
        "response_bytes": 33,
        "packet": 4,
        "response_packet": 5,
        "errors": {"UNKNOWN_TOPIC_OR_PARTITION": 2},
        "problem": None,
    }
    (with_bodies,) = exchanges(talk, body=True)
    assert with_bodies.request == {"topics": [{"name": "t", "partitionIndexes": [0, 1]}]}
    assert with_bodies.response["topics"][0]["partitions"][1]["errorCode"] == 3  # type: ignore[index]


def test_a_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(map(ethernet, ask(Talk(), 1).packets)))
    found = capture.read(path)
    (exchange,) = found
    assert exchange.file == str(path)
    assert found.summary.packets == 5
    assert dict(found.summary.connections) == {"kafka": 1}
    assert (found.summary.exchanges, found.summary.problems.total()) == (1, 0)


@pytest.mark.parametrize(
    "ends",
    [
        (CLIENT, BROKER),
        (("10.0.0.1", 9092), ("10.0.0.2", 31337)),
        (("::1", 50000), ("::1", 9093)),
    ],
)
@pytest.mark.parametrize("handshake", [True, False])
def test_kafka_is_recognised_by_content(ends: tuple[tuple[str, int], tuple[str, int]], handshake: bool) -> None:
    talk = Talk(*ends, handshake=handshake)
    found = exchanges(ask(ask(talk, 1), 2))
    assert brief(found) == asked(1, 2)
    assert found[0].broker is not None
    assert found[0].broker.endswith(f":{ends[1][1]}")


def test_formats_and_link_types_give_the_same_exchanges() -> None:
    packets = ask(ask(Talk(), 1), 2).packets
    wanted = exchanges(packets)
    assert list(capture.read(BytesIO(pcapng(map(ethernet, packets))))) == wanted
    cooked = [bytes(14) + b"\x08\x00" + packet for packet in packets]
    for data in (
        pcap(packets, link_type=101),
        pcap(cooked, link_type=113, order=">", nanoseconds=True),
        pcap([b"\x08\x00" + bytes(18) + p for p in packets], link_type=276),
        pcap([b"\x02\0\0\0" + p for p in packets], link_type=0),
    ):
        assert list(capture.read(BytesIO(data))) == wanted


def test_requests_ahead_of_responses() -> None:
    talk = Talk()
    for number in (1, 2, 3):
        question(talk, number)
    for number in (1, 2, 3):
        answer(talk, number)
    found = exchanges(talk)
    assert brief(found) == asked(1, 2, 3)
    assert [(e.packet, e.response_packet) for e in found] == [(4, 7), (5, 8), (6, 9)]


def test_frames_over_many_segments_and_many_in_one() -> None:
    for mss in (1, 7, 40, 100_000):
        talk = Talk(mss=mss)
        talk.request(produce(-1, records.build([records.Record(b"x" * 500)])), version=9, correlation_id=1)
        talk.response(ProduceResponse(), version=9, correlation_id=1)
        ask(talk, 2)
        found = exchanges(talk)
        assert [(e.api, e.correlation_id, e.problem) for e in found] == [("Produce", 1, None), ("ApiVersions", 2, None)]
        assert found[0].packet == 4


def test_produce_without_acknowledgment_has_no_response() -> None:
    talk = Talk().request(produce(0), version=9, correlation_id=1)
    ask(talk, 2)
    assert brief(exchanges(talk)) == [("Produce", 1, False, None), *asked(2)]


def test_order_is_that_of_first_packets() -> None:
    slow, fast = Talk(("10.0.0.8", 1), BROKER), Talk(("10.0.0.9", 2), BROKER)
    question(slow, 1)
    packets = slow.packets[:]
    packets += ask(ask(fast, 5), 6).packets
    del slow.packets[:]
    packets += answer(slow, 1).packets
    found = exchanges(packets)
    assert [e.correlation_id for e in found] == [1, 5, 6]
    assert [e.connection for e in found] == [1, 2, 2]
    # A request that takes many segments begins where its first byte is.
    large = Talk(("10.0.0.8", 1), BROKER, mss=50).request(produce(-1), version=9, correlation_id=9)
    mixed = large.packets[:5] + ask(Talk(("10.0.0.9", 2), BROKER), 5).packets + large.packets[5:]
    assert [(e.api, e.packet) for e in exchanges(mixed)] == [("Produce", 4), ("ApiVersions", 9)]


def test_who_watches_does_not_wait_for_a_long_poll() -> None:
    poll, other = question(Talk(), 1), Talk(client=("10.0.0.3", 1))
    for number in range(2, 6):
        ask(other, number)
    packets = [*poll.packets, *other.packets, *answer(poll, 1).packets[-1:]]
    file = pcap(map(ethernet, packets), step_ns=400_000_000)
    assert [e.correlation_id for e in capture.read(BytesIO(file))] == [1, 2, 3, 4, 5]
    assert [e.correlation_id for e in capture.read(BytesIO(file), live=True)] == [2, 3, 4, 5, 1]


def test_the_same_ports_again_are_another_connection() -> None:
    first = ask(Talk(), 1).close()
    again = ask(Talk(client_seq=90_000, broker_seq=70), 1)
    found = exchanges(first.packets + again.packets)
    assert brief(found) == asked(1, 1)
    assert [e.connection for e in found] == [1, 2]
    repeated_syn = exchanges([first.packets[0], *first.packets])
    assert brief(repeated_syn) == asked(1)


# What cannot be decoded ----------------------------------------------------------------------------------------------


def test_an_unknown_api_or_version_keeps_its_header() -> None:
    talk = ask(Talk(), 1)
    talk.send(0, b"\0\0\0\x0e" + struct.pack(">hhih", 9999, 1, 2, 2) + b"me" + b"\xaa\xbb")
    talk.send(1, b"\0\0\0\x05" + struct.pack(">i", 2) + b"\0")
    _, unknown = exchanges(talk, body=True)
    assert (unknown.api, unknown.api_key, unknown.client_id) == ("UNKNOWN_9999", 9999, "me")
    assert (unknown.request, unknown.response, unknown.response_bytes) == (None, None, 5)
    assert unknown.problem == (
        "request: no request is known with api key 9999; response: no response is known with api key 9999"
    )


def test_an_unsupported_api_versions_request() -> None:
    answer_0 = ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, max_version=4),))
    talk = Talk().send(0, bytes.fromhex("0000000d 0012 0009 00000001 0001 78 00 00"))
    talk.response(answer_0, version=0, correlation_id=1)
    (exchange,) = exchanges(talk, body=True)
    assert (exchange.version, exchange.errors) == (9, {"UNSUPPORTED_VERSION": 1})
    assert exchange.problem == "request: ApiVersionsRequest has no version 9; it has 0-5"
    assert exchange.response == {
        "errorCode": 35,
        "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}],
    }


def test_a_response_that_does_not_decode() -> None:
    talk = question(Talk(), 1).send(1, b"\0\0\0\x07" + struct.pack(">i", 1) + b"\0\0\0")
    (exchange,) = exchanges(talk)
    assert exchange.problem is not None
    assert exchange.problem.startswith("response: ApiVersionsResponse v0")


def test_what_was_not_answered_and_what_was_not_asked() -> None:
    talk = ask(Talk(), 1)
    question(talk, 2)
    answer(talk, 77)
    found = exchanges(talk)
    assert brief(found) == [*asked(1), ("ApiVersions", 2, False, NO_RESPONSE), (None, 77, True, NO_REQUEST)]
    assert (found[2].packet, found[2].response_packet, found[2].time_ns) == (None, 7, None)


def test_a_response_that_the_capture_has_before_its_request() -> None:
    packets = ask(Talk(), 1).packets
    packets[3], packets[4] = packets[4], packets[3]
    assert brief(exchanges(packets)) == asked(1)


# Not Kafka -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client_says", "broker_says", "verdict"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", "other"),
        (bytes.fromhex("16030100c8010000c40303") + bytes(200), bytes.fromhex("1603030059"), "tls"),
        (b"SSH-2.0-x\r\n", b"SSH-2.0-y\r\n", "other"),
        (bytes(64), bytes(64), "other"),
        (b"\0\0\0\x10\0\x12\x03\xe7" + bytes(30), b"", "other"),
    ],
)
def test_other_protocols(client_says: bytes, broker_says: bytes, verdict: str) -> None:
    talk = Talk().send(0, client_says).send(1, broker_says).send(0, client_says * 10)
    found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
    assert list(found) == []
    assert dict(found.summary.connections) == {verdict: 1}


@pytest.mark.parametrize("handshake", [True, False])
def test_much_of_another_protocol(handshake: bool) -> None:
    talk = Talk(handshake=handshake).send(1, b"220 mail\r\n" + bytes(range(256)) * 4000)
    found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
    assert list(found) == []
    assert dict(found.summary.connections) == {"other": 1}


def test_other_packets_are_counted() -> None:
    packets = [bytes(12) + b"\x08\x06" + bytes(28), *map(ethernet, ask(Talk(), 1).packets), b"short"]
    found = capture.read(BytesIO(pcap(packets)))
    assert brief(found) == asked(1)
    assert dict(found.summary.skipped) == {"not IP": 1, "headers cut off": 1}


# SASL and secrets ----------------------------------------------------------------------------------------------------


def test_tokens_and_passwords_are_not_shown() -> None:
    secret = b"\0alice\0hunter2"
    talk = Talk()
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=1, correlation_id=1)
    talk.response(SaslHandshakeResponse(), version=1, correlation_id=1)
    talk.request(SaslAuthenticateRequest(auth_bytes=secret), version=2, correlation_id=2)
    talk.response(SaslAuthenticateResponse(auth_bytes=secret), version=2, correlation_id=2)
    configs = tuple(
        AlterableConfig(name=name, value="hunter2") for name in ("ssl.key.password", "listener.name.x.sasl.jaas.config")
    )
    configs += (AlterableConfig(name="log.retention.ms", value="1000"), AlterableConfig(name="password", value=None))
    request = IncrementalAlterConfigsRequest(resources=(AlterConfigsResource(configs=configs),))
    talk.request(request, version=1, correlation_id=3)
    talk.response(IncrementalAlterConfigsResponse(), version=1, correlation_id=3)

    handshake, authenticate, alter = exchanges(talk, body=True)
    assert handshake.request == {"mechanism": "PLAIN"}
    assert authenticate.request == {"authBytes": "[redacted]"}
    assert authenticate.response["authBytes"] == "[redacted]"  # type: ignore[index]
    shown = alter.request["resources"][0]["configs"]  # type: ignore[index]
    assert [config["value"] for config in shown] == ["[redacted]", "[redacted]", "1000", None]
    assert "hunter2" not in str([handshake, authenticate, alter])

    _, open_authenticate, open_alter = exchanges(talk, body=True, show_secrets=True)
    assert open_authenticate.request == {"authBytes": base64.b64encode(secret).decode()}
    assert "hunter2" in str(open_alter)


def test_every_secret_that_is_named_is_there() -> None:
    """The tables of secrets name fields that exist: a field that is renamed must not become readable."""
    from kafkawire import lookup
    from kafkawire.capture.bodies import CONFIGS, SECRETS

    for name, paths in [*SECRETS.items(), *CONFIGS.items()]:
        for path in paths:
            spec: Any = lookup(name).spec
            for part in path.split("."):
                field = next(field for field in spec.fields if field.json_name == part)
                spec = field.struct.spec if field.struct else None
            if name in CONFIGS:
                assert {"name", "value"} <= {field.json_name for field in spec.fields}


def test_tokens_without_headers_after_sasl_handshake_0() -> None:
    talk = Talk()
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=0, correlation_id=1)
    talk.response(SaslHandshakeResponse(), version=0, correlation_id=1)
    talk.send(0, b"\0\0\0\x0e\0alice\0hunter2").send(1, b"\0\0\0\0")
    ask(talk, 2)
    found = exchanges(talk, body=True)
    assert brief(found) == [
        ("SaslHandshake", 1, True, None),
        (None, None, True, TOKEN),
        ("ApiVersions", 2, True, None),
    ]
    assert "hunter2" not in str(found)


# Records -------------------------------------------------------------------------------------------------------------


def test_records_as_they_are_decoded_or_left_out() -> None:
    data = records.build([records.Record(b"key", b"\xff\xfe")], base_offset=40, producer_id=9)
    data += records.build_marker("ABORT", offset=41, timestamp=5, producer_id=9, producer_epoch=0, coordinator_epoch=3)
    topics = (FetchableTopicResponse(topic="t", partitions=(PartitionData(records=data + b"torn"),)),)
    talk = Talk().request(FetchRequest(), version=4, correlation_id=1)
    talk.response(FetchResponse(responses=topics), version=4, correlation_id=1)

    def shown(**options: bool) -> Any:
        (exchange,) = exchanges(talk, body=True, **options)
        assert exchange.response is not None
        return exchange.response["responses"][0]["partitions"][0]["records"]  # type: ignore[index]

    assert shown() == base64.b64encode(data + b"torn").decode()
    assert shown(payloads=False) is None
    first, marker, damage = shown(records=True)
    assert (first["base_offset"], first["producer_id"], first["control"]) == (40, 9, None)
    (record,) = first["records"]
    assert (record["offset"], record["key"], record["value"], record["value_base64"]) == (40, "key", None, "//4=")
    assert (marker["control"], marker["coordinator_epoch"]) == ("ABORT", 3)
    assert (damage["kind"], damage["reason"], damage["position"]) == ("damage", "truncated", len(data))
    assert "file" not in first

"""The plugin's text, its trees as people read them, user schemas, and recognition."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kafkawire.cli.arguments import shipped_schemas
from kafkawire.codegen import generate
from kafkawire.codegen.quoting import lua_string
from kafkawire.codegen.wireshark import DisplayRules, render_wireshark
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResult
from tests import golden
from tests.capture.wiretap import ACK, Conversation, ethernet, pcap, tcp
from tests.wireshark import tshark

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[2] / "docs" / "wireshark.md"

PING: dict[str, Any] = {
    "name": "PingRequest",
    "type": "request",
    "apiKey": 200,
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [
        {"name": "Name", "type": "string", "versions": "0+", "about": 'Says "ping".'},
        {"name": "Count", "type": "int32", "versions": "1+"},
        {
            "name": "Places",
            "type": "[]Place",
            "versions": "0+",
            "nullableVersions": "1+",
            "fields": [
                {"name": "Name", "type": "int16", "versions": "0+"},
                {"name": "LastTimestamp", "type": "int64", "versions": "1+", "tag": 0, "taggedVersions": "1+"},
            ],
        },
    ],
}
PONG: dict[str, Any] = {
    "name": "PingResponse",
    "type": "response",
    "apiKey": 200,
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [{"name": "ErrorCode", "type": "int16", "versions": "0+"}],
}


def write_schemas(folder: Path, request: dict[str, Any] = PING) -> Path:
    (folder / "rpc").mkdir(parents=True, exist_ok=True)
    for schema in (request, PONG):
        (folder / "rpc" / f"{schema['name']}.json").write_text(json.dumps(schema))
    return folder


def tables(schemas: Path) -> str:
    """The plugin without its runtime."""
    text = render_wireshark(
        generate.load(schemas), DisplayRules(numbers={"error": {0: "NONE"}}, secret_words=("password",))
    )
    return text.partition("\n-- The protocol, its fields")[0]


# Text ----------------------------------------------------------------------------------------------------------------


def test_the_plugin_of_a_small_schema(tmp_path: Path) -> None:
    golden.check("codegen/wireshark.lua", tables(write_schemas(tmp_path)))


def test_a_changed_schema_changes_the_plugin(tmp_path: Path) -> None:
    before = tables(write_schemas(tmp_path))
    retries = {"name": "Retries", "type": "int32", "versions": "1+"}
    after = tables(write_schemas(tmp_path, {**PING, "fields": [*PING["fields"], retries]}))
    field = '{"ping.retries", "Retries", "int32", "", "int32."},'
    assert field in after
    assert field not in before
    sizes = r'"\w+ (\d+) .*", -- PingRequest, version \d'
    first, second = map(int, re.findall(sizes, before))
    # Version 0 lacks the field; version 1 has four bytes more.
    assert list(map(int, re.findall(sizes, after))) == [first, second + 4]


def test_fields_that_share_a_filter_have_the_sentences_of_all_places(tmp_path: Path) -> None:
    places = {**PING["fields"][2], "fields": [{"name": "Count", "type": "int32", "versions": "0+", "about": "Visits."}]}
    count = {**PING["fields"][1], "about": "Pings so far."}
    text = tables(write_schemas(tmp_path, {**PING, "fields": [count, places]}))
    assert '{"ping.count", "Count", "int32", "", "int32. Pings so far. In Place: Visits."},' in text


def test_the_same_schemas_give_the_same_text() -> None:
    messages = generate.load(shipped_schemas("kafka"))
    assert render_wireshark(messages, DisplayRules()) == render_wireshark(reversed(messages), DisplayRules())


def test_every_filter_is_unique_and_one_that_wireshark_takes() -> None:
    fields = re.findall(r'^\{"([^"]+)", "[^"]+", "([^"]+)"', tshark.plugin_text(), re.MULTILINE)
    filters = [name for name, _ in fields] + [f"{name}.count" for name, kind in fields if kind.startswith("[]")]
    assert len(filters) > 2000
    assert len(set(filters)) == len(filters)
    assert all(re.fullmatch(r"[a-z][a-z0-9_.]*[a-z0-9_]", name) for name in filters)
    assert "describe_producers.producer_id" in filters


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "]]", "a\0001", "é"])
def test_any_text_is_a_lua_string(text: str) -> None:
    quoted = lua_string(text)
    assert re.fullmatch(r'"([^"\\\x00-\x1f]|\\\d{3})*"', quoted)
    read = re.sub(rb"\\(\d{3})", lambda found: bytes([int(found[1])]), quoted[1:-1].encode())
    assert read == text.encode("utf-8", "backslashreplace")
    assert quoted.isprintable()


def test_the_guide_shows_the_trees() -> None:
    guide = GUIDE.read_text("utf-8")
    for tree in re.split(r"\n\n", (golden.FOLDER / "codegen" / "wireshark_trees.txt").read_text("utf-8").strip()):
        assert tree in guide


# In tshark -----------------------------------------------------------------------------------------------------------


def tree(plugin: Path, capture: Path, display_filter: str) -> str:
    """Our part of the detail trees of the packets."""
    text = tshark.run(plugin, capture, "-V", "-O", "kafkawire", "-Y", display_filter)
    return "\n\n".join(re.findall(r"^Apache Kafka.*(?:\n .*)*", text, re.MULTILINE)) + "\n"


@tshark.needs_tshark
def test_trees_as_people_read_them(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    shown = tree(plugin, tshark.PCAP, "frame.number == 685 || frame.number == 916")
    # Newer Wiresharks name the unit of a latency otherwise.
    shown = re.sub(
        r"\[Latency: ([\d.]+) milliseconds\]", lambda found: f"[Latency: {float(found[1]) / 1e3:.9f} seconds]", shown
    )
    golden.check("codegen/wireshark_trees.txt", shown)


@tshark.needs_tshark
def test_user_schemas(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path, write_schemas(tmp_path / "schemas"))
    header = b"\0\xc8\0\1\0\0\0\7\0\2me\0"
    body = b"\5ping\0\0\0\3\2\0\5\1\0\x08" + (1_700_000_000_000).to_bytes(8, "big") + b"\0"
    frame = (len(header) + len(body)).to_bytes(4, "big") + header + body
    path = tmp_path / "ping.pcap"
    path.write_bytes(pcap(map(ethernet, Conversation().send(0, frame).send(1, b"\0\0\0\7\0\0\0\7\0\0\x03").packets)))
    shown = tree(plugin, path, "kafkawire.ping.place.name == 5")
    assert "Name: ping\n        Count: 3\n        Places: 1\n" in shown
    assert "LastTimestamp: 1700000000000 (2023-11-14 22:13:20.000 UTC)" in shown


@tshark.needs_tshark
@pytest.mark.parametrize("mss", [1, 7, 1448])
def test_any_port_and_any_segments(tmp_path: Path, mss: int) -> None:
    """Frames are put together over segments; without a known port, once a request's head is in one of them."""
    plugin = tshark.write_plugin(tmp_path)
    port = 9092 if mss < 14 else 19094
    talk = Conversation(broker=("10.0.0.2", port), mss=mss)
    talk.request(ApiVersionsRequest(client_software_name="x" * 60), version=3, correlation_id=5)
    talk.response(ApiVersionsResponse(throttle_time_ms=9), version=3, correlation_id=5)
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(map(ethernet, talk.packets)))
    names = ("api", "version", "correlation_id", "api_versions.throttle_time_ms")
    fields = [part for name in names for part in ("-e", f"kafkawire.{name}")]
    lines = tshark.run(plugin, path, "-Y", "kafkawire.message", "-T", "fields", *fields).splitlines()
    assert lines == ["ApiVersions\t3\t5\t", "ApiVersions\t3\t5\t9"]


@tshark.needs_tshark
def test_both_passes_agree(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    once = tree(plugin, tshark.PCAP, "kafkawire")
    two_passes = tshark.run(plugin, tshark.PCAP, "-2", "-V", "-O", "kafkawire", "-Y", "kafkawire")
    found = "\n\n".join(re.findall(r"^Apache Kafka.*(?:\n .*)*", two_passes, re.MULTILINE)) + "\n"
    # Only the second pass knows where a request is answered.
    assert re.sub(r"    \[Response in: \d+\]\n", "", found) == once


@tshark.needs_tshark
def test_secrets_are_not_shown(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    password = DescribeConfigsResourceResult(name="ssl.keystore.password", value="hunter2")
    plain = DescribeConfigsResourceResult(name="retention.ms", value="604800000")
    talk = Conversation()
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=1, correlation_id=1)
    talk.response(SaslHandshakeResponse(mechanisms=("PLAIN",)), version=1, correlation_id=1)
    talk.request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"), version=2, correlation_id=2)
    talk.response(SaslAuthenticateResponse(), version=2, correlation_id=2)
    talk.request(DescribeConfigsRequest(), version=4, correlation_id=3)
    result = DescribeConfigsResult(resource_name="b", configs=(password, plain))
    talk.response(DescribeConfigsResponse(results=(result,)), version=4, correlation_id=3)
    # Tokens of SaslHandshake v0 have no headers; what follows them is Kafka again.
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=0, correlation_id=4)
    talk.response(SaslHandshakeResponse(mechanisms=("PLAIN",)), version=0, correlation_id=4)
    talk.send(0, b"\0\0\0\x0e\0alice\0hunter2").send(1, b"\0\0\0\0")
    talk.request(ApiVersionsRequest(), version=0, correlation_id=5)
    talk.response(ApiVersionsResponse(), version=0, correlation_id=5)
    path = tmp_path / "sasl.pcap"
    path.write_bytes(pcap(map(ethernet, talk.packets)))
    hidden = tshark.run(plugin, path, "-V", "-O", "kafkawire")
    assert "hunter2" not in hidden
    assert b"hunter2".hex() not in hidden.replace(":", "")
    assert hidden.count("[redacted]") == 2
    assert "AuthBytes: [redacted], 14 bytes" in hidden
    assert "Value: 604800000" in hidden
    assert "SASL token, not shown: 14" in hidden
    assert "ApiVersions v0 response 5" in hidden


@tshark.needs_tshark
def test_what_is_not_kafka_is_left_alone(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    ends = (("10.0.0.1", 40000), ("10.0.0.2", 8080))
    web = tcp(*ends, 1, 1, ACK, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    noise = tcp(
        ("10.0.0.1", 40001), ("10.0.0.2", 9092), 1, 1, ACK, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)
    )
    path = tmp_path / "web.pcap"
    path.write_bytes(pcap(map(ethernet, (web, noise))))
    assert tshark.run(plugin, path, "-Y", "kafkawire") == ""
    assert tshark.run(plugin, path, "-Y", "http") != ""

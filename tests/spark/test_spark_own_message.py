"""A message that Kafka does not have, all the way: its schema, a client and a broker, a capture, Spark, Wireshark."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire import capture, frames
from kafkawire.cli import main
from kafkawire.messages import REGISTRY
from kafkawire.spark import from_kafka_message, register
from kafkawire.testing import MockBroker
from tests.capture.wiretap import Conversation, ethernet, pcap
from tests.own_schemas import API_KEY, write
from tests.testing.test_testing_mock_broker import Peer
from tests.wireshark import tshark
from tools.recordings import tcpdump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PACKAGE = "own_message_codecs"
WANTED = {"request": {"text": "hällo"}, "response": {"text": "HÄLLO"}}


@pytest.fixture
def codecs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package that the schemas in `my` are checked and generated to."""
    folder = write(tmp_path / "my")
    assert main(["schema", "check", "--schemas", str(folder)]) == 0
    assert main(["schema", "generate", "--schemas", str(folder), "--output", str(tmp_path / PACKAGE)]) == 0
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module(PACKAGE)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def exchanged(codecs: Any, path: Path) -> None:
    """Sends a ping to a broker, and writes the packets of the connection to `path`: as tcpdump records them where it
    is installed and permitted, otherwise made of the bytes of the connection."""
    registry = codecs.REGISTRY.over(REGISTRY)
    broker = MockBroker(registry=registry)
    broker.on(codecs.PingRequest, lambda request: codecs.PingResponse(text=request.text.upper()))
    with broker:
        port = int(broker.address.rpartition(":")[2])
        there = shutil.which("tcpdump") is not None and os.geteuid() == 0
        with tcpdump.recorded(path, port) if there else nullcontext():
            peer = Peer(broker)
            request = frames.encode_request(codecs.PingRequest(text="hällo"), version=1, correlation_id=7)
            peer.socket.sendall(request)
            response = peer.frame()
            assert response is not None
            ends = peer.socket.getsockname(), peer.socket.getpeername()
            peer.socket.close()
    assert [each.body for each in broker.requests] == [codecs.PingRequest(text="hällo")]
    if not there:
        talk = Conversation(*ends).send(0, request).send(1, len(response).to_bytes(4, "big") + response).close()
        path.write_bytes(pcap(map(ethernet, talk.packets)))


def test_own_message_is_equal_all_the_way(codecs: Any, spark: SparkSession, tmp_path: Path, capsysbinary: Any) -> None:
    folder, trace = str(tmp_path / "my"), tmp_path / "trace.pcap"
    exchanged(codecs, trace)

    capsysbinary.readouterr()
    assert main(["capture", str(trace), "--schemas", folder, "--body"]) == 0
    (line,) = capsysbinary.readouterr().out.splitlines()
    row = json.loads(line)
    assert {name: row[name] for name in WANTED} == WANTED
    assert (row["api"], row["api_key"], row["version"]) == ("Ping", API_KEY, 1)
    registry = codecs.REGISTRY.over(REGISTRY)
    (exchange,) = capture.read(trace, registry=registry, keep=True).matched()
    assert (exchange.request, exchange.response) == (
        codecs.PingRequest(text="hällo"), codecs.PingResponse(text="HÄLLO"),
    )  # fmt: skip

    register(spark)
    source = spark.read.format("kafka_pcap").option("schemaDirectory", folder)
    (row,) = source.option("body", "true").load(str(trace)).collect()
    assert {name: json.loads(row[name]) for name in WANTED} == WANTED
    data = spark.createDataFrame([(exchange.response.encode(1),)], "value binary")
    column = from_kafka_message("value", "PingResponse", 1, {"schemaDirectory": folder})
    (value,) = data.select(column.alias("pong")).collect()
    assert value.pong.text == "HÄLLO"

    plugin = tmp_path / "kafkawire.lua"
    assert main(["schema", "emit", "wireshark", "--schemas", folder, "-o", str(plugin)]) == 0
    if tshark.TSHARK is None:
        pytest.skip("all but the last step: tshark is not installed (Debian: apt install tshark)")
    shown = [
        (body.name, [value for key, value in body.pairs if tshark._is(key, "text")])
        for body in tshark.bodies(plugin, trace)
    ]
    assert shown == [("PingRequest", ["hällo"]), ("PingResponse", ["HÄLLO"])]

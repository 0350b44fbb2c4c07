"""`kafkawire mock`: a broker in a process of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.client import Cluster, Config
from kafkawire.messages import MetadataRequest, MetadataResponse
from tests.cli.runner import Run
from tests.client.certificates import make_identity
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.slow


def test_serves_its_topics_until_it_is_terminated() -> None:
    command = [sys.executable, "-m", "kafkawire", "mock", "--listen", "0", "--topic", "orders:3", "--release", "3.9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.endswith(": a broker for tests, in memory\n")
        address = line.removeprefix("listening on ").partition(": ")[0]
        with RawCluster(address) as client:
            answer = client.connection(-1).ask(MetadataRequest(topics=None), 12, MetadataResponse)
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("orders", 3)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_several_nodes_with_tls(tmp_path: Path) -> None:
    identity = make_identity()
    pem = tmp_path / "broker.pem"
    pem.write_text(identity.certificate + identity.key)
    command = [sys.executable, "-m", "kafkawire", "mock", "--listen", "0", "--nodes", "2"]
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": identity.certificate}
    given = trusted | {"security.protocol": "SSL"}

    async def brokers(address: str) -> int:
        async with Cluster(Config.of(address, given)) as cluster:
            return len((await cluster.ask(MetadataRequest(topics=None), timeout_s=30)).brokers)

    with subprocess.Popen([*command, "--tls-certificate", str(pem)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        addresses = process.stdout.readline().removeprefix("listening on ").partition(": ")[0]
        assert [asyncio.run(brokers(address)) for address in addresses.split(",")] == [2, 2]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--tls-certificate", __file__), "--tls-certificate "),
        (("--nodes", "0"), "--nodes"),
        (("--topic", "orders:x"), "'orders:x' is not of the form NAME[:PARTITIONS]"),
        (("--topic", "a b"), "topic 'a b' with 1 partitions: INVALID_TOPIC_EXCEPTION"),
        (("--topic", "orders:999999999"), "INVALID_PARTITIONS"),
        (("--release", "1.0"), "no versions are known of release '1.0'"),
        (("--listen", "here"), "'here' is not of the form [HOST:]PORT"),
    ],
)
def test_wrong_option_is_a_usage_error(run: Run, arguments: tuple[str, ...], text: str) -> None:
    result = run("mock", *arguments)
    assert result.code == 2
    assert text in result.err


def test_address_that_cannot_be_used_is_one_line(run: Run) -> None:
    result = run("mock", "--listen", "192.0.2.1:9")
    assert result.code == 1
    assert result.err.startswith("error: --listen 192.0.2.1:9: ")

"""`kafkawire proxy`: a proxy in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire import capture
from kafkawire.messages import MetadataRequest, MetadataResponse
from kafkawire.testing import MockBroker
from tests.cli.harmless import harmless
from tests.cli.runner import Run
from tools.recordings.raw_client import RawCluster


@pytest.mark.slow
def test_passes_and_records_until_it_is_terminated(tmp_path: Path) -> None:
    path = tmp_path / "all.pcapng"
    with MockBroker({"orders": 3}) as broker:
        command = [sys.executable, "-m", "kafkawire", "proxy", "--bootstrap-server", broker.address, "--listen", "0"]
        command += ["--record", str(path), "--api", "Metadata", "--delay-ms", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.endswith(f" for {broker.address}: for tests, debugging and recording\n")
            address = line.removeprefix("listening on ").partition(" ")[0]
            with RawCluster(address) as client:
                answer = client.connection(-1).ask(MetadataRequest(topics=None), 12, MetadataResponse)
            assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("orders", 3)]
            assert f"{answer.brokers[0].host}:{answer.brokers[0].port}" == address
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 143
            assert process.stderr is not None
            assert process.stderr.read() == ""
    assert "Metadata" in [row.api for row in capture.read(path)]


@pytest.mark.slow
def test_its_line_is_harmless_whatever_the_cluster_is_called() -> None:
    command = [sys.executable, "-m", "kafkawire", "proxy", "--bootstrap-server", "\x1b[2J:1", "--listen", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert " for \\x1b[2J:1: for tests" in line
    assert harmless(line)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--api", "Produce"), "--api, --topic and --rate select for a fault"),
        (("--api", "Produc", "--delay-ms", "5"), "--api: no message is named 'ProducRequest'; near: ProduceRequest"),
        (("--error", "NO_SUCH"), "--error: no error code is named NO_SUCH"),
        (("--drop", "all"), "drop='all'"),
        (("--rate", "2", "--delay-ms", "5"), "rate=2.0: above 0 and at most 1"),
        (("--drop", "request", "--error", "6"), "drop and error exclude each other"),
        (("--listen", "here"), "'here' is not of the form [HOST:]PORT"),
    ],
)
def test_wrong_option_is_a_usage_error(run: Run, arguments: tuple[str, ...], text: str) -> None:
    result = run("proxy", "--bootstrap-server", "127.0.0.1:1", *arguments)
    assert result.code == 2
    assert text in result.err


def test_wrong_place_is_one_line(run: Run, tmp_path: Path) -> None:
    assert "'a' is not of the form HOST:PORT" in run("proxy", "--bootstrap-server", "a").err
    result = run("proxy", "--bootstrap-server", "127.0.0.1:1", "--listen", "192.0.2.1:9")
    assert (result.code, result.err[:29]) == (1, "error: --listen 192.0.2.1:9: ")
    missing = tmp_path / "none" / "x.pcapng"
    result = run("proxy", "--bootstrap-server", "127.0.0.1:1", "--listen", "0", "--record", missing)
    assert (result.code, result.err) == (1, f"error: {missing}: No such file or directory\n")
    (tmp_path / "bad.pem").write_text("no certificate")
    result = run("proxy", "--bootstrap-server", "127.0.0.1:1", "--tls-certificate", tmp_path / "bad.pem")
    assert result.code == 2
    assert "--tls-certificate" in result.err

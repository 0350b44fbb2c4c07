"""tools.broker: the cluster really runs, really stops, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.messages import ApiVersionsRequest, ApiVersionsResponse
from tests.broker_fixture import StartCluster
from tools.broker import BrokerStartError, BrokerUnavailableError, RunningCluster, cluster, jars, probe
from tools.broker.__main__ import app
from tools.broker.cluster import free_ports
from tools.broker.java_process import HOST, BrokerNode
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


# --- without Kafka ---------------------------------------------------------------------------------------------------


@contextmanager
def answering(response: bytes) -> Iterator[int]:
    """A server that sends `response` to every client, whatever it requests; its port."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(1000)
                    peer.sendall(response)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def framed(body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, 1) + body


def test_probe_reads_api_versions() -> None:
    with answering(framed(bytes.fromhex("0000 00000002 0000 0003 000d 0012 0000 0004"))) as port:
        assert probe.api_versions(HOST, port) == {0: (3, 13), 18: (0, 4)}


def test_probe_reads_brokers_with_and_without_a_rack() -> None:
    brokers = struct.pack(">iih2sih", 2, 1, 2, b"ab", 9092, -1) + struct.pack(">ih1sih3s", 7, 1, b"c", 9093, 3, b"xyz")
    with answering(framed(brokers + struct.pack(">ii", 1, 0))) as port:
        assert probe.registered_brokers(HOST, port) == {1: ("ab", 9092), 7: ("c", 9093)}


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(b"", id="closed"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="another protocol"),
        pytest.param(struct.pack(">ii", 100, 1), id="cut short"),
        pytest.param(framed(struct.pack(">hi", 35, 0)), id="an error code"),
    ],
)
def test_probe_reports_why_a_peer_is_not_ready(response: bytes) -> None:
    with answering(response) as port, pytest.raises(OSError):
        probe.api_versions(HOST, port)


def test_free_ports_differ_and_are_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server((HOST, port)):
            pass


def test_free_ports_skips_ports_in_use() -> None:
    for _ in range(3):
        assert free_ports(1, without=range(12_000, 31_999)) == [31_999]


def test_properties_round_trip_through_javas_escapes(tmp_path: Path) -> None:
    node = BrokerNode(1, tmp_path / "node-1", 1, 2)
    node.write_properties({"a.b": "C:\\x", "motd": "zwei\nZeilen, für Ω"})
    assert node.properties_file.read_bytes() == b"a.b=C:\\\\x\nmotd=zwei\\nZeilen, f\\u00fcr \\u03a9\n"


def test_log_tail_is_the_end_of_the_log(tmp_path: Path) -> None:
    node = BrokerNode(1, tmp_path, 1, 2)
    assert node.log_tail() == ""
    node.log_file.write_text("".join(f"line {i}\n" for i in range(100_000)))
    assert node.log_tail(3) == "line 99997\nline 99998\nline 99999"


def test_missing_java_makes_a_cluster_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerUnavailableError, match="no java"), cluster():
        pass


def test_old_java_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerUnavailableError, match="is Java 8: Kafka needs Java 17"):
        jars.java()


#: Of a script in the place of Maven: writes a jar into the requested folder.
_WRITE_JAR = 'for word; do case $word in -DoutputDirectory=*) : > "${word#*=}/kafka.jar";; esac; done\n'


def fake_maven(folder: Path, script: str) -> None:
    (folder / "mvn").write_text("#!/bin/sh\n" + script)
    (folder / "mvn").chmod(0o755)


def test_missing_maven_makes_jars_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerUnavailableError, match="no mvn in PATH"):
        jars.broker_jars(cache=tmp_path)


def test_failing_maven_leaves_no_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_maven(tmp_path, f"{_WRITE_JAR}echo '[ERROR] the registry is away'; exit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(BrokerUnavailableError, match="the registry is away"):
        jars.broker_jars(cache=tmp_path / "cache")
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_jars_are_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_maven(tmp_path, f'echo "$@" > "$(dirname "$0")/asked"; {_WRITE_JAR}')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    folder = jars.broker_jars("9.9.9", cache=tmp_path / "cache")
    assert [p.name for p in folder.iterdir()] == ["kafka.jar"]
    assert "-Dkafka.version=9.9.9" in (tmp_path / "asked").read_text()
    (tmp_path / "mvn").unlink()
    (tmp_path / "asked").unlink()
    assert jars.broker_jars("9.9.9", cache=tmp_path / "cache") == folder
    assert list(folder.parent.iterdir()) == [folder]


def test_libraries_with_all_that_they_need_are_one_pom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_maven(tmp_path, f'cat pom.xml >> "$(dirname "$0")/poms"; {_WRITE_JAR}')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("KAFKAWIRE_CACHE", str(tmp_path / "cache"))
    folder = jars.resolved_jars("group:streams:1.0", "group:files:2.0")
    assert jars.resolved_jars("group:streams:1.0", "group:files:2.0") == folder
    assert jars.resolved_jars("group:streams:1.0") != folder
    assert folder.name.startswith("streams-1.0-")
    poms = (tmp_path / "poms").read_text().split("</project>")[:-1]
    assert ["<artifactId>files</artifactId><version>2.0</version>" in pom for pom in poms] == [True, False]


def test_refuses_an_existing_folder(start_cluster: StartCluster, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(FileExistsError), start_cluster(folder=tmp_path):
        pass
    assert (tmp_path / "mine").read_text() == "x"


# --- with Kafka ------------------------------------------------------------------------------------------------------


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.broker
def test_one_node_serves_requests(broker: RunningCluster) -> None:
    node = broker.node(1)
    assert broker.bootstrap == node.address
    assert probe.registered_brokers(HOST, node.port) == {1: (HOST, node.port)}
    versions = probe.api_versions(HOST, node.port)
    assert {18, 61, 65, 66} <= versions.keys(), "ApiVersions, DescribeProducers, DescribeTransactions, ListTransactions"
    assert (broker.log_dirs[1] / "meta.properties").is_file()
    with pytest.raises(KeyError, match="no node 2"):
        broker.node(2)


@pytest.mark.broker
def test_old_release_runs_with_zookeeper(start_cluster: StartCluster) -> None:
    """That 3.9.1 runs, without it, tests/client sees."""
    with start_cluster(version="2.8.2") as running:
        assert probe.api_versions(HOST, running.node(1).port)[0] == (0, 9)
        assert (running.node(1).folder.parent / "zookeeper").is_dir()
        assert running.stop(), "nodes stop by themselves"
        assert (running.log_dirs[1] / ".kafka_cleanshutdown").exists()
        root = running.node(1).folder.parent
    assert not root.exists()


def test_rejects_a_release_without_a_number(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailableError, match="'newest' is no release"):
        jars.broker_jars("newest", cache=tmp_path)


@pytest.mark.broker
def test_config_and_feature_levels_reach_the_broker_and_a_kept_folder_is_closed_cleanly(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

    config = {"transaction.state.log.num.partitions": 3, "transaction.partition.verification.enable": False}
    levels = {"transaction.version": 0}
    with start_cluster(config=config, feature_levels=levels, folder=tmp_path / "kept", keep=True) as running:
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        found = admin.describe_configs([resource])[resource].result(timeout=20)
        assert found["transaction.state.log.num.partitions"].value == "3"
        assert found["transaction.partition.verification.enable"].value == "false"
        assert 22 in probe.api_versions(HOST, running.node(1).port)
        with RawCluster(running.bootstrap) as wire:
            body = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
            answer = wire.connection(-1).ask(body, 4, ApiVersionsResponse)
        log_dir = running.log_dirs[1]
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert finalized.get("transaction.version", 0) == 0
    assert finalized["metadata.version"] > 0
    assert (log_dir / ".kafka_cleanshutdown").exists()
    assert {p.name for p in log_dir.iterdir()} >= {"meta.properties", "recovery-point-offset-checkpoint"}
    libs = jars.broker_jars()
    assert list(libs.parent.glob(f"{libs.name}-kafka.Kafka-*.jsa")), "classes for the next start"
    assert list(libs.parent.glob(f"{libs.name}-storage-*")), "a formatted log directory for the next start"


@pytest.mark.broker
def test_three_nodes_stop_restart_and_clean_up(start_cluster: StartCluster) -> None:
    with start_cluster(3) as running:
        everyone = {node.node_id: (HOST, node.port) for node in running.nodes}
        for node in running.nodes:
            assert probe.registered_brokers(HOST, node.port) == everyone
        metas = [(log_dir / "meta.properties").read_text() for log_dir in running.log_dirs.values()]
        assert [f"node.id={number}\n" in meta for number, meta in enumerate(metas, 1)] == [True] * 3
        assert len({re.findall("(?m)^cluster.id=(.*)$", meta)[0] for meta in metas}) == 1
        assert len({re.findall("(?m)^directory.id=(.*)$", meta)[0] for meta in metas}) == 3
        pids = [node.process.pid for node in running.nodes if node.process is not None]
        assert len(pids) == 3
        assert running.stop_node(2), "a node of a cluster with a quorum stops by itself"
        assert (running.log_dirs[2] / ".kafka_cleanshutdown").exists()
        with pytest.raises(OSError):
            probe.api_versions(HOST, running.node(2).port)
        running.start_node(2)
        assert probe.registered_brokers(HOST, running.node(1).port) == everyone
        with pytest.raises(BrokerStartError, match="node 2 is running already"):
            running.start_node(2)
        running.kill_node(3)
        assert not (running.log_dirs[3] / ".kafka_cleanshutdown").exists()
        root = running.node(1).folder.parent
    assert not root.exists()
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.broker
def test_invalid_config_fails_at_once_with_kafkas_error(start_cluster: StartCluster, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    with (
        pytest.raises(BrokerStartError, match=r"(?s)node 1.*no.such.Class") as error,
        start_cluster(folder=folder, config={"authorizer.class.name": "no.such.Class"}, ready_timeout=60),
    ):
        pass
    assert "not ready in" not in str(error.value)
    assert folder.exists(), "kept, to be looked into"


@pytest.mark.broker
def test_cluster_that_cannot_form_reports_node_and_time(start_cluster: StartCluster) -> None:
    # A voter that does not exist: no quorum of two, so the node runs and never becomes ready.
    config = {"controller.quorum.voters": f"1@{HOST}:{free_ports(1)[0]},2@{HOST}:1"}
    with (
        pytest.raises(BrokerStartError, match=r"not ready in 10 s: node 1 ") as error,
        start_cluster(config=config, ready_timeout=10),
    ):
        pass
    assert "--- node 1, " in str(error.value)
    root = Path(str(error.value).split("--- node 1, ")[1].split("\n")[0]).parents[1]
    for path in sorted(root.rglob("*"), reverse=True):  # it was kept; not for us
        path.rmdir() if path.is_dir() else path.unlink()
    root.rmdir()


@pytest.mark.broker
@pytest.mark.usefixtures("terminal_signals")
def test_command_prints_its_address_and_stops_on_ctrl_c(broker: RunningCluster, tmp_path: Path) -> None:
    del broker  # Kafka's jars are here, else this test is skipped
    folder = tmp_path / "cluster"
    command = [sys.executable, "-m", "tools.broker", "--folder", str(folder), "--config", "num.partitions=3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().partition(":")
        assert 18 in probe.api_versions(host, int(port))
        assert "num.partitions=3\n" in (folder / "node-1" / "server.properties").read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    with pytest.raises(OSError):
        probe.api_versions(host, int(port))
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "novalue"], "'novalue' is not of the form KEY=VALUE"),
        (["--feature", "transaction.version=two"], "a level is a number"),
        (["--nodes", "0"], "Invalid value for '--nodes'"),
    ],
)
def test_command_rejects_invalid_options(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        app(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err

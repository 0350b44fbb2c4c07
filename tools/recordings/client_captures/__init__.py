"""Captures of clients of several generations, with the broker's own log of their requests (kafka.request.logger).

Each client creates a topic where it can, writes records (compressed), commits and aborts a transaction where it can,
reads the records with a consumer group, and commits its offsets. For each there is `NAME.pcap`, and in `truth.json` the
requests that the broker has logged of its connections: api key, version, correlation id and client id.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tools.broker import RunningCluster, cluster

from ..clients import create_topics
from ..errors import RecordingError
from ..tcpdump import packets, recorded
from .environments import Commands, java, librdkafka, node, python

NAME = "client-captures"
_RECORDS = 120
_TIMEOUT_S = 120
_PORT = 9092
_CONFIG = {
    "auto.create.topics.enable": "true",
    "num.partitions": 2,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}


class Client(NamedTuple):
    """A client library: its name, the release of the broker it speaks to, what runs it, and whether it makes topics."""

    name: str
    broker: str
    commands: Commands
    creates: bool = True


CLIENTS = (
    Client("librdkafka-0.9.4", "3.9.1", librdkafka("node-rdkafka@0.8.0"), creates=False),
    Client("librdkafka-1.2.2", "3.9.1", librdkafka("node-rdkafka@2.7.4"), creates=False),
    Client("confluent-kafka-2.0.2", "3.9.1", python("confluent_client.py", "confluent-kafka==2.0.2")),
    Client("kafka-python-1.4.7", "3.9.1", python("kafka_python_client.py", "kafka-python==1.4.7")),
    Client("kafkajs-1.4.6", "3.9.1", node("kafkajs_client.js", "kafkajs@1.4.6")),
    Client("kafkajs-2.2.4", "3.9.1", node("kafkajs_client.js", "kafkajs@2.2.4")),
    Client("java-0.11.0.3", "3.9.1", java("0.11.0.3")),
    Client("java-1.1.1", "3.9.1", java("1.1.1")),
    Client("java-2.4.1", "3.9.1", java("2.4.1")),
    Client("java-3.9.1", "3.9.1", java("3.9.1")),
    Client("confluent-kafka-2.16.1", "4.4.0", python("confluent_client.py")),
    Client("kafka-python-3.0.12", "4.4.0", python("kafka_python_client.py")),
    Client("aiokafka-0.14.0", "4.4.0", python("aiokafka_client.py")),
    Client("java-4.4.0", "4.4.0", java("4.4.0")),
    Client("java-4.4.0-consumer-protocol", "4.4.0", java("4.4.0", "consumer")),
)


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes a capture of each client, and `truth.json`, in `folder`. Port 9092 has to be free."""
    truth: dict[str, Any] = {}
    for broker in sorted({client.broker for client in CLIENTS}):
        loggers = {"kafka.request.logger": "debug"}
        with cluster(1, config=_CONFIG, version=broker, port=_PORT, loggers=loggers, cache=cache) as running:
            for client in CLIENTS:
                if client.broker == broker:
                    truth[client.name] = _recorded(client, running, folder / f"{client.name}.pcap")
    (folder / "truth.json").write_text(json.dumps(truth, indent=1, sort_keys=True), encoding="utf-8")


def _recorded(client: Client, running: RunningCluster, path: Path) -> dict[str, Any]:
    """Records one client; the release of its broker, and the requests of each of its ports."""
    commands = client.commands(running.bootstrap, client.name, _RECORDS)  # fetches what is not there yet
    if not client.creates:
        create_topics(running.bootstrap, {client.name: 2}, replicas=1, config={})
    log = running.nodes[0].log_file
    before = log.stat().st_size
    with recorded(path, _PORT):
        for command in commands:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
            except subprocess.TimeoutExpired:
                raise RecordingError(f"{client.name}: not done in {_TIMEOUT_S} s") from None
            if done.returncode:
                raise RecordingError(f"{client.name}: {(done.stderr or done.stdout).strip()[-400:]}")
    ports = {port for packet in packets(path) for port in (packet.source, packet.destination)} - {_PORT}
    # Requests are logged before their responses are sent. A fetch that waits when its client leaves is logged late.
    requests = _of_ports(log, before, ports)
    return {"broker": client.broker, "requests": requests}


def _of_ports(log: Path, start: int, ports: set[int]) -> Mapping[int, list[list[Any]]]:
    found: dict[int, list[list[Any]]] = defaultdict(list)
    for port, *request in _logged(log.read_bytes()[start:].decode(errors="replace")):
        if port in ports:
            found[port].append(request)
    return dict(found)


def _logged(text: str) -> Iterator[tuple[int, int, int, int, str | None]]:
    """Of each request in a broker's log: the client's port, api key, version, correlation id and client id."""
    for line in text.splitlines():
        if (found := re.search(r"Completed request:(\{.*\}) \(kafka\.", line)) is not None:
            request = json.loads(found[1])
            header = request["requestHeader"]
            port = int(re.sub(r"-\d+(-\d+)?$", "", request["connection"].split("-", 1)[1]).rpartition(":")[2])
            yield (
                port,
                header["requestApiKey"],
                header["requestApiVersion"],
                header["correlationId"],
                header.get("clientId"),
            )

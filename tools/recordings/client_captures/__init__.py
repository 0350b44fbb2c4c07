"""Captures of clients of several generations and of frameworks, with the broker's log of what they asked.

Each client creates a topic where it can, writes records (compressed), commits and aborts a transaction where it can,
reads the records with a consumer group, and commits its offsets. For each there is `NAME.pcap`, and in `truth.json` the
requests that the broker has logged of its connections (kafka.request.logger): api key, version, correlation id and
client id.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.broker import RunningCluster, cluster

from .. import run
from ..clients import create_topics
from ..tcpdump import packets, recorded
from .environments import Commands, framework, go, java, librdkafka, node, python, rust, spring

_RECORDS = 120
_TIMEOUT_S = 120
#: A fetch that waits when its client leaves is logged when it is over.
_LATE_S = 8.0
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
APPLICATIONS = (
    Client("streams-4.4.0", "4.4.0", framework("streams")),
    Client("streams-4.4.0-streams-protocol", "4.4.0", framework("streams-protocol")),
    Client("mirror-maker-4.3.1", "4.4.0", framework("mirror-maker")),
    Client("connect-4.3.1", "4.4.0", framework("connect")),
    Client("spring-kafka-4.1.2", "4.4.0", spring()),
    Client("sarama-1.61.1", "4.4.0", go("sarama")),
    Client("franz-go-1.22.3", "4.4.0", go("franz-go")),
    Client("segmentio-0.4.51", "4.4.0", go("segmentio")),
    Client("rust-rdkafka-0.39.0", "4.4.0", rust()),
    Client("node-rdkafka-3.6.1", "4.4.0", node("node_rdkafka_client.js", "node-rdkafka@3.6.1", compiled=True)),
)
#: Name of an archive -> the clients that are in it.
ARCHIVES = {"client-captures": CLIENTS, "application-captures": APPLICATIONS}


def record(clients: Sequence[Client], folder: Path, cache: Path | None = None) -> None:
    """Makes a capture of each client, and `truth.json`, in `folder`. Port 9092 has to be free."""
    truth: dict[str, Any] = {}
    for broker in sorted({client.broker for client in clients}):
        loggers = {"kafka.request.logger": "debug"}
        with cluster(1, config=_CONFIG, version=broker, port=_PORT, loggers=loggers, cache=cache) as running:
            log = running.nodes[0].log_file
            ends = {}
            for client in clients:
                if client.broker == broker:
                    _record(client, running, folder / f"{client.name}.pcap")
                    ends[client.name] = log.stat().st_size
            time.sleep(_LATE_S)
            ports = {name: _ports(folder / f"{name}.pcap") for name in ends}
            for name, requests in _requests(log.read_bytes(), ends, ports).items():
                truth[name] = {"broker": broker, "requests": requests}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1, sort_keys=True), encoding="utf-8")


def _record(client: Client, running: RunningCluster, path: Path) -> None:
    commands = client.commands(running.bootstrap, client.name, _RECORDS)  # fetches what is not there yet
    if not client.creates:
        create_topics(running.bootstrap, {client.name: 2})
    with recorded(path, _PORT):
        for command in commands:
            run(command, client.name, seconds=_TIMEOUT_S)


def _ports(path: Path) -> set[int]:
    """Of the client, in its capture."""
    return {port for packet in packets(path) for port in (packet.source, packet.destination)} - {_PORT}


def _requests(
    log: bytes, ends: Mapping[str, int], ports: Mapping[str, set[int]]
) -> dict[str, dict[int, list[list[Any]]]]:
    """Of each client the requests by port, as the broker has logged them.

    Args:
        ends: bytes of the log when each was done, in their order. `ports`: in the capture of each; the broker's own
            connections are in several.
    """
    found: dict[str, dict[int, list[list[Any]]]] = {}
    start, names = 0, list(ends)
    for number, (name, end) in enumerate(ends.items()):
        later = set[int]().union(*(ports[one] for one in names[number + 1 :]))
        requests = found[name] = defaultdict(list)
        for part, wanted in ((log[start:end], ports[name]), (log[end:], ports[name] - later)):
            for port, *request in _logged(part.decode(errors="replace")):
                if port in wanted:
                    requests[port].append(request)
        start = end
    return found


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

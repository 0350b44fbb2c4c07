"""Frameworks on Kafka's Java clients: Kafka Streams, MirrorMaker 2, Connect and Spring, each as a process.

Their jars are fetched with Maven. `python -m tools.recordings.frameworks NAME BOOTSTRAP TOPIC RECORDS` runs one
until it has processed so many records.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tools.broker import jars
from tools.broker.cluster import free_ports
from tools.broker.java_process import HOST, JavaProcess
from tools.polling import until

from .. import RecordingError

STREAMS_VERSION = "4.4.0"
#: The newest that the registry has of MirrorMaker 2 and Connect's connectors of files.
CONNECT_VERSION = "4.3.1"
SPRING_VERSION = "4.1.2"
#: In MirrorMaker 2, the alias of the cluster that it reads: in front of the names of mirrored topics.
SOURCE = "source"

_HERE = Path(__file__).parent
_STOP_S = _START_S = 60.0
#: One broker, one partition each.
_SMALL = {
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
    "offset.flush.interval.ms": "500",
}


class Framework(JavaProcess):
    """A running framework."""

    def stop(self) -> None:
        """Ends it cleanly. Raises RecordingError if it does not end."""
        self.terminate()
        if not self.wait_stopped(_STOP_S):
            raise RecordingError(f"{self.folder.name} does not end: {self.log_tail()}")


@contextlib.contextmanager
def _running(
    folder: Path, artifacts: tuple[str, ...], main: str, *arguments: str, of: Mapping[str, str]
) -> Iterator[Framework]:
    framework = Framework(folder)
    framework.write_properties(of, log_level="warn")
    java, *command = framework.java_command(jars.java(), jars.resolved_jars(*artifacts), "256m", main, *arguments)
    framework.process = framework.spawn([java, f"-Djava.io.tmpdir={folder}", *command])
    try:
        yield framework
    finally:
        framework.kill()


@contextlib.contextmanager
def streams(
    folder: Path, bootstrap: str, topic: str, output: str, *, protocol: str = "classic", records: int = 0
) -> Iterator[Framework]:
    """Kafka Streams (`Streams.java`), whose application id is `counts-TOPIC`.

    Args:
        folder: is made: its state. `topic`, `output`: what it reads and writes. `protocol`: classic, or streams.
        records: 0: it runs until it is stopped; otherwise it makes its topics and so many records, and ends with them.
    """
    arguments = (bootstrap, f"counts-{topic}", topic, output, protocol, str(records))
    artifacts = (f"org.apache.kafka:kafka-streams:{STREAMS_VERSION}",)
    with _running(folder, artifacts, str(_HERE / "Streams.java"), *arguments, of={}) as framework:
        yield framework


@contextlib.contextmanager
def mirror_maker(folder: Path, bootstrap: str, topic: str) -> Iterator[Framework]:
    """MirrorMaker 2 (its own process, exactly once), from a cluster to the same one: `topic` to `source.topic`."""
    (port,) = free_ports(1)
    properties = {
        "clusters": f"{SOURCE}, target",
        f"{SOURCE}.bootstrap.servers": bootstrap,
        "target.bootstrap.servers": bootstrap,
        f"{SOURCE}->target.enabled": "true",
        f"{SOURCE}->target.topics": topic,
        f"target->{SOURCE}.emit.heartbeats.enabled": "false",
        "target.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://{HOST}:{port}",
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "tasks.max": "1",
        **_SMALL,
    }
    artifacts = (f"org.apache.kafka:connect-mirror:{CONNECT_VERSION}",)
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    with _running(folder, artifacts, main, str(folder / "server.properties"), of=properties) as framework:
        yield framework


@contextlib.contextmanager
def connect(
    folder: Path, bootstrap: str, group: str, connectors: Mapping[str, Mapping[str, str]]
) -> Iterator[Framework]:
    """A distributed worker of Connect with connectors, whose sources write in transactions.

    Args:
        folder: is made. `group`: its group, and in front of the names of its topics.
        connectors: name -> configuration.
    """
    (port,) = free_ports(1)
    string = "org.apache.kafka.connect.storage.StringConverter"
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "key.converter": string,
        "value.converter": string,
        "listeners": f"http://{HOST}:{port}",
        "exactly.once.source.support": "enabled",
        **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
        **_SMALL,
    }
    artifacts = tuple(f"org.apache.kafka:connect-{part}:{CONNECT_VERSION}" for part in ("runtime", "file"))
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    with _running(folder, artifacts, main, str(folder / "server.properties"), of=properties) as framework:
        for name, config in connectors.items():
            body = json.dumps({"name": name, "config": dict(config)}).encode()
            until(partial(_created, framework, port, body), f"connector {name}", seconds=_START_S)
        yield framework


def _created(framework: Framework, port: int, body: bytes) -> bool:
    """Whether a worker, which may not be ready, has made a connector."""
    if not framework.running:
        raise RecordingError(f"Connect has ended: {framework.log_tail()}")
    request = urllib.request.Request(
        f"http://{HOST}:{port}/connectors", body, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=10):
            return True
    except urllib.error.HTTPError as e:
        if e.code not in (404, 409, 500, 503):  # still starting, or a rebalance
            raise RecordingError(f"Connect: {e.code}: {e.read().decode(errors='replace')[:300]}") from None
    except OSError:
        pass
    time.sleep(0.3)
    return False


def spring_command() -> list[str]:
    """The application with Spring (`Spring.java`), which is given BOOTSTRAP TOPIC RECORDS."""
    folder = jars.resolved_jars(f"org.springframework.kafka:spring-kafka:{SPRING_VERSION}")
    return [jars.java(), "-cp", str(folder / "*"), str(_HERE / "Spring.java")]

"""A real Kafka cluster in a temporary folder, on loopback, for as long as a `with` block runs."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import jars, orphans, probe, properties
from .errors import BrokerStartError
from .java_process import HOST, BrokerNode, JavaProcess, ZooKeeper
from .storage import ClassArchive, StorageTemplate, random_uuid

READY_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
#: The node id of the first controller that is no broker.
FIRST_CONTROLLER = 101
_FORMAT, _BROKER = "kafka.tools.StorageTool", "kafka.Kafka"
# Below the range from which systems take the ports of outgoing connections: a stopped node finds its port free again.
_PORTS = range(12_000, 32_000)


@dataclass(eq=False)
class RunningCluster:
    """Running nodes. Node ids count from 1, those of controllers that are no brokers from 101. Made by `cluster()`."""

    nodes: tuple[BrokerNode, ...]
    _java: str
    _jars: Path
    _heap: str
    _java_options: Sequence[str]
    _ready_timeout: float
    _zookeeper: ZooKeeper | None = None
    #: The nodes that are controllers alone.
    controllers: tuple[BrokerNode, ...] = ()
    _dynamic_quorum: bool = False

    @property
    def every_node(self) -> tuple[BrokerNode, ...]:
        """The controllers that are no brokers, and the brokers."""
        return (*self.controllers, *self.nodes)

    @property
    def _archive(self) -> ClassArchive:
        """Of a broker's classes. Node 1 of the first cluster writes it when it ends."""
        return ClassArchive(self._java, self._jars, _BROKER)

    @property
    def _new_archive(self) -> Path:
        return self.nodes[0].folder / "classes.jsa"

    @property
    def bootstrap(self) -> str:
        """All nodes as "host:port,host:port,...": a client's `bootstrap.servers`."""
        return ",".join(node.address for node in self.nodes)

    @property
    def log_dirs(self) -> dict[int, Path]:
        """The log directory of each node, by node id."""
        return {node.node_id: node.log_dir for node in self.nodes}

    def node(self, node_id: int) -> BrokerNode:
        """The node with that id. Raises KeyError."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise KeyError(f"no node {node_id}: the cluster has nodes 1 to {len(self.nodes)}")

    def start_node(self, node_id: int) -> None:
        """Starts a stopped node and waits until every running node is ready."""
        self._launch(self.node(node_id))
        self.wait_ready()

    def stop_node(self, node_id: int, *, timeout: float = STOP_TIMEOUT_S) -> bool:
        """Stops a node with SIGTERM, kills it after `timeout` seconds. True if it stopped by itself."""
        node = self.node(node_id)
        node.terminate()
        return node.wait_stopped(timeout)

    def kill_node(self, node_id: int) -> None:
        """Kills a node as a power cut would: index tails stay preallocated, no clean-shutdown file."""
        self.node(node_id).kill()

    def restart_node(self, node_id: int) -> bool:
        """Stops and starts a node. True if the stop was clean."""
        clean = self.stop_node(node_id)
        self.start_node(node_id)
        return clean

    def stop(self, *, timeout: float = STOP_TIMEOUT_S) -> bool:
        """Stops every node, at the same time. True if all stopped by themselves."""
        with contextlib.ExitStack() as afterwards:
            if self._zookeeper:
                afterwards.callback(self._zookeeper.kill)
            for node in self.every_node:
                afterwards.callback(node.kill)
            deadline = time.monotonic() + timeout
            # All brokers at once, and controllers after them: a broker that stops cleanly needs a quorum to permit it.
            stopped = []
            for nodes in (self.nodes, self.controllers):
                for node in nodes:
                    node.terminate()
                stopped += [node.wait_stopped(max(0.0, deadline - time.monotonic())) for node in nodes]
            return all(stopped)

    def start(self, version: str | None = None) -> None:
        """Starts all nodes again after `stop` or `kill`. `version`: the release from now on; the same by default."""
        if version is not None:
            self._jars = jars.broker_jars(version)
        for node in self.every_node:
            self._launch(node)
        self.wait_ready()

    def kill_nodes(self) -> None:
        """Kills every node, but not ZooKeeper."""
        for node in self.every_node:
            node.kill()

    def kill(self) -> None:
        """Kills every node, and ZooKeeper."""
        self.kill_nodes()
        if self._zookeeper:
            self._zookeeper.kill()

    def wait_ready(self) -> None:
        """Returns when every running node answers ApiVersions and names every running node as registered.

        Raises BrokerStartError when a node ends or the time is over.
        """
        running = [node for node in self.nodes if node.process is not None]
        expected = {node.node_id for node in running}
        deadline = time.monotonic() + self._ready_timeout
        while True:
            for node in running:
                if not node.running:
                    self._fail(f"node {node.node_id} has ended")
            waiting = {node.node_id: why for node in running if (why := _missing(node, expected)) is not None}
            if not waiting:
                return
            if time.monotonic() > deadline:
                reasons = "; ".join(f"node {i} {why}" for i, why in waiting.items())
                self._fail(f"not ready in {self._ready_timeout:g} s: {reasons}")
            time.sleep(0.1)

    def _launch(self, node: BrokerNode) -> None:
        if node.running:
            raise BrokerStartError(f"node {node.node_id} is running already")
        java, *arguments = node.java_command(self._java, self._jars, self._heap, _BROKER, str(node.properties_file))
        # An agent changes classes as they are loaded.
        part = self._new_archive if node is self.nodes[0] else None
        shared = [] if self._java_options else self._archive.options(part)
        node.process = node.spawn([java, *self._java_options, *shared, *arguments])

    def _format(self, config: Mapping[str, object], feature_levels: Mapping[str, int]) -> None:
        """Makes every node's log directory: as a copy of what the storage tool made once, where that will do."""
        cluster_id = random_uuid()
        usual = not self._dynamic_quorum and not self.controllers and len(self.nodes[0].log_dirs) == 1
        template = StorageTemplate(self._jars, feature_levels) if usual and StorageTemplate.fits(config) else None
        if template and template.exists:
            for node in self.nodes:
                template.copy(node.log_dir, node_id=node.node_id, cluster_id=cluster_id)
            return
        self._format_with_tool(cluster_id, feature_levels)
        if template:
            template.keep(self.nodes[0].log_dir)

    def _format_with_tool(self, cluster_id: str, feature_levels: Mapping[str, int]) -> None:
        features = [f"--feature={name}={level}" for name, level in feature_levels.items()]
        voters = self._initial_voters() if self._dynamic_quorum else []
        running: list[tuple[BrokerNode, subprocess.Popen[bytes]]] = []
        try:
            for node in self.every_node:
                votes = not self.controllers or node in self.controllers
                arguments = ["format", "-t", cluster_id, "-c", str(node.properties_file), *features]
                arguments += voters if votes else []
                java, *rest = node.java_command(self._java, self._jars, "128m", _FORMAT, *arguments)
                running.append((node, node.spawn([java, *self._archive.options(), *rest])))
            for node, process in running:
                if process.wait(self._ready_timeout) != 0:
                    self._fail(f"node {node.node_id}'s folder could not be formatted")
        except subprocess.TimeoutExpired:
            self._fail(f"formatting takes longer than {self._ready_timeout:g} s")
        finally:
            for _, process in running:
                process.kill()
                process.wait()
                orphans.forget(process.pid)

    def _initial_voters(self) -> list[str]:
        """The option of the storage tool that names the voters (KIP-853)."""
        nodes = self.controllers or self.nodes
        if len(nodes) == 1:
            return ["--standalone"]
        return ["--initial-controllers", ",".join(f"{n.node_id}@{n.controller_address}:{random_uuid()}" for n in nodes)]

    def _start(self, config: Mapping[str, object], feature_levels: Mapping[str, int]) -> None:
        if self._zookeeper:
            main, file = "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self._zookeeper.properties_file)
            java, *rest = self._zookeeper.java_command(self._java, self._jars, "128m", main, file)
            # Brokers wait for it by themselves.
            self._zookeeper.process = self._zookeeper.spawn([java, *self._archive.options(), *rest])
        else:
            self._format(config, feature_levels)
        self.start()

    def _fail(self, what: str) -> None:
        processes: list[tuple[str, JavaProcess]] = [(f"node {node.node_id}", node) for node in self.every_node]
        processes += [("zookeeper", self._zookeeper)] if self._zookeeper else []
        tails = "".join(f"\n--- {name}, {p.log_file}\n{p.log_tail()}" for name, p in processes)
        raise BrokerStartError(what + tails)


@contextlib.contextmanager
def cluster(
    nodes: int = 1,
    *,
    config: Mapping[str, object] | None = None,
    feature_levels: Mapping[str, int] | None = None,
    version: str = jars.BROKER_VERSION,
    controllers: int = 0,
    dynamic_quorum: bool = False,
    disks: int = 1,
    port: int | None = None,
    listeners: Mapping[str, int] | None = None,
    folder: Path | None = None,
    keep: bool = False,
    heap: str = "400m",
    java_options: Sequence[str] = (),
    log_level: str = "info",
    loggers: Mapping[str, str] | None = None,
    cache: Path | None = None,
    ready_timeout: float = READY_TIMEOUT_S,
) -> Iterator[RunningCluster]:
    """A running cluster of `nodes` combined broker and controller nodes (KRaft); stopped and removed at the end.

    Releases before 3.0 run with one ZooKeeper server beside the nodes.

    Args:
        config: broker properties beyond `DEFAULTS` and over them, the same for all nodes.
        feature_levels: finalized features at the start, {"transaction.version": 0}; the others at their newest.
        controllers: nodes that are controllers alone, so that the others are brokers alone; 0: all are both.
        dynamic_quorum: the voters are in the metadata log (KIP-853), not in a property.
        disks: log directories of a broker.
        port: the client port of node 1, node 2 gets the next one, ...; free ports by default.
        listeners: of a single node, beside PLAINTEXT: {"SASL_PLAINTEXT": port}; what they need is in `config`.
        folder: is made and holds `node-1`, `node-2`, ...; a temporary folder by default. `keep`: it is not removed.
        heap, java_options: of the brokers' virtual machines.
        log_level, loggers: of the root logger, and of some others by name.
        cache: folder of jars; by default `jars.cache_dir()`. `ready_timeout`: seconds.

    Raises:
        BrokerUnavailableError: Java, Maven or the jars are missing.
        BrokerStartError: Kafka does not become ready. The folder is kept, and the text has the end of each node's log.
        FileExistsError: `folder` exists.
    """
    if nodes < 1:
        raise ValueError(f"a cluster has at least 1 node, not {nodes}")
    if listeners and nodes > 1:
        raise ValueError("only a single node can have other listeners: their ports would be taken twice")
    java, libs = jars.java(), jars.broker_jars(version, cache=cache)
    if folder is not None:
        folder.mkdir(parents=True)
    root = folder.resolve() if folder else Path(tempfile.mkdtemp(prefix="kafkawire-broker-"))
    made, alone, server = _members(root, nodes, controllers, port, disks)
    zookeeper = server if jars.needs_zookeeper(version) else None
    running = RunningCluster(made, java, libs, heap, java_options, ready_timeout, zookeeper, alone, dynamic_quorum)
    try:
        if zookeeper:
            zookeeper.write_properties(zookeeper.properties, log_level="warn")
        for node in running.every_node:
            of_node = properties.of_node(
                node, made, alone or made, zookeeper, config or {}, dynamic_quorum=dynamic_quorum
            )
            all_of_it = properties.with_listeners(of_node, listeners or {})
            node.write_properties(all_of_it, log_level=log_level, loggers=loggers)
        running._start(config or {}, feature_levels or {})
        yield running
        if not (java_options or running._archive.exists) and running.stop():
            running._archive.keep(running._new_archive)
    except BrokerStartError:
        keep = True
        raise
    finally:
        # A clean stop takes seconds, more with several nodes; only a folder that is read afterwards needs it.
        try:
            if keep:
                running.stop()
            else:
                running.kill()
        finally:
            if not keep:
                shutil.rmtree(root, ignore_errors=True)


def _members(
    root: Path, brokers: int, controllers: int, port: int | None, disks: int
) -> tuple[tuple[BrokerNode, ...], tuple[BrokerNode, ...], ZooKeeper]:
    """The brokers, the nodes that are controllers alone, and the server of a cluster with ZooKeeper."""
    given = range(0) if port is None else range(port, port + brokers)
    ports = iter(free_ports(2 * brokers + controllers + 1, without=given))
    nodes = tuple(
        BrokerNode(i, root / f"node-{i}", given[i - 1] if given else next(ports), next(ports), disks)
        for i in range(1, brokers + 1)
    )
    ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
    alone = tuple(BrokerNode(i, root / f"node-{i}", free, free) for i, free in zip(ids, ports, strict=False))
    return nodes, alone, ZooKeeper(root / "zookeeper", next(ports))


def free_ports(count: int, *, without: Container[int] = ()) -> list[int]:
    """`count` different TCP ports that are free on loopback now."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if port in without:
            continue
        with socket.socket() as test:
            test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                test.bind((HOST, port))
                found.append(port)
        if len(found) == count:
            return found
    raise BrokerStartError(f"fewer than {count} free ports on {HOST}")


def _missing(node: BrokerNode, expected: set[int]) -> str | None:
    try:
        if not probe.api_versions(HOST, node.port):
            return "names no API"
        registered = set(probe.registered_brokers(HOST, node.port))
    except (OSError, struct.error) as e:
        return f"does not answer ({e})"
    absent = expected - registered
    return f"does not know broker {', '.join(map(str, sorted(absent)))} yet" if absent else None

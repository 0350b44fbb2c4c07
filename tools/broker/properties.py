"""The properties of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .java_process import HOST, BrokerNode, ZooKeeper

# Small logs and few internal partitions: copied directories stay small and every start is quick.
DEFAULTS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "65536",
    "log.segment.bytes": "1048576",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": "1048576",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.segment.bytes": "1048576",
}


def of_node(
    node: BrokerNode,
    brokers: Sequence[BrokerNode],
    controllers: Sequence[BrokerNode],
    zookeeper: ZooKeeper | None,
    config: Mapping[str, object],
    *,
    dynamic_quorum: bool,
) -> dict[str, str]:
    """All properties of a node.

    Args:
        brokers: of the cluster. `controllers`: the nodes that vote, which may be the brokers.
        zookeeper: in place of controllers. `config`: over all others.
        dynamic_quorum: the voters are in the metadata log (KIP-853), not in a property.
    """
    properties = {
        **(_of_zookeeper(node, zookeeper) if zookeeper else _of_kraft(node, brokers, controllers, dynamic_quorum)),
        "log.dirs": ",".join(map(str, node.log_dirs)),
        **_replication(len(brokers)),
        **DEFAULTS,
    }
    properties.update({key: _text(value) for key, value in config.items()})
    return properties


def _of_zookeeper(node: BrokerNode, zookeeper: ZooKeeper) -> dict[str, str]:
    return {"zookeeper.connect": zookeeper.address, "broker.id": str(node.node_id), **_client_listener(node)}


def _of_kraft(
    node: BrokerNode, brokers: Sequence[BrokerNode], controllers: Sequence[BrokerNode], dynamic_quorum: bool
) -> dict[str, str]:
    roles = [
        role for role, nodes in (("broker", brokers), ("controller", controllers)) if any(node is one for one in nodes)
    ]
    listener = f"CONTROLLER://{node.controller_address}"
    quorum = (
        ("controller.quorum.bootstrap.servers", [one.controller_address for one in controllers])
        if dynamic_quorum
        else ("controller.quorum.voters", [f"{one.node_id}@{one.controller_address}" for one in controllers])
    )
    properties = {
        "process.roles": ",".join(roles),
        "node.id": str(node.node_id),
        quorum[0]: ",".join(quorum[1]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
    }
    if "broker" not in roles:
        return {**properties, "listeners": listener}
    properties |= _client_listener(node)
    if "controller" in roles:
        properties["listeners"] += f",{listener}"
    return properties


def _client_listener(node: BrokerNode) -> dict[str, str]:
    listener = f"PLAINTEXT://{node.address}"
    return {"listeners": listener, "advertised.listeners": listener, "inter.broker.listener.name": "PLAINTEXT"}


def _replication(brokers: int) -> dict[str, str]:
    copies, in_sync = str(min(brokers, 3)), str(min(brokers, 2))
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def with_listeners(properties: dict[str, str], listeners: Mapping[str, int]) -> dict[str, str]:
    """The same with more listeners: {"SASL_PLAINTEXT": port}."""
    addresses = [f"{name}://{HOST}:{port}" for name, port in listeners.items()]
    more = {
        "listeners": addresses,
        "advertised.listeners": addresses,
        "listener.security.protocol.map": [f"{name}:{name}" for name in listeners],
    }
    return {name: ",".join([value, *more.get(name, ())]) for name, value in properties.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

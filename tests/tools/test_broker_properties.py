"""tools.broker: the properties of nodes by their roles and their quorum."""

from __future__ import annotations

from pathlib import Path

from tools.broker.java_process import BrokerNode, ZooKeeper
from tools.broker.properties import of_node, with_listeners

BROKERS = [BrokerNode(number, Path(f"node-{number}"), 9000 + number, 9100 + number) for number in (1, 2)]
CONTROLLER = BrokerNode(101, Path("node-101"), 9201, 9201)


def test_a_node_with_both_roles_names_the_voters() -> None:
    found = of_node(BROKERS[0], BROKERS, BROKERS, None, {"num.partitions": 3, "a.flag": True}, dynamic_quorum=False)
    assert found["process.roles"] == "broker,controller"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:9101,2@127.0.0.1:9102"
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:9001,CONTROLLER://127.0.0.1:9101"
    assert (found["num.partitions"], found["a.flag"]) == ("3", "true")
    assert (found["min.insync.replicas"], found["default.replication.factor"]) == ("2", "2")


def test_a_dynamic_quorum_is_found_by_its_controllers() -> None:
    broker = of_node(BROKERS[0], BROKERS, [CONTROLLER], None, {}, dynamic_quorum=True)
    controller = of_node(CONTROLLER, BROKERS, [CONTROLLER], None, {}, dynamic_quorum=True)
    for found in (broker, controller):
        assert found["controller.quorum.bootstrap.servers"] == "127.0.0.1:9201"
        assert "controller.quorum.voters" not in found
    assert (broker["process.roles"], broker["listeners"]) == ("broker", "PLAINTEXT://127.0.0.1:9001")
    assert (controller["process.roles"], controller["listeners"]) == ("controller", "CONTROLLER://127.0.0.1:9201")
    assert "advertised.listeners" not in controller


def test_zookeeper_is_in_the_place_of_controllers() -> None:
    zookeeper = ZooKeeper(Path("zookeeper"), 2181)
    found = of_node(BROKERS[0], BROKERS, BROKERS, zookeeper, {}, dynamic_quorum=False)
    assert (found["zookeeper.connect"], found["broker.id"]) == ("127.0.0.1:2181", "1")
    assert not {"process.roles", "node.id", "controller.quorum.voters"} & set(found)


def test_each_disk_is_a_log_directory() -> None:
    node = BrokerNode(1, Path("node-1"), 9001, 9101, disks=3)
    found = of_node(node, [node], [node], None, {}, dynamic_quorum=False)
    assert found["log.dirs"] == "node-1/data,node-1/data-2,node-1/data-3"


def test_further_listeners_stand_beside_the_usual_ones() -> None:
    found = with_listeners(
        of_node(BROKERS[0], BROKERS[:1], BROKERS[:1], None, {}, dynamic_quorum=False), {"SASL_PLAINTEXT": 9300}
    )
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9001,SASL_PLAINTEXT://127.0.0.1:9300"
    assert found["listener.security.protocol.map"].endswith("SASL_PLAINTEXT:SASL_PLAINTEXT")

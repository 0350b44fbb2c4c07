"""The clusters, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NEWEST = "4.4.0"
#: The copies of each cluster, in the order in which they are made.
COPIES = ("forward", "backward", "killed", "stopped")


@dataclass(frozen=True)
class Configuration:
    """How a cluster is made.

    Attributes:
        name: of the archive, after `cluster-`.
        version: the release that it starts with. `upgraded`: the one that it continues with after the first copies.
        nodes: brokers. `controllers`: nodes that are controllers alone; 0: the brokers are controllers, too.
        dynamic_quorum: the voters are in the metadata log (KIP-853). `disks`: log directories of a broker.
        features: levels at the start. `raised`: levels after the upgrade.
        brokers: properties beyond those of all clusters. `frameworks`: Kafka Streams and MirrorMaker 2 run, too.
    """

    name: str
    version: str = NEWEST
    upgraded: str | None = None
    nodes: int = 1
    controllers: int = 0
    dynamic_quorum: bool = False
    disks: int = 1
    features: Mapping[str, int] = field(default_factory=dict)
    raised: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[str, object] = field(default_factory=dict)
    frameworks: bool = False

    @property
    def archive(self) -> str:
        return f"cluster-{self.name}"

    @property
    def zookeeper(self) -> bool:
        return self.version.startswith("2.")


CONFIGURATIONS = (
    Configuration("standalone", dynamic_quorum=True, features={"transaction.version": 2}),
    Configuration("standalone-tv1", dynamic_quorum=True, features={"transaction.version": 1}),
    Configuration("standalone-tv0", dynamic_quorum=True, features={"transaction.version": 0}),
    Configuration("three", nodes=3, dynamic_quorum=True),
    Configuration("static"),
    Configuration("event-time", frameworks=True),
    Configuration("static-three-tv0", nodes=3, features={"transaction.version": 0}),
    Configuration("controllers", nodes=2, controllers=3, dynamic_quorum=True),
    Configuration("disks", disks=2, dynamic_quorum=True, brokers={"replica.fetch.max.bytes": 400}),
    Configuration("kafka-3.9", version="3.9.1"),
    Configuration(
        "upgraded",
        version="3.9.1",
        upgraded=NEWEST,
        raised={"metadata.version": 33, "transaction.version": 2, "kraft.version": 1},
    ),
    Configuration("zookeeper", version="2.8.2", brokers={"zookeeper.session.timeout.ms": 6000}),
)

"""A node of a cluster: a broker that is a controller, too, except with ZooKeeper (before Kafka 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .process import HOST, JavaProcess

__all__ = ["HOST", "BrokerNode", "ZooKeeper"]


@dataclass(eq=False)
class _Numbered:
    node_id: int


@dataclass(eq=False)
class BrokerNode(JavaProcess, _Numbered):
    """A broker. `node_id` counts from 1. Its folder contains its log and `data/` (log.dirs)."""

    port: int
    controller_port: int

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log_dir(self) -> Path:
        return self.folder / "data"


@dataclass(eq=False)
class ZooKeeper(JavaProcess):
    """The one ZooKeeper server of a cluster of brokers older than KRaft."""

    port: int

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def properties(self) -> Mapping[str, str]:
        return {
            "dataDir": str(self.folder / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
        }

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
    """A broker, or a controller. Its folder contains its log and `data/`, `data-2/`, ... (log.dirs)."""

    port: int
    controller_port: int
    disks: int = 1

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def controller_address(self) -> str:
        return f"{HOST}:{self.controller_port}"

    @property
    def log_dir(self) -> Path:
        """The first of its log directories, which has the metadata log."""
        return self.folder / "data"

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        return (self.log_dir, *(self.folder / f"data-{number}" for number in range(2, self.disks + 1)))


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

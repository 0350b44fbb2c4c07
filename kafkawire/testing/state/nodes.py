"""`Nodes`: the nodes of a mock cluster: where they listen, which are up, and which of them coordinates what."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id

#: FindCoordinator's key types.
GROUP, TRANSACTION = 0, 1
_PARTITIONS = 50  # of __consumer_offsets and __transaction_state
#: The leader of a partition that has none.
NO_NODE = -1


class Node(NamedTuple):
    """A node as clients are to reach it."""

    node_id: int
    host: str
    port: int


class Nodes:
    """See the module.

    Args:
        count: how many there are; their ids are 1 to `count`.

    Attributes:
        ports: node id -> the port at which it listens.
        down: the nodes that are stopped.
    """

    def __init__(self, count: int = 1) -> None:
        if not 1 <= count <= 100:
            raise ValueError(f"nodes={count}: 1 to 100")
        self.ids = range(1, count + 1)
        self.ports: dict[int, int] = {}
        self.down: set[int] = set()
        self._coordinators: dict[tuple[int, int], int] = {}

    def check(self, node: int) -> None:
        """Raises ValueError where there is no such node."""
        if node not in self.ids:
            raise ValueError(f"node {node}: there are {self.ids[0]} to {self.ids[-1]}")

    def chosen(self, number: int) -> int:
        """The node for the n-th of anything; of those that are up, if any is."""
        up = [node for node in self.ids if node not in self.down]
        return up[number % len(up)] if up else NO_NODE

    def coordinator(self, kind: int, key: str) -> int:
        """The node that coordinates a group or a transactional id: as Kafka's, by the key's hash."""
        number = partition_of_id(key, _PARTITIONS)
        node = self._coordinators.get((kind, number), self.ids[number % len(self.ids)])
        return self.chosen(number) if node in self.down else node

    def move_coordinator(self, kind: int, key: str, node: int) -> None:
        """A node becomes the coordinator of a key, and of all that share its partition of the internal topic."""
        self.check(node)
        self._coordinators[kind, partition_of_id(key, _PARTITIONS)] = node

    def reached(self, node: int, host: str, own: int, own_port: int) -> Node:
        """A node as the client of a request reaches it.

        Args:
            node: its id.
            host, own, own_port: the address and the id of the node that the client has sent the request to.
        """
        return Node(node, host, own_port if node == own else self.ports.get(node, own_port))

    def all_up(self, host: str, own: int, own_port: int) -> tuple[Node, ...]:
        """The nodes that are up, as `reached` has them."""
        return tuple(self.reached(node, host, own, own_port) for node in self.ids if node not in self.down)

"""`Memory`: how many bytes a mock broker keeps in all, of every topic, producer, transactional id and group.

The sizes are estimates: bytes of batches, metadata and names as they are, and a fixed number for each object.
"""

from __future__ import annotations

from collections.abc import Hashable

#: Bytes of a partition, a batch, a producer of a partition, an aborted transaction, a group, and any smaller entry.
PARTITION, BATCH, PRODUCER, ABORTED, GROUP, ENTRY = 2000, 200, 1000, 150, 1000, 300


class Memory:
    """What is kept.

    Args:
        most: bytes; what would exceed them is refused with POLICY_VIOLATION.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._sizes: dict[Hashable, int] = {}

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more may be kept."""
        return self.used + size <= self.most

    def keep(self, owner: Hashable, size: int) -> None:
        """State the size of what `owner` keeps now."""
        self.used += size - self._sizes.get(owner, 0)
        self._sizes[owner] = size

    def add(self, owner: Hashable, size: int) -> None:
        """`owner` keeps so many bytes more."""
        self.keep(owner, self._sizes.get(owner, 0) + size)

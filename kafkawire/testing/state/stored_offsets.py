"""`GroupOffsets`: what a group has committed, whatever its protocol, and the offsets of open transactions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.testing.state.memory import ENTRY, GROUP


class Committed(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str | None


def size_of(committed: Committed) -> int:
    """Bytes that a committed offset takes in memory."""
    return ENTRY + len(committed.metadata or "")


Offsets = dict[tuple[str, int], Committed]


class GroupOffsets(ABC):
    """See the module.

    Attributes:
        offsets: committed. `pending`: producer id -> offsets of its open transaction.
    """

    def __init__(self, former: GroupOffsets | None = None) -> None:
        self.offsets: Offsets = {} if former is None else former.offsets
        self.pending: dict[int, Offsets] = {} if former is None else former.pending

    @property
    @abstractmethod
    def count(self) -> int:
        """How many members there are, those that are about to join included."""

    @property
    def size(self) -> int:
        """Bytes that it takes in memory."""
        kept: Iterable[Offsets] = (self.offsets, *self.pending.values())
        return GROUP + ENTRY * len(self.pending) + sum(size_of(one) for each in kept for one in each.values())

    @abstractmethod
    def expire(self, now_ms: int) -> None:
        """Remove the members whose time is over."""

    @abstractmethod
    def check_commit(self, member_id: str, generation: int, now_ms: int) -> int:
        """The error code for offsets that a member commits, or a consumer without members; 0 for none.

        Args:
            member_id, generation: of the request; the generation is a member epoch under the protocol of KIP-848.
            now_ms: the broker's clock, epoch milliseconds.
        """

    def check_fetch(self, member_id: str, epoch: int) -> int:
        """The error code for offsets that a member fetches, 0 for none.

        Args:
            member_id, epoch: of the request; a negative epoch is of no member.
        """
        return 0

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The offsets of a transaction become the group's, or are dropped."""
        offsets = self.pending.pop(producer_id, {})
        if committed:
            self.offsets |= offsets

    def is_unstable(self, place: tuple[str, int]) -> bool:
        """Whether an open transaction holds an offset for that partition."""
        return any(place in offsets for offsets in self.pending.values())

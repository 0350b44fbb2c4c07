"""Offsets that groups committed: OffsetCommit and TxnOffsetCommit exchanges -> packed rows; and who reads for a group.
Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import numpy as np

from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.rows import Exchange
from kafkawire.wire.message import Message
from kafkawire.witness.exchange_rows import ORIGIN, PartitionRows, Sources

OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT = 8, 9, 28
#: Requests by which members of a group are known: OffsetCommit, OffsetFetch, JoinGroup, Heartbeat, SyncGroup,
#: ConsumerGroupHeartbeat.
_MEMBERS = {
    8: "OffsetCommit",
    9: "OffsetFetch",
    11: "JoinGroup",
    12: "Heartbeat",
    14: "SyncGroup",
    68: "ConsumerGroupHeartbeat",
}
_NO_ID = UUID(int=0)
_COMMITS = {OFFSET_COMMIT: "OffsetCommit", TXN_OFFSET_COMMIT: "TxnOffsetCommit"}

#: An offset of a group, for a partition. `group`: its number. `producer_id`, `epoch`: of the transaction; -1 without
#: one. `read`: a consumer was given it (OffsetFetch), -1 where none was committed; others were committed.
COMMIT = np.dtype(
    [
        ("place", "<i4"), ("group", "<i4"), ("offset", "<i8"), ("producer_id", "<i8"), ("epoch", "<i2"), ("read", "?"),
        *ORIGIN,
    ]
)  # fmt: skip


class CommittedOffsets(PartitionRows):
    """Takes exchanges in order; keeps what was answered without error.

    Args:
        sources: captures and clients.

    Attributes:
        commits: number of offsets that were committed. undecoded: number of exchanges that cannot be read.
    """

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources, COMMIT)
        self._groups: dict[str, int] = {}
        self._members: dict[int, set[int]] = {}
        self.commits = self.undecoded = 0

    @property
    def groups(self) -> list[str]:
        """The groups, of each number."""
        return list(self._groups)

    @property
    def members(self) -> dict[int, set[int]]:
        """The numbers of the clients that asked for a group, by its number."""
        return self._members

    def group(self, name: str) -> int:
        """The number of a group."""
        return self._groups.setdefault(name, len(self._groups))

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange; those of other apis are passed over."""
        row, request, response = found.row, found.request, found.response
        if row.packet is None:
            return
        if (name := _MEMBERS.get(row.api_key or 0)) and request is not None and kafka_name(request) == f"{name}Request":
            for group in _groups_of(request):
                self._members.setdefault(self.group(group), set()).add(self._sources.client(row))
        if (name := _COMMITS.get(row.api_key or 0)) is not None:
            if row.response_packet is None:
                return  # what was not answered was not acknowledged
            if request is None or response is None or row.problem or not _are(name, request, response):
                self.undecoded += 1
                return
            self._commit(row, request, response)
        elif row.api_key == OFFSET_FETCH and not (request is None or response is None or row.problem):
            self._read(row, request, response)

    def _commit(self, row: Exchange, request: Any, response: Any) -> None:
        errors = {
            (topic.name or topic.topic_id, part.partition_index): part.error_code
            for topic in response.topics
            for part in topic.partitions
        }
        origin, group = self._sources.origin(row), self.group(request.group_id)
        transaction = getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
        for topic in request.topics:
            for part in topic.partitions:
                if errors.get((topic.name or topic.topic_id, part.partition_index), -1) == 0:
                    self.commits += 1
                    place = self.place(self._sources.topic(topic.name, topic.topic_id), part.partition_index)
                    self.append_row((place, group, part.committed_offset, *transaction, False, *origin))

    def _read(self, row: Exchange, request: Any, response: Any) -> None:
        if not _are("OffsetFetch", request, response):
            return
        origin = self._sources.origin(row)
        for group, topics in _fetched_offsets(request, response):
            for topic in topics:
                for part in topic.partitions:
                    if part.error_code == 0:
                        name = self._sources.topic(topic.name, getattr(topic, "topic_id", _NO_ID))
                        place = self.place(name, part.partition_index)
                        self.append_row((place, self.group(group), part.committed_offset, -1, -1, True, *origin))


def _are(name: str, request: Message, response: Message) -> bool:
    return kafka_name(request) == f"{name}Request" and kafka_name(response) == f"{name}Response"


def _groups_of(request: Any) -> Iterator[str]:
    name = getattr(request, "group_id", "")
    if name:
        yield name
    for one in getattr(request, "groups", ()):
        yield one.group_id


def _fetched_offsets(request: Any, response: Any) -> Iterator[tuple[str, Any]]:
    """Groups and their topics in a response to OffsetFetch."""
    if request.group_id and not response.error_code:
        yield request.group_id, response.topics
    for one in response.groups:
        if not one.error_code:
            yield one.group_id, one.topics

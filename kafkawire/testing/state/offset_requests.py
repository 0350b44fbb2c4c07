"""The requests about committed offsets of groups: OffsetCommit, OffsetFetch, TxnOffsetCommit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkawire.messages.offset_commit_response import OffsetCommitResponsePartition, OffsetCommitResponseTopic
from kafkawire.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafkawire.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkawire.testing.state.call import POLICY_VIOLATION, Call, Handlers, by_topic
from kafkawire.testing.state.group import Group
from kafkawire.testing.state.groups import Groups
from kafkawire.testing.state.stored_offsets import Committed, GroupOffsets, Offsets, size_of
from kafkawire.testing.state.topics import Topic, Topics
from kafkawire.testing.state.transactions import Transactions

OFFSET_METADATA_TOO_LARGE = CODES["OFFSET_METADATA_TOO_LARGE"]
UNSTABLE_OFFSET_COMMIT = CODES["UNSTABLE_OFFSET_COMMIT"]

#: Largest metadata of an offset that brokers accept by default.
_MAX_METADATA = 4096
_NO_ID = UUID(int=0)
_NO_OFFSET = Committed(-1, -1, "")


class OffsetRequests:
    """See the module."""

    def __init__(self, groups: Groups, topics: Topics, transactions: Transactions) -> None:
        self.groups = groups
        self._topics = topics
        self._transactions = transactions
        transactions.on_end.append(self._end_transaction)
        self.handlers: Handlers = {
            OffsetCommitRequest: (self.offset_commit, range(2, 11)),
            OffsetFetchRequest: (self.offset_fetch, range(1, 11)),
            TxnOffsetCommitRequest: (self.txn_offset_commit, range(6)),
        }

    def _group(self, name: str, call: Call) -> GroupOffsets | int:
        """A group after its timers, a new one where there is none; an error code where the request is to fail."""
        found = self.groups.get(name)
        group = self.groups.of(name, call, Group if found is None else type(found), create=True)
        assert group is not None
        return group

    def offset_commit(self, call: Call) -> OffsetCommitResponse:
        request: OffsetCommitRequest = call.body
        group = self._group(request.group_id, call)
        offsets: Offsets = {}
        if isinstance(group, int):
            error = group
        else:
            generation = request.generation_id_or_member_epoch
            error, offsets = group.check_commit(request.member_id, generation, call.now_ms), group.offsets
        topics = []
        for asked in request.topics:
            topic = self._topics.topic(asked.name, asked.topic_id)
            parts = (
                OffsetCommitResponsePartition(
                    partition_index=part.partition_index,
                    error_code=error or self._commit(request.group_id, offsets, topic, part),
                )
                for part in asked.partitions
            )
            topics.append(OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=tuple(parts)))
        return OffsetCommitResponse(topics=tuple(topics))

    def txn_offset_commit(self, call: Call) -> TxnOffsetCommitResponse:
        request: TxnOffsetCommitRequest = call.body
        group = self._group(request.group_id, call)
        offsets: Offsets = {}
        if isinstance(group, int):
            error = group
        else:
            generation = request.generation_id_or_member_epoch
            error = group.check_commit(request.member_id, generation, call.now_ms) if request.member_id else 0
            error = error or self._transactions.admits_offsets(call, request)
            if not error:
                offsets = group.pending.setdefault(request.producer_id, {})
        topics = []
        for asked in request.topics:
            topic = self._topics.topic(asked.name)
            parts = (
                TxnOffsetCommitResponsePartition(
                    partition_index=part.partition_index,
                    error_code=error or self._commit(request.group_id, offsets, topic, part),
                )
                for part in asked.partitions
            )
            topics.append(TxnOffsetCommitResponseTopic(name=asked.name, partitions=tuple(parts)))
        return TxnOffsetCommitResponse(topics=tuple(topics))

    def _commit(self, group: str, offsets: Offsets, topic: Topic | int, part: Any) -> int:
        log = self._topics.log(topic, part.partition_index)
        if isinstance(log, int):
            return log
        assert isinstance(topic, Topic)
        metadata = part.committed_metadata
        if len(metadata or "") > _MAX_METADATA:
            return OFFSET_METADATA_TOO_LARGE
        place = topic.name, part.partition_index
        committed, before = Committed(part.committed_offset, part.committed_leader_epoch, metadata), offsets.get(place)
        more = size_of(committed) - (0 if before is None else size_of(before))
        if more > 0 and not self._topics.memory.has_room(more):
            return POLICY_VIOLATION
        offsets[place] = committed
        self._topics.memory.add(("group", group), more)
        return 0

    def _end_transaction(self, producer_id: int, *, committed: bool) -> None:
        for name, group in self.groups.items():
            if producer_id in group.pending:
                group.end_transaction(producer_id, committed=committed)
                self.groups.account(name)

    def offset_fetch(self, call: Call) -> OffsetFetchResponse:
        request: OffsetFetchRequest = call.body
        stable = request.require_stable
        if call.version < 8:
            named = None if request.topics is None else [(e.name, _NO_ID, e.partition_indexes) for e in request.topics]
            old = (_old_form(topic) for topic in self._offsets(call, request.group_id, named, stable))
            return OffsetFetchResponse(topics=tuple(old), error_code=call.error)
        groups = []
        for asked in request.groups:
            wanted = None if asked.topics is None else [(e.name, e.topic_id, e.partition_indexes) for e in asked.topics]
            group = self.groups.get(asked.group_id)
            error = call.error or (0 if group is None else group.check_fetch(asked.member_id or "", asked.member_epoch))
            found = () if error else tuple(self._offsets(call, asked.group_id, wanted, stable))
            groups.append(OffsetFetchResponseGroup(group_id=asked.group_id, topics=found, error_code=error))
        return OffsetFetchResponse(groups=tuple(groups))

    def _offsets(
        self, call: Call, group_id: str, asked: list[tuple[str, UUID, tuple[int, ...]]] | None, stable: bool
    ) -> Iterator[OffsetFetchResponseTopics]:
        group = self.groups.get(group_id) or Group()
        if asked is None:
            asked = [(name, _NO_ID, tuple(numbers)) for name, numbers in by_topic(group.offsets).items()]
        for name, topic_id, numbers in asked:
            topic = self._topics.topic(name, topic_id)
            error = call.error
            if isinstance(topic, Topic):
                name, topic_id = topic.name, topic.topic_id
            elif not name:
                error = error or topic
            parts = []
            for number in numbers:
                code = error or (UNSTABLE_OFFSET_COMMIT if stable and group.is_unstable((name, number)) else 0)
                offset, epoch, metadata = _NO_OFFSET if code else group.offsets.get((name, number), _NO_OFFSET)
                parts.append(
                    OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        metadata=metadata,
                        error_code=code,
                    )
                )
            yield OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=tuple(parts))


def _old_form(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """A topic as versions before 8 have it."""
    parts = (
        OffsetFetchResponsePartition(
            partition_index=part.partition_index,
            committed_offset=part.committed_offset,
            committed_leader_epoch=part.committed_leader_epoch,
            metadata=part.metadata,
            error_code=part.error_code,
        )
        for part in topic.partitions
    )
    return OffsetFetchResponseTopic(name=topic.name, partitions=tuple(parts))

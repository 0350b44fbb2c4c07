"""The requests of consumers' groups: the classic protocol (JoinGroup to LeaveGroup) and committed offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkawire.messages.join_group_response import JoinGroupResponseMember
from kafkawire.messages.leave_group_response import MemberResponse
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
from kafkawire.testing.state.call import MAX_ENTRIES, POLICY_VIOLATION, Call, Handlers, Wait, by_topic
from kafkawire.testing.state.group import (
    COMPLETING,
    PREPARING,
    REBALANCE_IN_PROGRESS,
    STABLE,
    UNKNOWN_MEMBER_ID,
    Committed,
    Group,
    Member,
    Offsets,
    size_of,
)
from kafkawire.testing.state.memory import ENTRY, GROUP
from kafkawire.testing.state.topics import Topic, Topics
from kafkawire.testing.state.transactions import Transactions

INVALID_GROUP_ID = CODES["INVALID_GROUP_ID"]
INVALID_SESSION_TIMEOUT = CODES["INVALID_SESSION_TIMEOUT"]
OFFSET_METADATA_TOO_LARGE = CODES["OFFSET_METADATA_TOO_LARGE"]
MEMBER_ID_REQUIRED = CODES["MEMBER_ID_REQUIRED"]
UNSTABLE_OFFSET_COMMIT = CODES["UNSTABLE_OFFSET_COMMIT"]

#: Largest group.max.session.timeout.ms and metadata of an offset that brokers accept by default.
_MAX_SESSION_MS = 1_800_000
_MAX_METADATA = 4096
_MAX_MEMBERS = 1000
_NO_ID = UUID(int=0)
_NO_OFFSET = Committed(-1, -1, "")


class GroupRequests:
    """See the module."""

    def __init__(self, topics: Topics, transactions: Transactions) -> None:
        self.groups: dict[str, Group] = {}
        self._topics = topics
        self._transactions = transactions
        self._members = 0
        transactions.on_end.append(self._end_transaction)
        self.handlers: Handlers = {
            JoinGroupRequest: (self.join_group, range(10)),
            SyncGroupRequest: (self.sync_group, range(6)),
            HeartbeatRequest: (self.heartbeat, range(5)),
            LeaveGroupRequest: (self.leave_group, range(6)),
            OffsetCommitRequest: (self.offset_commit, range(2, 11)),
            OffsetFetchRequest: (self.offset_fetch, range(1, 11)),
            TxnOffsetCommitRequest: (self.txn_offset_commit, range(6)),
        }

    def _group(self, name: str, call: Call, *, create: bool = False) -> Group | int:
        """A group after its timers; an error code where there is none, or the request is to fail."""
        if call.error:
            return call.error
        group = self.groups.get(name)
        if group is None:
            if not create:
                return UNKNOWN_MEMBER_ID
            if len(self.groups) >= MAX_ENTRIES or not self._topics.memory.has_room(GROUP + len(name)):
                return POLICY_VIOLATION
            group = self.groups[name] = Group()
        group.expire(call.now_ms)
        return group

    def _account(self, name: str) -> None:
        """After the members or offsets of a group have changed."""
        self._topics.memory.keep(("group", name), self.groups[name].size + len(name))

    # Membership -------------------------------------------------------------------------------------------------------

    def join_group(self, call: Call) -> JoinGroupResponse | Wait:
        request: JoinGroupRequest = call.body
        joined: tuple[Group, Member] | JoinGroupResponse = call.kept or self._join(call, request)
        if isinstance(joined, JoinGroupResponse):
            return joined
        call.kept = joined
        group, member = joined
        group.expire(call.now_ms)
        if group.members.get(member.member_id) is not member:
            return _refused(UNKNOWN_MEMBER_ID, member.member_id)
        if member.joining:
            return Wait(group.deadline_ms)
        members = group.roster.values() if member.member_id == group.leader else ()
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader,
            member_id=member.member_id,
            members=tuple(
                JoinGroupResponseMember(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    metadata=each.protocols.get(group.protocol or "", b""),
                )
                for each in members
            ),
        )

    def _join(self, call: Call, request: JoinGroupRequest) -> tuple[Group, Member] | JoinGroupResponse:
        """The first run of a JoinGroup: the member becomes part of the group."""
        member_id, instance_id, session_ms = request.member_id, request.group_instance_id, request.session_timeout_ms
        if call.error or not request.group_id:
            return _refused(call.error or INVALID_GROUP_ID, member_id)
        if not 0 < session_ms <= _MAX_SESSION_MS:
            return _refused(INVALID_SESSION_TIMEOUT, member_id)
        group = self._group(request.group_id, call, create=True)
        if isinstance(group, int):
            return _refused(group, member_id)
        size = ENTRY + sum(ENTRY + len(each.name) + len(each.metadata) for each in request.protocols)
        if len(group.members) + len(group.announced) >= _MAX_MEMBERS or not self._topics.memory.has_room(size):
            return _refused(POLICY_VIOLATION, member_id)
        if not member_id:
            self._members += 1
            member_id = f"{instance_id or call.client_id or 'member'}-{self._members}"
            if call.version >= 4 and instance_id is None:
                group.announced[member_id] = call.now_ms + session_ms
                self._account(request.group_id)
                return _refused(MEMBER_ID_REQUIRED, member_id)
            for old in [old for old in group.members.values() if old.instance_id == instance_id is not None]:
                del group.members[old.member_id]
        elif member_id not in group.members and group.announced.pop(member_id, None) is None:
            return _refused(UNKNOWN_MEMBER_ID, member_id)
        member = group.members.get(member_id) or Member(member_id, instance_id)
        member.seen_ms = call.now_ms
        protocols = {protocol.name: bytes(protocol.metadata) for protocol in request.protocols}
        rebalance_ms = session_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
        error = group.join(member, request.protocol_type, protocols, session_ms, min(rebalance_ms, _MAX_SESSION_MS))
        self._account(request.group_id)
        return _refused(error, member_id) if error else (group, member)

    def sync_group(self, call: Call) -> SyncGroupResponse | Wait:
        request: SyncGroupRequest = call.body
        group, error = self._member(call, request.generation_id, request.member_id)
        if group is not None and not error:
            member = group.members[request.member_id]
            if group.state == COMPLETING and request.member_id == group.leader:
                if not self._topics.memory.has_room(sum(len(entry.assignment) for entry in request.assignments)):
                    return SyncGroupResponse(error_code=POLICY_VIOLATION)
                group.assign({entry.member_id: bytes(entry.assignment) for entry in request.assignments})
                self._account(request.group_id)
            if group.state == COMPLETING:
                return Wait(call.now_ms + member.session_ms)
            if group.state == STABLE:
                return SyncGroupResponse(
                    protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
                )
            error = REBALANCE_IN_PROGRESS
        return SyncGroupResponse(error_code=error)

    def heartbeat(self, call: Call) -> HeartbeatResponse:
        request: HeartbeatRequest = call.body
        group, error = self._member(call, request.generation_id, request.member_id)
        if group is not None and not error and group.state == PREPARING:
            error = REBALANCE_IN_PROGRESS
        return HeartbeatResponse(error_code=error)

    def _member(self, call: Call, generation: int, member_id: str) -> tuple[Group | None, int]:
        """The group of a member's request, and the error code that answers the request; 0 for none."""
        group = self._group(call.body.group_id, call)
        if isinstance(group, int):
            return None, group
        return group, group.check(member_id, generation, call.now_ms)

    def leave_group(self, call: Call) -> LeaveGroupResponse:
        request: LeaveGroupRequest = call.body
        leaving = [(entry.member_id, entry.group_instance_id) for entry in request.members]
        if call.version < 3:
            leaving = [(request.member_id, None)]
        group = self._group(request.group_id, call)
        errors = [self._left(group, *each, call.now_ms) for each in leaving]
        return LeaveGroupResponse(
            error_code=errors[0] if call.version < 3 else call.error,
            members=tuple(
                MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error)
                for (member_id, instance_id), error in zip(leaving, errors, strict=True)
                if call.version >= 3
            ),
        )

    @staticmethod
    def _left(group: Group | int, member_id: str, instance_id: str | None, now_ms: int) -> int:
        if isinstance(group, int):
            return group
        found = next(
            (
                member.member_id
                for member in group.members.values()
                if member.member_id == member_id or (not member_id and member.instance_id == instance_id is not None)
            ),
            None,
        )
        if found is None:
            return 0 if group.announced.pop(member_id, None) is not None else UNKNOWN_MEMBER_ID
        group.remove(found, now_ms)
        return 0

    # Offsets ----------------------------------------------------------------------------------------------------------

    def offset_commit(self, call: Call) -> OffsetCommitResponse:
        request: OffsetCommitRequest = call.body
        group = self._group(request.group_id, call, create=True)
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
        group = self._group(request.group_id, call, create=True)
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
                self._account(name)

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
            found = tuple(self._offsets(call, asked.group_id, wanted, stable))
            groups.append(OffsetFetchResponseGroup(group_id=asked.group_id, topics=found, error_code=call.error))
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


def _refused(error: int, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name="")


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

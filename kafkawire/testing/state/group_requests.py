"""The requests of consumers' groups under the classic protocol, JoinGroup to LeaveGroup."""

from __future__ import annotations

from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkawire.messages.join_group_response import JoinGroupResponseMember
from kafkawire.messages.leave_group_response import MemberResponse
from kafkawire.testing.state.call import POLICY_VIOLATION, Call, Handlers, Wait
from kafkawire.testing.state.consumer_group_requests import ConsumerGroupRequests
from kafkawire.testing.state.group import (
    COMPLETING,
    PREPARING,
    REBALANCE_IN_PROGRESS,
    STABLE,
    UNKNOWN_MEMBER_ID,
    Group,
    Member,
)
from kafkawire.testing.state.group_listing import GroupListing
from kafkawire.testing.state.groups import MAX_MEMBERS, Groups
from kafkawire.testing.state.memory import ENTRY
from kafkawire.testing.state.offset_requests import OffsetRequests
from kafkawire.testing.state.topics import Topics
from kafkawire.testing.state.transactions import Transactions

INVALID_GROUP_ID = CODES["INVALID_GROUP_ID"]
INVALID_SESSION_TIMEOUT = CODES["INVALID_SESSION_TIMEOUT"]
MEMBER_ID_REQUIRED = CODES["MEMBER_ID_REQUIRED"]

#: Largest group.max.session.timeout.ms that brokers accept by default.
_MAX_SESSION_MS = 1_800_000


class GroupRequests:
    """See the module; `handlers` has those of committed offsets and of KIP-848, too."""

    def __init__(self, topics: Topics, transactions: Transactions) -> None:
        self.groups = Groups(topics.memory)
        self._topics = topics
        self._members = 0
        self.handlers: Handlers = {
            JoinGroupRequest: (self.join_group, range(10)),
            SyncGroupRequest: (self.sync_group, range(6)),
            HeartbeatRequest: (self.heartbeat, range(5)),
            LeaveGroupRequest: (self.leave_group, range(6)),
            **OffsetRequests(self.groups, topics, transactions).handlers,
            **ConsumerGroupRequests(self.groups, topics).handlers,
            **GroupListing(self.groups, topics.nodes).handlers,
        }

    def _group(self, name: str, call: Call, *, create: bool = False) -> Group | int:
        """A group after its timers; an error code where there is none, or the request is to fail."""
        group = self.groups.of(name, call, Group, create=create)
        return UNKNOWN_MEMBER_ID if group is None else group

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
        if len(group.members) + len(group.announced) >= MAX_MEMBERS or not self._topics.memory.has_room(size):
            return _refused(POLICY_VIOLATION, member_id)
        if not member_id:
            self._members += 1
            member_id = f"{instance_id or call.client_id or 'member'}-{self._members}"
            if call.version >= 4 and instance_id is None:
                group.announced[member_id] = call.now_ms + session_ms
                self.groups.account(request.group_id)
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
        self.groups.account(request.group_id)
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
                self.groups.account(request.group_id)
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


def _refused(error: int, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name="")

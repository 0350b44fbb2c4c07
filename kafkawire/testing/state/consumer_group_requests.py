"""The requests of consumers' groups under KIP-848: ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID, uuid4

from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkawire.messages.consumer_group_describe_response import Assignment as DescribedAssignment
from kafkawire.messages.consumer_group_describe_response import DescribedGroup, Member
from kafkawire.messages.consumer_group_describe_response import TopicPartitions as DescribedPartitions
from kafkawire.messages.consumer_group_heartbeat_response import Assignment, TopicPartitions
from kafkawire.testing.state.call import POLICY_VIOLATION, Call, Handlers
from kafkawire.testing.state.consumer_group import (
    ASSIGNORS,
    HEARTBEAT_MS,
    JOIN,
    LEAVE,
    LEAVE_FOR_NOW,
    ConsumerGroup,
    ConsumerMember,
    Place,
    Places,
)
from kafkawire.testing.state.groups import MAX_MEMBERS, Groups
from kafkawire.testing.state.memory import ENTRY
from kafkawire.testing.state.topics import INVALID_REQUEST, Topic, Topics

GROUP_ID_NOT_FOUND = CODES["GROUP_ID_NOT_FOUND"]
INVALID_REGULAR_EXPRESSION = CODES["INVALID_REGULAR_EXPRESSION"]
UNKNOWN_MEMBER_ID = CODES["UNKNOWN_MEMBER_ID"]
UNRELEASED_INSTANCE_ID = CODES["UNRELEASED_INSTANCE_ID"]
UNSUPPORTED_ASSIGNOR = CODES["UNSUPPORTED_ASSIGNOR"]

_CONSUMER_MEMBER = 1  # ConsumerGroupDescribe's MemberType
_NO_REGEX = "the mock broker evaluates no regular expressions"


class ConsumerGroupRequests:
    """See the module.

    Args:
        groups: of both protocols.
        topics: that members subscribe to.
    """

    def __init__(self, groups: Groups, topics: Topics) -> None:
        self._groups = groups
        self._topics = topics
        self.handlers: Handlers = {
            ConsumerGroupHeartbeatRequest: (self.heartbeat, range(2)),
            ConsumerGroupDescribeRequest: (self.describe, range(2)),
        }

    # ConsumerGroupHeartbeat -------------------------------------------------------------------------------------------

    def heartbeat(self, call: Call) -> ConsumerGroupHeartbeatResponse:
        request: ConsumerGroupHeartbeatRequest = call.body
        if error := call.error or _invalid(request, call.version):
            return _refused(error, "")
        if request.subscribed_topic_regex:
            return _refused(INVALID_REGULAR_EXPRESSION, _NO_REGEX)
        joins = request.member_epoch == JOIN
        group = self._groups.of(request.group_id, call, ConsumerGroup, create=joins)
        if group is None or isinstance(group, int):
            return _refused(group or GROUP_ID_NOT_FOUND, "")
        if request.member_epoch in (LEAVE, LEAVE_FOR_NOW):
            return self._leave(request, group)
        owned = _owned(request)
        member = group.members.get(request.member_id)
        if not joins:
            if error := group.check(request.member_id, request.member_epoch, owned):
                return _refused(error, "")
        elif member is None and group.count >= MAX_MEMBERS:
            return _refused(POLICY_VIOLATION, "")
        if not self._topics.memory.has_room(self._growth(request, group, member)):
            return _refused(POLICY_VIOLATION, "")
        if member is None:
            member = self._joined(request, group)
            if member is None:
                return _refused(UNRELEASED_INSTANCE_ID, "")
        before = member.assigned
        self._update(call, request, group, member)
        group.assign(self._counts(group))
        group.reconcile(member, owned if not joins else frozenset(), call.now_ms)
        self._groups.account(request.group_id)
        whole = None not in (request.subscribed_topic_names, request.topic_partitions)
        shown = joins or member.assigned != before or (whole and request.rebalance_timeout_ms >= 0)
        return ConsumerGroupHeartbeatResponse(
            error_message=None,
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=HEARTBEAT_MS,
            assignment=Assignment(topic_partitions=_partitions(member.assigned)) if shown else None,
        )

    def _joined(self, request: ConsumerGroupHeartbeatRequest, group: ConsumerGroup) -> ConsumerMember | None:
        """A new member; None where a static one of its instance id has not left."""
        former = group.static(request.instance_id)
        if former is not None and former.epoch != LEAVE_FOR_NOW:
            return None
        member = ConsumerMember(request.member_id or str(uuid4()), request.instance_id)
        if former is None:
            group.members[member.member_id] = member
            group.changed()
        else:
            group.replace(former, member)
        return member

    @staticmethod
    def _update(
        call: Call, request: ConsumerGroupHeartbeatRequest, group: ConsumerGroup, member: ConsumerMember
    ) -> None:
        member.seen_ms = call.now_ms
        member.client_id, member.host = call.client_id or "", f"/{call.host}"
        if request.rack_id is not None:
            member.rack = request.rack_id
        if request.rebalance_timeout_ms > 0:
            member.rebalance_ms = request.rebalance_timeout_ms
        names, assignor = request.subscribed_topic_names, request.server_assignor
        topics = member.topics if names is None else frozenset(names)
        wish = assignor or member.assignor
        if (topics, wish) != (member.topics, member.assignor):
            member.topics, member.assignor = topics, wish
            group.changed()
        if request.member_epoch == JOIN:
            member.epoch = member.former = 0  # a member that joins again has nothing, and is brought to its target
            member.revoking, member.until_ms = frozenset(), 0

    def _growth(
        self, request: ConsumerGroupHeartbeatRequest, group: ConsumerGroup, member: ConsumerMember | None
    ) -> int:
        """Bytes that the group takes more after the request, at most; below 0 for none."""
        names = frozenset(request.subscribed_topic_names or ())
        new = member is None or not names <= member.topics
        counts = self._counts(group, names)
        partitions = sum(count for _, count in counts.values()) - sum(count for _, count in group.counts.values())
        own = ENTRY + len(request.member_id) + sum(ENTRY + len(name) for name in names)
        return new * own + 3 * ENTRY * partitions or -1

    def _counts(self, group: ConsumerGroup, more: frozenset[str] = frozenset()) -> dict[str, tuple[UUID, int]]:
        names = more.union(*(member.topics for member in group.members.values()))
        found = ((name, self._topics.topic(name)) for name in sorted(names))
        return {name: (topic.topic_id, len(topic.partitions)) for name, topic in found if isinstance(topic, Topic)}

    def _leave(self, request: ConsumerGroupHeartbeatRequest, group: ConsumerGroup) -> ConsumerGroupHeartbeatResponse:
        member = group.members.get(request.member_id)
        if member is None or member.instance_id != request.instance_id:
            return _refused(UNKNOWN_MEMBER_ID, "")
        if request.member_epoch == LEAVE_FOR_NOW:
            member.epoch, member.revoking, member.until_ms = LEAVE_FOR_NOW, frozenset(), 0
        else:
            group.remove(member.member_id)
        self._groups.account(request.group_id)
        return ConsumerGroupHeartbeatResponse(
            error_message=None, member_id=request.member_id, member_epoch=request.member_epoch
        )

    # ConsumerGroupDescribe --------------------------------------------------------------------------------------------

    def describe(self, call: Call) -> ConsumerGroupDescribeResponse:
        request: ConsumerGroupDescribeRequest = call.body
        return ConsumerGroupDescribeResponse(groups=tuple(self._described(call, name) for name in request.group_ids))

    def _described(self, call: Call, name: str) -> DescribedGroup:
        group = self._groups.of(name, call, ConsumerGroup)
        if group is None or isinstance(group, int):
            return DescribedGroup(group_id=name, error_code=group or GROUP_ID_NOT_FOUND, error_message=None)
        return DescribedGroup(
            error_message=None,
            group_id=name,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.assignor,
            members=tuple(
                Member(
                    member_id=each.member_id,
                    instance_id=each.instance_id,
                    rack_id=each.rack,
                    member_epoch=each.epoch,
                    client_id=each.client_id,
                    client_host=each.host,
                    subscribed_topic_names=tuple(sorted(each.topics)),
                    assignment=DescribedAssignment(topic_partitions=self._named(each.assigned)),
                    target_assignment=DescribedAssignment(topic_partitions=self._named(each.target)),
                    member_type=_CONSUMER_MEMBER,
                )
                for each in group.members.values()
            ),
        )

    def _named(self, places: Places) -> tuple[DescribedPartitions, ...]:
        found = []
        for topic_id, numbers in _by_id(places).items():
            topic = self._topics.topic("", topic_id)
            name = topic.name if isinstance(topic, Topic) else ""
            found.append(DescribedPartitions(topic_id=topic_id, topic_name=name, partitions=tuple(numbers)))
        return tuple(found)


def _invalid(request: ConsumerGroupHeartbeatRequest, version: int) -> int:
    """INVALID_REQUEST where a field that has to be there is not (Kafka's `GroupCoordinatorService`); else 0."""
    if not request.group_id or request.member_epoch < LEAVE_FOR_NOW:
        return INVALID_REQUEST
    if not request.member_id and (version >= 1 or request.member_epoch != JOIN):
        return INVALID_REQUEST
    if request.instance_id == "" or (request.member_epoch == LEAVE_FOR_NOW and request.instance_id is None):
        return INVALID_REQUEST
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        return UNSUPPORTED_ASSIGNOR
    if request.member_epoch == JOIN:
        named = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        if request.rebalance_timeout_ms <= 0 or request.topic_partitions or not named:
            return INVALID_REQUEST
    return 0


def _owned(request: ConsumerGroupHeartbeatRequest) -> Places | None:
    if request.topic_partitions is None:
        return None
    return frozenset((each.topic_id, number) for each in request.topic_partitions for number in each.partitions)


def _by_id(places: Iterable[Place]) -> dict[UUID, list[int]]:
    found: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(places):
        found.setdefault(topic_id, []).append(number)
    return found


def _partitions(places: Iterable[Place]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id=key, partitions=tuple(found)) for key, found in _by_id(places).items())


def _refused(error: int, message: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message or None, member_id=None)

"""ListGroups and DescribeGroups of a mock broker: groups of both protocols, members of the classic one."""

from __future__ import annotations

from kafkawire.kafka_errors import CODES
from kafkawire.messages import DescribeGroupsRequest, DescribeGroupsResponse, ListGroupsRequest, ListGroupsResponse
from kafkawire.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kafkawire.messages.list_groups_response import ListedGroup
from kafkawire.testing.state.call import Call, Handlers
from kafkawire.testing.state.consumer_group import ConsumerGroup
from kafkawire.testing.state.group import Group
from kafkawire.testing.state.groups import Groups
from kafkawire.testing.state.nodes import GROUP, Nodes

GROUP_ID_NOT_FOUND = CODES["GROUP_ID_NOT_FOUND"]

#: From this version of DescribeGroups on there is an error code for a group that is not there; before it is "Dead".
_NOT_FOUND_SINCE = 6


class GroupListing:
    """See the module.

    Args:
        groups: of both protocols. nodes: of the cluster, each of which lists what it coordinates.
    """

    def __init__(self, groups: Groups, nodes: Nodes) -> None:
        self._groups = groups
        self._nodes = nodes
        self.handlers: Handlers = {
            ListGroupsRequest: (self.list, range(6)),
            DescribeGroupsRequest: (self.describe, range(7)),
        }

    def list(self, call: Call) -> ListGroupsResponse:
        request: ListGroupsRequest = call.body
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        found = []
        for name, group in () if call.error else self._groups.items():
            if self._nodes.coordinator(GROUP, name) != call.node:
                continue
            assert isinstance(group, (Group, ConsumerGroup))
            group.expire(call.now_ms)
            kind = "consumer" if isinstance(group, ConsumerGroup) else "classic"
            state = group.state
            if (not states or state.lower() in states) and (not types or kind in types):
                protocol = (group.protocol_type or "") if isinstance(group, Group) else "consumer"
                found.append(ListedGroup(group_id=name, protocol_type=protocol, group_state=state, group_type=kind))
        return ListGroupsResponse(error_code=call.error, groups=tuple(found))

    def describe(self, call: Call) -> DescribeGroupsResponse:
        request: DescribeGroupsRequest = call.body
        return DescribeGroupsResponse(groups=tuple(self._described(call, name) for name in request.groups))

    def _described(self, call: Call, name: str) -> DescribedGroup:
        group = self._groups.get(name)
        if call.error or not isinstance(group, Group):
            error = call.error or (GROUP_ID_NOT_FOUND if call.version >= _NOT_FOUND_SINCE else 0)
            return DescribedGroup(error_code=error, error_message=None, group_id=name, group_state="Dead")
        group.expire(call.now_ms)
        return DescribedGroup(
            error_message=None,
            group_id=name,
            group_state=group.state,
            protocol_type=group.protocol_type or "",
            protocol_data=group.protocol or "",
            members=tuple(
                DescribedGroupMember(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    member_metadata=each.protocols.get(group.protocol or "", b""),
                    member_assignment=each.assignment,
                )
                for each in group.members.values()
            ),
        )

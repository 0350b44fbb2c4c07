"""Whether topics, groups or transactional ids may be hidden from a principal: lists leave out what it may not Describe.

Tried on 4.4.0: no other request proves that nothing is hidden, neither authorized operations nor the response that an
invented id or topic does not exist.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.errors import CLUSTER_DENIED, SECURITY_DISABLED, BrokerError
from kafkawire.client.rpc.log_dirs import describe_log_dirs
from kafkawire.messages import DescribeAclsRequest

_ANY = 1  # of resource types, operations and permissions
_MATCH_ANY = 1  # of pattern types


async def has_authorizer(cluster: Cluster, deadline: Deadline) -> bool:
    """Whether the cluster has an authorizer. Without one (DescribeAcls answers 54) nothing is hidden."""
    body = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_MATCH_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = await cluster.ask_any(body, deadline, at_least=1)
    return bool(answer.error_code != SECURITY_DISABLED)


async def hidden_topics(
    cluster: Cluster, brokers: Collection[int], visible: Collection[str], deadline: Deadline
) -> tuple[list[str], str | None]:
    """The topics that exist and are not in `visible`; and why there may be more, None if there are not.

    Args:
        brokers: ids of all brokers of the cluster.
        visible: topics in the cluster's metadata, as the principal gets it.
        deadline: for all brokers together.
    """
    found = await describe_log_dirs(cluster, brokers, deadline)
    names = {place.topic for one in found.values.values() for place in one.sizes}
    hidden = sorted(names - set(visible))
    if not found.errors:
        return hidden, None
    denied = any(isinstance(error, BrokerError) and error.code == CLUSTER_DENIED for error in found.errors.values())
    if denied:
        return hidden, "Describe on the cluster would show them"
    return hidden, str(next(iter(found.errors.values())))


async def hidden_groups(cluster: Cluster, brokers: Collection[int], deadline: Deadline) -> str | None:
    """Why there may be groups that no broker lists; None if there are not. With Describe on the cluster a broker lists
    all of its groups (KafkaApis.handleListGroupsRequest); DescribeLogDirs needs the same right.

    Args:
        brokers: ids of all brokers of the cluster.
        deadline: for all brokers together.
    """
    if not await has_authorizer(cluster, deadline):
        return None
    found = await describe_log_dirs(cluster, brokers, deadline)
    if not found.errors:
        return None
    what = "groups that the principal may not Describe are not listed"
    if any(isinstance(error, BrokerError) and error.code == CLUSTER_DENIED for error in found.errors.values()):
        return f"{what}: Describe on the cluster would show them"
    return f"whether {what} is not known: {next(iter(found.errors.values()))}"

"""Whether topics or transactional ids may be hidden from a principal: lists leave out what it may not Describe.

Tried on 4.4.0: no other request proves that nothing is hidden, neither authorized operations nor the response that an
invented id or topic does not exist.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import every
from kafkawire.client.errors import CLUSTER_DENIED, SECURITY_DISABLED, BrokerError
from kafkawire.client.results import Results
from kafkawire.messages import DescribeAclsRequest, DescribeLogDirsRequest

_ANY = 1  # of resource types, operations and permissions
_MATCH_ANY = 1  # of pattern types
_WITH_ERROR = 3  # from this version on DescribeLogDirs gives a reason where it lists nothing


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


async def topics_on_disk(cluster: Cluster, brokers: Collection[int], deadline: Deadline) -> Results[int, set[str]]:
    """The topics in each broker's log directories, hidden ones included (it needs Describe on the cluster).

    Args:
        brokers: ids. Each has a value or an error.
        deadline: for all brokers together.
    """

    async def ask(broker_id: int) -> set[str]:
        answer = await cluster.ask(broker_id, DescribeLogDirsRequest(topics=None), deadline, at_least=_WITH_ERROR)
        if answer.error_code:
            what = f"log directories of broker {broker_id}"
            raise BrokerError.answering("DescribeLogDirs", answer.error_code, what)
        return {topic.name for folder in answer.results for topic in folder.topics}

    return await every(cluster, brokers, ask, deadline)


async def hidden_topics(
    cluster: Cluster, brokers: Collection[int], visible: Collection[str], deadline: Deadline
) -> tuple[list[str], str | None]:
    """The topics that exist and are not in `visible`; and why there may be more, None if there are not.

    Args:
        brokers: ids of all brokers of the cluster.
        visible: topics in the cluster's metadata, as the principal gets it.
        deadline: for all brokers together.
    """
    found = await topics_on_disk(cluster, brokers, deadline)
    names: set[str] = set().union(*found.values.values())
    hidden = sorted(names - set(visible))
    if not found.errors:
        return hidden, None
    denied = any(isinstance(error, BrokerError) and error.code == CLUSTER_DENIED for error in found.errors.values())
    if denied:
        return hidden, "Describe on the cluster would show them"
    return hidden, str(next(iter(found.errors.values())))

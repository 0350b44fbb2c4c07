"""Settings of brokers and topics (DescribeConfigs)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive, every
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Results
from kafkawire.messages import DescribeConfigsRequest
from kafkawire.messages.describe_configs_request import DescribeConfigsResource

_TOPIC, _BROKER, _GROUP = 2, 4, 32  # ConfigResource.Type
_DEFAULT = 5  # ConfigSource


class ConfigValue(msgspec.Struct, frozen=True):
    """The value of a setting; None where the broker hides it. `default`: nothing sets it."""

    value: str | None
    default: bool = False


Configs = dict[str, ConfigValue]


async def broker_configs(
    cluster: Cluster, brokers: Collection[int], names: Collection[str], deadline: Deadline
) -> Results[int, Configs]:
    """Settings of each broker, which only the broker itself returns (DescribeConfigs on the cluster).

    Args:
        brokers: ids. Each has its settings or an error.
        names: of settings; brokers leave out those that they do not have.
        deadline: for all brokers together.
    """

    async def ask(broker_id: int) -> Configs:
        for found in (await _ask(cluster, broker_id, _BROKER, [str(broker_id)], names, deadline)).values():
            if isinstance(found, ClientError):
                raise found
            return found
        raise ClientError(f"broker {broker_id} did not return its settings")

    return await every(cluster, brokers, ask, deadline)


async def topic_configs(
    cluster: Cluster, topics: Collection[str], names: Collection[str], deadline: Deadline
) -> Results[str, Configs]:
    """Settings of each topic (DescribeConfigs on the topic). `topics`: names. Each has its settings or an error.
    `names`: of settings. `deadline`: of the whole call."""

    async def route(keys: Sequence[str]) -> dict[str, int | ClientError]:
        broker_id = min(await cluster.known_brokers(deadline), default=None)  # any broker knows them
        return dict.fromkeys(keys, ClientError("the cluster has no broker") if broker_id is None else broker_id)

    async def ask(broker_id: int, keys: Sequence[str]) -> dict[str, Configs | ClientError]:
        return await _ask(cluster, broker_id, _TOPIC, keys, names, deadline)

    return await drive(cluster, sorted(topics), route, ask, deadline)


async def group_configs(cluster: Cluster, group: str, names: Collection[str], deadline: Deadline) -> Configs:
    """Settings of a group, with the brokers' defaults where they have some (DescribeConfigs on the group; from Kafka
    3.8 on).

    Args:
        names: of settings; brokers leave out those that they do not have.
        deadline: of the whole call.

    Raises:
        ClientError: they could not be read.
    """
    brokers = await cluster.known_brokers(deadline)
    if not brokers:
        raise ClientError("the cluster has no broker")
    found = (await _ask(cluster, min(brokers), _GROUP, [group], names, deadline))[group]
    if isinstance(found, ClientError):
        raise found
    return found


async def _ask(
    cluster: Cluster, broker_id: int, kind: int, resources: Sequence[str], names: Collection[str], deadline: Deadline
) -> dict[str, Configs | ClientError]:
    wanted = tuple(
        DescribeConfigsResource(resource_type=kind, resource_name=one, configuration_keys=tuple(sorted(names)))
        for one in resources
    )
    answer = await cluster.ask_broker(broker_id, DescribeConfigsRequest(resources=wanted), deadline, at_least=1)
    found: dict[str, Configs | ClientError] = {}
    for result in answer.results:
        name, code = result.resource_name, result.error_code
        if code:
            what = f"settings of broker {broker_id}" if kind == _BROKER else f"settings of topic {name}"
            found[name] = BrokerError.answering("DescribeConfigs", code, what, name, result.error_message)
        else:
            found[name] = {one.name: ConfigValue(one.value, one.config_source == _DEFAULT) for one in result.configs}
    return found

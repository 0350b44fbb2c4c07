"""transaction.max.timeout.ms of each broker (DescribeConfigs, which only the broker itself answers)."""

from __future__ import annotations

from collections.abc import Collection

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import every
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Results
from kafkawire.messages import DescribeConfigsRequest
from kafkawire.messages.describe_configs_request import DescribeConfigsResource
from kafkawire.transactions.case import MAX_TIMEOUT_MS
from kafkawire.transactions.formatting import numbers

MAX_TIMEOUT = "transaction.max.timeout.ms"
#: The setting is an int32 of milliseconds (TransactionStateManagerConfig).
LARGEST_MS = 2**31 - 1
_BROKER = 4  # ConfigResource.Type
_DIGITS = len(str(LARGEST_MS))


async def max_timeouts(cluster: Cluster, brokers: Collection[int], deadline: Deadline) -> Results[int, int]:
    """transaction.max.timeout.ms of each broker, in milliseconds (DescribeConfigs on the cluster).

    Args:
        brokers: ids. Each has a value or an error.
        deadline: for all brokers together.
    """

    async def ask(broker_id: int) -> int:
        wanted = DescribeConfigsResource(
            resource_type=_BROKER, resource_name=str(broker_id), configuration_keys=(MAX_TIMEOUT,)
        )
        answer = await cluster.ask(broker_id, DescribeConfigsRequest(resources=(wanted,)), deadline)
        for result in answer.results:
            if result.error_code:
                raise BrokerError.answering("DescribeConfigs", result.error_code, f"settings of broker {broker_id}")
            for one in result.configs:
                text = one.value or ""
                number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
                if one.name == MAX_TIMEOUT and number and int(text) <= LARGEST_MS:
                    return int(text)
        raise ClientError(f"broker {broker_id} did not return its {MAX_TIMEOUT}")

    return await every(cluster, brokers, ask, deadline)


def settings(given_ms: int | None, allowed: Results[int, int]) -> tuple[rows.Setting, ...]:
    """The limit that verdicts use, followed by that of the brokers if it differs.

    Args:
        given_ms: the operator's value; None for the largest value of a broker, or Kafka's default if none answers.
    """
    found = []
    if given_ms is not None:
        found.append(rows.Setting(name=MAX_TIMEOUT, value=given_ms, source=rows.Setting.GIVEN))
    if allowed.values:
        most = max(allowed.values.values())
        source = f"broker{'s' * (len(allowed.values) > 1)} {numbers(sorted(allowed.values))}"
        if most != given_ms:
            found.append(rows.Setting(name=MAX_TIMEOUT, value=most, source=source))
    return tuple(found or [rows.Setting(name=MAX_TIMEOUT, value=MAX_TIMEOUT_MS, source=rows.Setting.DEFAULT)])

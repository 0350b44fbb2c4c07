"""transaction.max.timeout.ms of each broker (DescribeConfigs, which only the broker itself answers)."""

from __future__ import annotations

from collections.abc import Collection

from kafkawire import rows
from kafkawire._java_numbers import INT32, whole_number
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Results
from kafkawire.client.rpc.configs import broker_configs
from kafkawire.transactions.cluster.cluster_traits import MAX_TIMEOUT
from kafkawire.transactions.formatting import numbers
from kafkawire.transactions.verdict.case import MAX_TIMEOUT_MS


async def max_timeouts(cluster: Cluster, brokers: Collection[int], deadline: Deadline) -> Results[int, int]:
    """transaction.max.timeout.ms of each broker, in milliseconds (DescribeConfigs on the cluster). `brokers`: ids. Each
    has a value or an error. `deadline`: for all brokers together."""

    found = await broker_configs(cluster, brokers, [MAX_TIMEOUT], deadline)
    values: dict[int, int] = {}
    errors = dict(found.errors)
    for broker_id, configs in found.values.items():
        one = configs.get(MAX_TIMEOUT)
        number = whole_number((one and one.value) or "", INT32)  # as in TransactionStateManagerConfig
        if number is not None:
            values[broker_id] = number
        else:
            errors[broker_id] = ClientError(f"broker {broker_id} did not return its {MAX_TIMEOUT}")
    return Results(values, errors)


def settings(given_ms: int | None, allowed: Results[int, int]) -> tuple[rows.Setting, ...]:
    """The limit that verdicts use, followed by that of the brokers if it differs. `given_ms`: the operator's value;
    None for the largest value of a broker, or Kafka's default if none answers."""
    found = []
    if given_ms is not None:
        found.append(rows.Setting(name=MAX_TIMEOUT, value=given_ms, source=rows.Setting.GIVEN))
    if allowed.values:
        most = max(allowed.values.values())
        source = f"broker{'s' * (len(allowed.values) > 1)} {numbers(sorted(allowed.values))}"
        if most != given_ms:
            found.append(rows.Setting(name=MAX_TIMEOUT, value=most, source=source))
    return tuple(found or [rows.Setting(name=MAX_TIMEOUT, value=MAX_TIMEOUT_MS, source=rows.Setting.DEFAULT)])

"""The release, features and settings of a live cluster that decide between causes (ApiVersions, DescribeConfigs)."""

from __future__ import annotations

from collections.abc import Collection

from kafkawire import versions
from kafkawire._java_numbers import INT64, whole_number
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import every
from kafkawire.client.errors import BrokerError
from kafkawire.client.rpc.configs import Configs, broker_configs
from kafkawire.client.transport.api_versions import VERSIONS_REQUEST
from kafkawire.messages import ApiVersionsResponse
from kafkawire.transactions.cluster.cluster_traits import (
    ID_EXPIRATION,
    VERIFICATION,
    ClusterTraits,
    oldest_and_newest,
    verification,
)

_NONE = range(0)


async def read_traits(cluster: Cluster, brokers: Collection[int], deadline: Deadline) -> ClusterTraits:
    """The traits of a cluster; what a broker refuses is not known. `brokers`: ids of all brokers; each gets both
    requests. `deadline`: of all requests together."""

    async def offered(broker: int) -> ApiVersionsResponse:
        answer: ApiVersionsResponse = await cluster.ask_broker(broker, VERSIONS_REQUEST, deadline)
        if answer.error_code:
            raise BrokerError.answering("ApiVersions", answer.error_code, f"versions of broker {broker}")
        return answer

    # One after the other: a broker that closes the connection on one request would end the other, too.
    apis = await every(cluster, brokers, offered, deadline)
    settings = await broker_configs(cluster, brokers, (VERIFICATION, ID_EXPIRATION), deadline)
    complete = set(apis.values) == set(brokers)
    oldest, newest = oldest_and_newest(map(releases_like, apis.values.values())) if complete else (None, None)
    by_broker = {broker: _value(found, VERIFICATION) for broker, found in settings.values.items()}
    known = bool(brokers) and set(by_broker) == set(brokers)
    verified, why = verification(by_broker if known else {}, newest)
    levels = [_level(one) for one in apis.values.values()]
    times = [whole_number(_value(found, ID_EXPIRATION) or "", INT64) for found in settings.values.values()]
    return ClusterTraits(
        verified=verified,
        why=why,
        transaction_version=max((one for one in levels if one is not None), default=None),
        oldest=oldest,
        newest=newest,
        id_expiration_ms=max((one for one in times if one is not None), default=None),
    )


def releases_like(answer: ApiVersionsResponse) -> tuple[str, ...]:
    """The releases of Kafka whose brokers offer exactly these requests up to these versions; none for another product.

    Lowest versions are not compared: brokers of Kafka 4 offer Produce from version 0 on for old clients (KAFKA-18659).
    """
    offered = versions.from_response(answer)
    found = []
    for release in versions.releases() if offered else ():
        stable, unstable = versions.of(release), versions.of(release, unstable=True)
        if all(
            one.stop in (stable.get(key, _NONE).stop, unstable.get(key, _NONE).stop) for key, one in offered.items()
        ):
            found.append(release)
    return tuple(found)


def _value(found: Configs, name: str) -> str | None:
    return found[name].value if name in found else None


def _level(answer: ApiVersionsResponse) -> int | None:
    """The finalised transaction.version; 0 where features are finalised and it is not among them."""
    if answer.finalized_features_epoch < 0:
        return None
    return next((one.max_version_level for one in answer.finalized_features if one.name == "transaction.version"), 0)

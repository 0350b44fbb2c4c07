"""The version of a request to send: the highest that client and broker know; or the error where there is none."""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire import __version__
from kafkawire.client.errors import UnsupportedApiError
from kafkawire.messages import ApiVersionsRequest
from kafkawire.wire.message import Message

VersionRange = tuple[int, int]

#: Brokers refuse one without a name, from version 3 on.
VERSIONS_REQUEST = ApiVersionsRequest(client_software_name="kafkawire", client_software_version=__version__)

#: Api keys that distinguish a broker's listener from a KRaft controller's.
_METADATA, _VOTE = 3, 52

#: Recent requests -> version -> the first release of Kafka whose brokers know it.
_SINCE: dict[str, dict[int, str]] = {
    "DescribeProducersRequest": {0: "2.8"},
    "DescribeTransactionsRequest": {0: "3.0"},
    "ListTransactionsRequest": {0: "3.0", 1: "3.8", 2: "4.1"},
    "DescribeClusterRequest": {0: "2.8"},
}


def choose(
    request: type[Message],
    offered: Mapping[int, VersionRange],
    *,
    at_most: int | None = None,
    at_least: int = 0,
    address: str,
) -> int:
    """The highest common version between `at_least` and `at_most`.

    Args:
        offered: api key -> lowest and highest version that the broker supports.
        at_most, at_least: highest and lowest version to use.
        address: of the broker, for the texts of errors.

    Raises:
        UnsupportedApiError: there is none; the text names the release of Kafka that has it, where that is known.
    """
    spec = request.spec
    name = spec.name.removesuffix("Request")
    if spec.api_key is None:
        raise UnsupportedApiError(f"{address}: {name} is no request of Kafka's protocol")
    valid = spec.valid_versions
    lowest = max(valid.start, at_least)
    highest = valid.stop - 1 if at_most is None else min(valid.stop - 1, at_most)
    found = offered.get(spec.api_key)
    if found is not None and min(found[1], highest) >= max(found[0], lowest):
        return min(found[1], highest)
    since = _SINCE.get(spec.name, {}).get(lowest)
    needs = f": brokers know it from Kafka {since} on" if since else ""
    if found is None and _METADATA not in offered and _VOTE in offered:
        raise UnsupportedApiError(f"{address}: this is a controller's listener: give that of a broker")
    if found is None:
        raise UnsupportedApiError(f"{address}: the broker does not support {name} requests{needs}")
    wanted = f"{lowest}" if lowest == highest else f"{lowest}-{highest}"
    raise UnsupportedApiError(
        f"{address}: the broker takes {name} in versions {found[0]}-{found[1]}, and version {wanted} is needed{needs}"
    )

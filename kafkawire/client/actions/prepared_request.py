"""A request that changes a cluster, before it is sent: for the operator's consent, and for the audit log."""

from __future__ import annotations

from typing import Any

import msgspec

import kafkawire
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.wire.message import Message


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its broker.

    Attributes:
        api: its name, "WriteTxnMarkers". `version`: the highest that broker and client know.
        address: of the broker, "host:port".
        body: as `to_json`. `hex`: the bytes of the body in that version: `kafkawire decode <api>Request --version N`.
    """

    api: str
    api_key: int
    version: int
    broker_id: int
    address: str
    body: Any
    hex: str


def interrupted(error: BaseException) -> str:
    """The recorded text for a request whose answer was not awaited, with the signal's name where there is one."""
    return f"interrupted ({str(error) or type(error).__name__}): whether it was carried out is not known"


async def prepared(cluster: Cluster, broker_id: int, body: Message, deadline: Deadline) -> PreparedRequest:
    """What `cluster.ask(broker_id, body)` would send now.

    Raises:
        ClientError: the broker cannot be reached, or does not support the request.
    """
    version = await cluster.highest(type(body), deadline, broker_id)
    broker = cluster.brokers[broker_id]
    spec = body.spec
    assert spec.api_key is not None
    return PreparedRequest(
        api=spec.name.removesuffix("Request"),
        api_key=spec.api_key,
        version=version,
        broker_id=broker_id,
        address=f"{broker.host}:{broker.port}",
        body=kafkawire.to_json(body, version=version),
        hex=body.encode(version=version).hex(),
    )

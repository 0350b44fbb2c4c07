"""A request that changes a cluster. It is prepared for the operator's consent, recorded before it is sent, and recorded
again with its verified outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

import kafkawire
from kafkawire.client.actions.lease import JudgeAgain
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline, backoffs
from kafkawire.client.transport.broker_link import address_of
from kafkawire.transactions.verdict.abort_rules import Refused
from kafkawire.wire.message import Message

T = TypeVar("T")


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


async def prepared(
    cluster: Cluster, broker_id: int, body: Message, deadline: Deadline, *, at_most: int | None = None
) -> PreparedRequest:
    """What `cluster.ask_broker(broker_id, body)` would send now.

    Args:
        broker_id: the broker that the request goes to; its connection is opened.
        deadline: for the connection, and for its versions.
        at_most: the highest version to use; None: the highest of all.

    Raises:
        ClientError: the broker cannot be reached, or does not support the request.
    """
    version = await cluster.highest(type(body), deadline, broker_id, at_most=at_most)
    broker = cluster.brokers[broker_id]
    spec = body.spec
    assert spec.api_key is not None
    return PreparedRequest(
        api=spec.name.removesuffix("Request"),
        api_key=spec.api_key,
        version=version,
        broker_id=broker_id,
        address=address_of(broker.host, broker.port),
        body=kafkawire.to_json(body, version=version),
        hex=body.encode(version=version).hex(),
    )


async def send_recorded(
    record: Callable[[T | None], None], send: Callable[[], Awaitable[T]], unfinished: Callable[[BaseException], T]
) -> T:
    """The outcome of a request that is recorded before it is sent, and again with its outcome.

    Args:
        record: called with None (if it raises, nothing is sent), then with the outcome, also after an error or an
            interruption.
        send: sends the request and verifies its outcome.
        unfinished: makes the outcome of an error of `send`.
    """
    record(None)
    try:
        done = await send()
    except BaseException as error:  # Ctrl-C and SIGTERM, too
        record(unfinished(error))
        raise
    record(done)
    return done


def why_unfinished(error: BaseException, *, sent: bool) -> str:
    """Why a request has no outcome, as a sentence. `error`: of `send`. `sent`: whether the request may have been sent
    by then."""
    if isinstance(error, Refused | JudgeAgain):
        return str(error)
    known = "whether it was carried out is not known" if sent else "nothing was sent"
    return f"interrupted ({str(error) or type(error).__name__}): {known}"


async def until_verified(
    cluster: Cluster, timeout_s: float | None, look: Callable[[], Awaitable[tuple[str, bool]]]
) -> str:
    """The problem that remains when `look` has been repeated until there is none, or the time is over; "" for none.

    Args:
        timeout_s: seconds, at most `request.timeout.ms`; None as configured.
        look: returns what is not as it should be, "" for nothing, and whether it may change.
    """
    deadline = cluster.deadline(timeout_s).within(cluster.config.request_timeout_s)
    waits = backoffs(cluster.config)
    while True:
        problem, temporary = await look()
        if not problem or not temporary:
            return problem
        if not await deadline.sleep(next(waits)):
            return f"{problem} ({deadline.seconds:.3g} s later)"

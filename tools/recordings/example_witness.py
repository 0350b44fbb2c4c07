"""docs/witness: what was answered to clients and what the broker holds, of one run that lost two responses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkawire.messages import ProduceRequest
from kafkawire.proxy import Fault, Proxy

from . import clients
from .clients import Service
from .cluster_clients import one_broker, orders, producer_of, write
from .tcpdump import recorded

CAPTURE = "clients.pcap"
TOPICS = {"orders": 2, "payments": 1, "metrics": 1}
_MINUTE = 60_000


def record(folder: Path, cache: Path | None = None) -> dict[str, Any]:
    """Makes the capture and the log directory in `folder`; what was done, as JSON values.

    The clients are recorded where they speak to a proxy, which loses two responses of the broker.
    """
    with (
        one_broker(folder, TOPICS, [*TOPICS, "__transaction_state"], "*", name="broker-1", cache=cache) as running,
        Proxy(running.bootstrap) as proxy,
        recorded(folder / CAPTURE, int(proxy.address.rpartition(":")[2])),
    ):
        _transactions(proxy.address)
        lost = [
            lose_response(proxy, "payments", idempotent=True),
            lose_response(proxy, "metrics", idempotent=False),
        ]
    return {"topics": TOPICS, "lost_responses": lost}


def _transactions(bootstrap: str) -> None:
    now = clients.now()
    service = Service(bootstrap, "orders-service")
    for number in range(6):
        numbers = {
            ("orders", 0): range(10 * number, 10 * number + 4),
            ("orders", 1): range(10 * number + 4, 10 * number + 6),
        }
        service.transaction(numbers, timestamp=now - (10 - number) * _MINUTE, committed=number != 3)


def lose_response(proxy: Proxy, topic: str, *, idempotent: bool) -> dict[str, Any]:
    """Writes 12 batches, and loses the response to the seventh."""
    settings = {
        "client.id": f"{topic}-service",
        "enable.idempotence": idempotent,
        "acks": "all",
        "max.in.flight": 1,
        "linger.ms": 0,
        "retry.backoff.ms": 200,
        "log_level": 0,  # a connection is closed: expected
    }

    def numbers() -> Iterator[int]:
        for number in range(12):
            if number == 6:
                proxy.fault(Fault(ProduceRequest, drop="response", times=1))
            yield number

    write(producer_of(proxy.address, settings), topic, orders(numbers()), one_by_one=True)
    return {"topic": topic, "partition": 0, "record": 6, "idempotent": idempotent}

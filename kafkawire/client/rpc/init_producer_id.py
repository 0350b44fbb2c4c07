"""The request that ends what a transactional id has open, and locks its present producer out (InitProducerId)."""

from __future__ import annotations

from kafkawire.client.cluster.deadline import Deadline
from kafkawire.messages import InitProducerIdRequest

_MOST_MS = 60_000


def fence_request(transactional_id: str, deadline: Deadline) -> InitProducerIdRequest:
    """As Kafka's FenceProducersHandler: the id's timeout becomes that of the call, since no producer comes of it.

    No more than a minute: brokers refuse what is above their transaction.max.timeout.ms.
    """
    timeout_ms = max(1, min(_MOST_MS, int(deadline.seconds * 1000)))
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

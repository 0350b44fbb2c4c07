"""`txn abort` and `txn force-terminate`, run against scripted brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkawire.messages import (
    InitProducerIdRequest,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker
from tests.client.partition_script import NAME, START, Coordinator, PartitionBroker


def abort(run: Callable[..., Any], broker: PartitionBroker, *more: object, one: bool = True) -> Any:
    which = ("--partition", 0, "--start-offset", START) if one else ()
    return run(
        "txn", "abort", "--bootstrap-server", broker.address, "--topic", "orders", "--confirm-after", 0.01,
        *which, *more,
    )  # fmt: skip


def terminate(run: Callable[..., Any], broker: Coordinator, *more: object, name: str = NAME) -> Any:
    return run(
        "txn", "force-terminate", "--bootstrap-server", broker.address, "--transactional-id", name,
        "--confirm-after", 0.01, *more,
    )  # fmt: skip


def sent(broker: PartitionBroker) -> int:
    return broker.count(WriteTxnMarkersRequest) + broker.count(InitProducerIdRequest)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def marker(epoch: int = 3) -> Any:
    return WritableTxnMarker(producer_id=7, producer_epoch=epoch, coordinator_epoch=5)


def without_port_and_ages(text: str, broker: PartitionBroker) -> str:
    """Without what is different from run to run: the port, and ages."""
    return re.sub(r"batch is [\dh d]+ old", "batch is LONG old", text.replace(broker.address, "HOST:PORT"))

"""For tests of programs that speak Kafka's protocol: a mock broker, and Hypothesis strategies.

    with MockBroker({"orders": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.address})

`strategies` has messages, frames and record batches, and needs the extra `testing`. `comparison` has what a version's
bytes keep of a message. Names are imported on first use: pytest loads `fixtures` in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire._first_use import on_first_use

if TYPE_CHECKING:
    from kafkawire.testing.mock_broker import MockBroker
    from kafkawire.testing.script import Answer, Fault, RequestLog

#: Module -> the names that it defines, which are imported on first use.
_NAMES = {
    "mock_broker": "MockBroker",
    "script": "Answer Fault RequestLog",
}

__all__ = ["Answer", "Fault", "MockBroker", "RequestLog"]

if not TYPE_CHECKING:  # checkers report names that are not there
    __getattr__ = on_first_use(__name__, _NAMES)

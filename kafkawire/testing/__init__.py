"""For tests of programs that speak Kafka's protocol: a mock broker, and Hypothesis strategies.

    with MockBroker({"orders": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.address})

`strategies` has messages, frames and record batches, and needs the extra `testing`. `comparison` has what a version's
bytes keep of a message.
"""

from kafkawire.testing.mock_broker import MockBroker
from kafkawire.testing.script import Answer, Fault, RequestLog

__all__ = ["Answer", "Fault", "MockBroker", "RequestLog"]

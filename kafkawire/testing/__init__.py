"""For tests of programs that speak Kafka's protocol: a mock broker.

with MockBroker({"orders": 3}) as broker:
    producer = Producer({"bootstrap.servers": broker.address})
"""

from kafkawire.testing.mock_broker import MockBroker
from kafkawire.testing.script import Answer, Fault, RequestLog

__all__ = ["Answer", "Fault", "MockBroker", "RequestLog"]

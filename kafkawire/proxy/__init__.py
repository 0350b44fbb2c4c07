"""A proxy between clients and a cluster, for tests, debugging and recording; it is not made for production traffic.

    with Proxy("localhost:9092") as proxy:                      # in a thread of its own; or `async with`
        proxy.on_request(ProduceRequest, lambda request: request.replace(timeout_ms=500))
        proxy.fault(Fault(FetchRequest, delay_s=0.2, rate=0.1))
        producer = Producer({"bootstrap.servers": proxy.address})

Addresses of brokers in responses become those of the proxy, which listens once for each broker. Filters get typed
requests and responses. A frame that neither a filter, a fault nor an address asks for passes undecoded.
"""

from kafkawire.proxy.faults import Fault
from kafkawire.proxy.holding import Held
from kafkawire.proxy.proxy import Proxy

__all__ = ["Fault", "Held", "Proxy"]

"""Small clusters of every configuration, copied as operators copy them, with what brokers and consumers answered.

An archive `cluster-NAME` holds one cluster (`configurations.py`). What clients do to it is the same for all
(`workload.py`). Of its log directories there are copies, each a folder with `node-1/`, ...:

- `forward`, `backward`: while brokers run and producers write, file by file, in the order of names and against it.
- `killed`: after kill -9 of all brokers, which had transactions open.
- `stopped`: after a clean stop, at the end.

Where brokers have two disks, two replicas are on the way from one to the other in all but the last. An upgrade is
between `backward` and `killed`.

`truth.json` holds what was made, the records that consumers of both isolation levels got, and the answers of the
brokers and of Kafka's own tool just before the clean stop.
"""

from .configurations import CONFIGURATIONS, COPIES
from .recording import record

__all__ = ["CONFIGURATIONS", "COPIES", "record"]

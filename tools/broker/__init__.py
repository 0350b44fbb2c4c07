"""A real Kafka cluster from Maven's jars, for tests, examples and experiments.

    with cluster(nodes=3, config={"transaction.partition.verification.enable": False}) as c:
        c.bootstrap, c.log_dirs[1], c.restart_node(2)

On the command line: `python -m tools.broker --nodes 3`.
"""

from .cluster import RunningCluster, cluster
from .errors import BrokerStartError, BrokerToolError, BrokerUnavailableError
from .java_process import BrokerNode

__all__ = ["BrokerNode", "BrokerStartError", "BrokerToolError", "BrokerUnavailableError", "RunningCluster", "cluster"]

"""Fixtures that start real Kafka brokers (a pytest plugin: tests/conftest.py names it in `pytest_plugins`).

Where Java, Maven or Kafka's jars are missing, tests that ask for a broker are skipped with the reason; with
`KAFKAWIRE_REQUIRE_BROKER=1` they fail instead. A broker that does not start is always a failure.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from tests.distribution import Shared
from tools.broker import BrokerUnavailableError, RunningCluster, cluster


class StartCluster(Protocol):
    def __call__(self, nodes: int = 1, **options: Any) -> contextlib.AbstractContextManager[RunningCluster]: ...


@pytest.fixture(scope="session")
def start_cluster(request: pytest.FixtureRequest) -> StartCluster:
    """`tools.broker.cluster`, for tests that need a cluster of their own: skips where none can be started."""
    if request.config.option.markexpr.startswith("not slow"):  # where a fixture is asked for by its name at run time
        pytest.fail("a test that starts a broker is not marked as one: make test-quick would start it")

    @contextlib.contextmanager
    def start(nodes: int = 1, **options: Any) -> Iterator[RunningCluster]:
        with contextlib.ExitStack() as stack:
            try:
                running = stack.enter_context(cluster(nodes, **options))
            except BrokerUnavailableError as e:
                if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
                    raise
                pytest.skip(str(e))
            yield running

    return start


@pytest.fixture(scope="module")
def broker(start_cluster: StartCluster, shared: Shared) -> RunningCluster:
    """One node for all modules; lets transactions hang. Use topics and ids of your own, leave it running."""
    config = {"transaction.partition.verification.enable": False}
    running: RunningCluster = shared.start("broker", lambda: start_cluster(1, config=config))
    return running


@pytest.fixture(scope="module")
def three_brokers(start_cluster: StartCluster, shared: Shared) -> RunningCluster:
    """Three running nodes for all modules. Use topics and ids of your own. Nodes may be stopped and killed:
    they are started again for the next module."""
    running: RunningCluster = shared.start("three brokers", lambda: start_cluster(3))
    for node in running.nodes:
        if not node.running:
            running.start_node(node.node_id)
    return running

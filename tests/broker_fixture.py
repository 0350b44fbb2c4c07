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

#: Of `three_voters`: a broker's session, shorter than in the field, so that tests do not wait for minutes.
SESSION_MS = 3000
#: Of `three_voters`: the limit of transactions' timeouts, more than the default.
MAX_TIMEOUT_MS = 2 * 3_600_000


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
    return _whole(running)


@pytest.fixture(scope="module")
def three_voters(start_cluster: StartCluster, shared: Shared) -> RunningCluster:
    """As `three_brokers`, with a dynamic quorum and `SESSION_MS`; lets transactions hang, for up to
    `MAX_TIMEOUT_MS`."""
    config = {
        "broker.session.timeout.ms": SESSION_MS,
        "broker.heartbeat.interval.ms": SESSION_MS // 6,
        "transaction.max.timeout.ms": MAX_TIMEOUT_MS,
        "transaction.partition.verification.enable": False,
    }
    running: RunningCluster = shared.start(
        "three voters", lambda: start_cluster(3, config=config, dynamic_quorum=True, heap="300m")
    )
    return _whole(running)


def _whole(running: RunningCluster) -> RunningCluster:
    """The cluster, with those of its nodes started that do not run."""
    for node in running.nodes:
        if not node.running:
            running.start_node(node.node_id)
    return running

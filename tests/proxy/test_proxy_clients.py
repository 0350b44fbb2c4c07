"""Real clients through the proxy: transactions, groups that share partitions, TLS and logins, leaders that move."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire import capture
from kafkawire.messages import EndTxnRequest
from kafkawire.proxy import Proxy
from kafkawire.testing import MockBroker
from tests.client.certificates import make_identity
from tests.testing import test_testing_clients as transactional
from tests.testing import test_testing_real_clusters as clusters

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "client",
    [transactional.librdkafka, transactional.kafka_python, transactional.aiokafka, transactional.java],
    ids=lambda client: client.__name__,
)
def test_transactions_and_both_isolation_levels(client: Callable[[str], transactional.Read], tmp_path: Path) -> None:
    path = tmp_path / "all.pcapng"
    with MockBroker({"orders": 1}, nodes=2) as broker:
        with Proxy(broker.address, record=path) as proxy:
            assert client(proxy.address) == transactional.READS
            assert not proxy.problems
        assert len(broker.requests.of(EndTxnRequest)) == 3
        assert broker.committed("copied") == {("orders", 0): 3}
        assert not broker.refusals
        # No client has gone to a broker directly, and the recording has what the brokers got.
        apis = [row.api for row in capture.read(path)]
        assert {"EndTxn", "JoinGroup", "Fetch", "TxnOffsetCommit"} <= set(apis)
        assert len(apis) >= len(broker.requests)


CASES = [case for case in clusters.CASES if case != (clusters.java, "consumer")]


@pytest.mark.parametrize(("client", "protocol"), CASES, ids=[f"{client.__name__}-{what}" for client, what in CASES])
def test_groups_behind_tls_that_ends_at_the_proxy(
    client: Callable[[clusters.Place], list[str]], protocol: str, tmp_path: Path
) -> None:
    """Clients speak TLS with the proxy and log in at the brokers, whose leaders move meanwhile."""
    identity = make_identity()
    pem, certificate = tmp_path / "proxy.pem", tmp_path / "ca.pem"
    pem.write_text(identity.certificate + identity.key)
    certificate.write_text(identity.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    with (
        MockBroker({"orders": 3}, nodes=3, users=clusters.USERS) as broker,
        Proxy(broker.address, client_tls=context) as proxy,
    ):

        def half() -> None:
            broker.move_leader("orders", 0, 2)
            broker.stop_node(3)

        assert client(clusters.Place(proxy.address, certificate, half, protocol)) == clusters.WRITTEN
        assert broker.committed("g") == {("orders", number): broker.offsets("orders", number)[2] for number in range(3)}
        assert not broker.refusals

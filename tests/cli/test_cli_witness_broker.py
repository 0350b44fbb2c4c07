"""`witness --bootstrap-server` on a real broker: it names the planted faults, as it does for the broker's own log
directory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafkawire.proxy import Proxy
from tests.cli.runner import Run
from tests.cli.test_cli_why_broker import with_topic
from tools.broker import RunningCluster
from tools.polling import until
from tools.recordings import clients
from tools.recordings.cluster_clients import lose_response

pytestmark = pytest.mark.broker

TRANSACTIONS, PLAIN, IDEMPOTENT = "witness-transactions", "witness-plain", "witness-idempotent"
#: Records of the transactions that are committed.
COMMITTED = 9


def transactions(address: str) -> None:
    """Four transactions of three records, of which the third is aborted."""
    service = clients.Service(address, "witness-service")
    for number in range(4):
        writes = {(TRANSACTIONS, 0): range(10 * number, 10 * number + 3)}
        service.transaction(writes, timestamp=int(time.time() * 1000), committed=number != 2)


def consumed(address: str) -> None:
    """A group is given what is committed, and commits its offset."""
    reader = clients.consumer(address, "witness-readers", "read_committed")
    reader.subscribe([TRANSACTIONS])
    offsets: list[int] = []

    def all_given() -> bool | None:
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            offsets.append(int(message.offset() or 0))
        return len(offsets) >= COMMITTED or None

    until(all_given, "records of committed transactions", seconds=60)
    reader.commit(offsets=[TopicPartition(TRANSACTIONS, 0, offsets[-1] + 1)], asynchronous=False)
    reader.close()


def rows_of(run: Run, capture: Path, *held: object) -> list[dict[str, Any]]:
    ended = run("witness", "--captures", capture, *held, "--format", "jsonl")
    assert ended.code == 3, ended.err
    return [json.loads(line) for line in ended.text.splitlines()]


def of_kinds(rows: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Without the paths of logs, and without what others have written to the coordinators' logs."""
    left_out = {"log", "record_offset"}
    return [
        {name: value for name, value in one.items() if name not in left_out} for one in rows if one["kind"] in kinds
    ]


def test_a_running_broker_is_judged_as_its_log_directory(broker: RunningCluster, run: Run, tmp_path: Path) -> None:
    for topic in (TRANSACTIONS, PLAIN, IDEMPOTENT):
        with_topic(broker, topic, 1)
    capture = tmp_path / "clients.pcapng"
    with Proxy(broker.bootstrap, record=capture) as proxy:
        transactions(proxy.address)
        consumed(proxy.address)
        lose_response(proxy, IDEMPOTENT, idempotent=True)
        lose_response(proxy, PLAIN, idempotent=False)
    known = time.time()
    live = rows_of(run, capture, "--bootstrap-server", broker.bootstrap)
    (summary,) = of_kinds(live, "witness")
    # The batch without idempotence is held twice; all others are held, and the group was given what it committed.
    assert summary["acknowledged"] == summary["batches"] == summary["held"] + 1
    assert (summary["anomalies"], summary["unknown"], summary["undecoded"], summary["unseen"]) == (1, 0, 0, 0)
    assert (summary["read_anomalies"], summary["read_unknown"]) == (0, 0)
    assert summary["transaction_anomalies"] == summary["order_anomalies"] == summary["commit_anomalies"] == 0
    (anomaly,) = of_kinds(live, "anomaly")
    assert (anomaly["name"], anomaly["topic"], anomaly["client_id"]) == ("held_twice", PLAIN, f"{PLAIN}-service")
    assert (anomaly["second_offset"], anomaly["held_offset"]) == (6, 7)
    commits = of_kinds(live, "commit")
    assert [(one["commit"], one["delivery"], one["commits"]) for one in commits] == [("held", "delivered", 1)]
    # The leader knows what its log directory shows once the checkpoint of its high watermarks is from after the commit.
    checkpoint = broker.log_dirs[1] / "replication-offset-checkpoint"
    until(lambda: checkpoint.stat().st_mtime > known or None, "a checkpoint of high watermarks", seconds=30)
    copied = rows_of(run, capture, "--logs", broker.log_dirs[1])
    kinds = ("witness", "fate", "read", "ended", "commit", "anomaly")
    assert of_kinds(live, *kinds) == of_kinds(copied, *kinds)

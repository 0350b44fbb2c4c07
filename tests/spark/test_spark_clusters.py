"""The audit on a standalone cluster whose executor dies, and through Spark Connect, gives what one machine gives."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kafkawire import logdir, transactions
from tests.audit_logs import NOON, LogDirectory
from tests.random_logs import PRODUCERS, damage, fill, register
from tests.spark.clusters import Cluster, call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

pytestmark = pytest.mark.spark

EXAMPLES = str(Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node")


def audited(master: str, *paths: str) -> Any:
    """In a driver: the audit's answer."""
    from kafkawire import spark

    settings = transactions.Settings(as_of=NOON)
    return msgspec.to_builtins(spark.audit(logdir.open(*paths), settings, paths=paths, master=master))


def audited_with_shipped(master: str, *paths: str) -> dict[str, Any]:
    """In a driver: the audit's answer, how many transactions there are, and where workers have this package from."""
    from kafkawire import spark

    directory = logdir.open(*paths)
    with spark.session_on(master) as session:
        spark.ship(session)
        answer = spark.audit(directory, transactions.Settings(as_of=NOON), paths=paths, spark=session)
        count = spark.transactions(directory, session).count()

        def package(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow

            import kafkawire

            for _ in batches:
                yield pyarrow.RecordBatch.from_arrays([pyarrow.array([kafkawire.__file__])], ["file"])

        (file,) = session.range(0, 1, 1, 1).mapInArrow(package, "file string").collect()
    return {"audit": msgspec.to_builtins(answer), "transactions": count, "package": file.file}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Copies of two brokers, one of them damaged."""
    random_ = random.Random(7)
    folder = tmp_path_factory.mktemp("fleet")
    found = []
    for broker in range(2):
        logs = LogDirectory(folder / f"broker-{broker}", ids=2)
        register(random_, logs)
        for number in range(6):
            fill(random_, logs.partition(f"topic{number}"), range(PRODUCERS))
        found.append(logs.write())
    damage(random_, folder / "broker-1")
    return found


@pytest.fixture(scope="module")
def expected(paths: list[str]) -> dict[str, Any]:
    answer = transactions.audit(logdir.open(*paths), transactions.Settings(as_of=NOON), paths=tuple(paths))
    assert answer.findings
    assert answer.violations
    assert answer.damage
    as_json: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(answer)))
    return as_json


def test_an_executor_that_dies_changes_nothing(cluster: Cluster, paths: list[str], expected: dict[str, Any]) -> None:
    killed: list[int] = []

    def kill_one() -> None:
        for executor in [] if killed else cluster.executors(busy=True)[:1]:
            killed.append(executor)
            os.kill(executor, signal.SIGKILL)

    found = call("tests.spark.test_spark_clusters:audited", cluster.master, *paths, watch=kill_one)
    assert killed
    assert found == expected


def test_through_connect_with_the_package_shipped(remote: str, paths: list[str], expected: dict[str, Any]) -> None:
    found = call("tests.spark.test_spark_clusters:audited_with_shipped", remote, *paths)
    assert found["audit"] == expected
    assert found["transactions"] > 50
    assert ".zip" in Path(found["package"]).parent.parent.name


def test_a_master_that_is_none_is_said_in_one_sentence() -> None:
    command = [sys.executable, "-m", "kafkawire", "audit", EXAMPLES, "--engine", "spark", "--master", "local[x]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == "error: Spark did not start on local[x]: Could not parse Master URL: 'local[x]'\n"


@pytest.mark.parametrize(
    "url", ["sc://127.0.0.1:1", "sc://127.0.0.1:none", "sc://no-such-host.invalid", "spark://127.0.0.1:1"]
)
def test_a_server_that_is_not_there_is_said_at_once(url: str) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    from kafkawire.spark.errors import SparkError
    from kafkawire.spark.session import session_on

    with pytest.raises(SparkError, match=f"^{url} does not answer: "), session_on(url):
        raise AssertionError

"""`kafkawire txn find-hanging` beside kafka-transactions.sh, on one real cluster: commands as users run them, in turn.
Kafka's tool runs with the flags that its script gives to the JVM, and with those that let one start fastest.

What counts is the clock's time from start to end, as most of it is waiting for brokers; ours reads suspects twice, but
does not wait in between (`--confirm-after 0`: that wait is the user's choice, and no work).
"""

from __future__ import annotations

import asyncio
import csv
import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from kafkawire.client import Admin, ClientError, TopicPartition
from kafkawire.messages import CreateTopicsRequest
from kafkawire.messages.create_topics_request import CreatableTopic
from tools.bench.measured_commands import CommandError, run, users_environment
from tools.bench.measurement import BenchError
from tools.bench.results import AbsentContestant, Result
from tools.bench.turns import Cost, all_absent, in_turn, timings
from tools.broker import RunningCluster, cluster
from tools.broker.errors import BrokerUnavailableError
from tools.broker.kafka_tools import FAST_START, RUN_CLASS, tool_command
from tools.recordings.raw_client import RawCluster, RawProducer

KEY = "transactions/find-hanging"
OURS = ("kafkawire native", "kafkawire python")
STOCK, FAST, JVM = "kafka-transactions", "kafka-transactions, fast start", "its JVM's start alone"
PARTITIONS, BROKERS = 1000, 3
_TOPIC = "bench"
_LIVE = 10
_HOUR_MS = 3_600_000
#: What the installed `kafkawire` is.
_SCRIPT = "import sys; from kafkawire.cli import main; sys.exit(main())"
#: Most rounds: each takes some seconds.
_ROUNDS = 15

#: (partition, producer id, start offset) of every hanging transaction.
Hanging = list[tuple[int, int, int]]


class _Contestant(NamedTuple):
    """`found` takes what the command prints to what hangs; None where it looks for nothing."""

    command: list[str]
    code: int
    found: Callable[[str], Hanging] | None
    environment: Mapping[str, str] = {}


def _once(name: str, contestant: _Contestant, hanging: Hanging) -> Cost:
    """Runs a contestant. Raises BenchError where it fails, or finds something else."""
    try:
        done = run(contestant.command, users_environment(**contestant.environment), codes=(contestant.code,))
    except CommandError as error:
        raise BenchError(f"{KEY}: {name}: {error.whole[-300:]}") from error
    if contestant.found is not None and (found := contestant.found(done.printed.decode())) != hanging:
        raise BenchError(f"{KEY}: {name} found {found}, and not {hanging}")
    return Cost(done.seconds, done.processor)


def transactions(rounds: int) -> Iterator[Result]:
    """One case: a topic of 1,000 partitions on three brokers, one of which has a hanging transaction, and ten a live
    one."""
    try:
        with cluster(BROKERS, config={"transaction.partition.verification.enable": False}) as running:
            yield find_hanging(running, PARTITIONS, min(rounds, _ROUNDS))
    except BrokerUnavailableError as error:
        yield _result(PARTITIONS, BROKERS, {}, all_absent((*OURS, STOCK, FAST, JVM), error))


def find_hanging(running: RunningCluster, partitions: int, rounds: int, *, warm_up: bool = True) -> Result:
    """The case on a cluster that runs. Raises BenchError where one of ours fails, or does not find what hangs.

    Args:
        running: brokers that do not verify transactions. `partitions`: of the topic that is created.
        rounds: how often each contestant runs; `warm_up`: after a run that does not count.
    """
    hanging = _create_transactions(running, partitions)
    arguments = ("--bootstrap-server", running.bootstrap, "find-hanging", "--topic", _TOPIC)
    ours = [sys.executable, "-c", _SCRIPT, "txn", arguments[2], *arguments[:2], *arguments[3:]]
    ours += ["--confirm-after", "0", "--format", "json"]
    contestants = {name: _Contestant(ours, 3, _ours, {"KAFKAWIRE_BACKEND": name.split()[1]}) for name in OURS}
    for name, flags in ((STOCK, RUN_CLASS), (FAST, FAST_START)):
        contestants[name] = _Contestant(tool_command("TransactionsCommand", *arguments, flags=flags), 0, _stock)
    contestants[JVM] = _Contestant(tool_command("TransactionsCommand", "--version", flags=RUN_CLASS), 0, None)
    runs = {name: partial(_once, name, contestant, hanging) for name, contestant in contestants.items()}
    return _result(partitions, len(running.nodes), *in_turn(runs, rounds, warm_up=warm_up))


def _result(
    partitions: int, brokers: int, costs: Mapping[str, Sequence[Cost]], absent: tuple[AbsentContestant, ...]
) -> Result:
    return Result(
        key=KEY,
        table="transactions",
        title=f"{partitions:,} partitions on {brokers} broker{'s' * (brokers != 1)}",
        unit="partition",
        items=partitions,
        size=0,
        timings=timings(costs, OURS),
        absent=absent,
    )


def _create_transactions(running: RunningCluster, partitions: int) -> Hanging:
    """Makes the topic and its transactions; what hangs."""
    asyncio.run(_create_topic(running.bootstrap, partitions))
    old = int(time.time() * 1000) - 3 * _HOUR_MS
    lost = RawProducer(987_654_321, 0)
    with RawCluster(running.bootstrap) as wire:
        start = wire.produce(_TOPIC, 0, [b"x"], lost, timestamp=old)
        for number in range(1, min(partitions, 1 + _LIVE)):
            alive = wire.init_producer(f"bench-{number}")
            wire.add_partitions(alive, {_TOPIC: [number]})
            wire.produce(_TOPIC, number, [b"x"], alive, timestamp=old)
    return [(0, lost.producer_id, start)]


async def _create_topic(bootstrap: str, partitions: int) -> None:
    topic = CreatableTopic(name=_TOPIC, num_partitions=partitions, replication_factor=1)
    async with Admin.connect(bootstrap) as admin:
        answer = await admin.cluster.ask_any(
            CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), admin.cluster.deadline()
        )
        if any(one.error_code for one in answer.topics):
            raise ClientError(f"the topic could not be made: {answer.topics}")
        (await admin.describe_producers(TopicPartition(_TOPIC, number) for number in range(partitions))).all()


def _ours(printed: str) -> Hanging:
    found = msgspec.json.decode(printed)["findings"]
    return [(f["partition"], f["producer_id"], f["start_offset"]) for f in found if f["verdict"] == "hanging"]


def _stock(printed: str) -> Hanging:
    text = "\n".join("\t".join(cell.strip() for cell in line.split("\t")) for line in printed.splitlines())
    rows = csv.DictReader(io.StringIO(text), delimiter="\t")
    return [(int(row["Partition"]), int(row["ProducerId"]), int(row["StartOffset"])) for row in rows]

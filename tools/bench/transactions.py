"""`kafkawire txn find-hanging` beside kafka-transactions.sh, on one real cluster: commands as users run them, in turn.
Kafka's tool runs with the flags that its script gives to the JVM, and with those that let one start fastest.

What counts is the clock's time from start to end, as most of it is waiting for brokers; ours reads suspects twice, but
does not wait in between (`--confirm-after 0`: that wait is the user's choice, and no work).
"""

from __future__ import annotations

import asyncio
import csv
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

import msgspec

from kafkawire.client import Admin, ClientError, TopicPartition
from kafkawire.messages import CreateTopicsRequest
from kafkawire.messages.create_topics_request import CreatableTopic
from tools.bench.job import AbsentError
from tools.bench.measurement import BenchError
from tools.bench.results import AbsentContestant, Result, Timing
from tools.bench.sample_data import ROOT
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


@dataclass
class _Contestant:
    """`found` takes what the command prints to what hangs; None where it looks for nothing."""

    command: list[str]
    statuses: tuple[int, ...]
    found: Callable[[str], Hanging] | None
    environment: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self) -> str:
        """Runs it once; what it printed. Raises RuntimeError where it fails."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            begun = time.monotonic()
            child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env={**_environment(), **self.environment},
                cwd=ROOT,
            )
            _, status, usage = os.wait4(child.pid, 0)
            seconds = time.monotonic() - begun
            child.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            output = errors.read().decode("utf-8", "replace").strip()
            if "native engine is not installed" in output:
                raise AbsentError(output)
            if child.returncode not in self.statuses:
                raise RuntimeError(f"it ended with {child.returncode}: {output[-300:]}")
            self.seconds.append(seconds)
            self.cpu.append(usage.ru_utime + usage.ru_stime)
            out.seek(0)
            return out.read().decode()


def transactions(rounds: int) -> Iterator[Result]:
    """One case: a topic of 1,000 partitions on three brokers, one of which has a hanging transaction, and ten a live
    one."""
    try:
        with cluster(BROKERS, config={"transaction.partition.verification.enable": False}) as running:
            yield find_hanging(running, PARTITIONS, min(rounds, _ROUNDS))
    except BrokerUnavailableError as error:
        absent = tuple(AbsentContestant(contestant=name, why=str(error)) for name in (*OURS, STOCK, FAST, JVM))
        yield _result(PARTITIONS, BROKERS, {}, absent)


def find_hanging(running: RunningCluster, partitions: int, rounds: int) -> Result:
    """The case on a cluster that runs. Raises BenchError where one of ours fails, or does not find what hangs.

    Args:
        running: brokers that do not verify transactions. `partitions`: of the topic that is created.
        rounds: how often each contestant runs.
    """
    hanging = _create_transactions(running, partitions)
    arguments = ("--bootstrap-server", running.bootstrap, "find-hanging", "--topic", _TOPIC)
    ours = [sys.executable, "-c", _SCRIPT, "txn", arguments[2], *arguments[:2], *arguments[3:]]
    present = {
        name: _Contestant(
            [*ours, "--confirm-after", "0", "--format", "json"],
            statuses=(3,),
            found=_ours,
            environment={"KAFKAWIRE_BACKEND": name.split()[1]},
        )
        for name in OURS
    }
    for name, flags in ((STOCK, RUN_CLASS), (FAST, FAST_START)):
        command = tool_command("TransactionsCommand", *arguments, flags=flags)
        present[name] = _Contestant(command, statuses=(0,), found=_stock)
    start = tool_command("TransactionsCommand", "--version", flags=RUN_CLASS)
    present[JVM] = _Contestant(start, statuses=(0,), found=None)
    absent = []
    for turn in range(rounds + 1):  # the first fills caches, and is compared
        for name, one in list(present.items()):
            try:
                printed = one.run()
            except AbsentError as error:
                absent.append(AbsentContestant(contestant=name, why=str(error)))
                del present[name]
                continue
            except RuntimeError as error:
                raise BenchError(f"{KEY}: {name}: {error}") from error
            if one.found is not None and one.found(printed) != hanging:
                raise BenchError(f"{KEY}: {name} found {one.found(printed)}, and not {hanging}")
            if not turn:
                one.seconds.clear()
                one.cpu.clear()
    return _result(partitions, len(running.nodes), present, tuple(absent))


def _result(
    partitions: int, brokers: int, present: dict[str, _Contestant], absent: tuple[AbsentContestant, ...]
) -> Result:
    return Result(
        key=KEY,
        table="transactions",
        title=f"{partitions:,} partitions on {brokers} broker{'s' * (brokers != 1)}",
        unit="partition",
        items=partitions,
        size=0,
        timings=tuple(
            Timing(contestant=name, ours=name in OURS, seconds=tuple(one.seconds), process=median(one.cpu))
            for name, one in present.items()
        ),
        absent=absent,
    )


def _environment() -> dict[str, str]:
    """As users have it: compiled modules are kept, and what is printed is buffered."""
    set_here = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if name not in set_here}


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

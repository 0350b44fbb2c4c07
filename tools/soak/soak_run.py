"""One run, from the first transaction to the last comparison."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition, libversion
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafkawire import backend
from tools.bench.machine_info import machine
from tools.broker import BrokerToolError, RunningCluster
from tools.broker.jars import BROKER_VERSION, TOOLS_VERSION
from tools.polling import until
from tools.recordings import RecordingError
from tools.recordings.clients import create_topics

from .capture_process import CaptureProcess, capturing
from .child_process import SoakError
from .comparison import capture_counts, stream_counts, watch_counts
from .hang_maker import HangingTransactions, WatchProcess, watching
from .memory_samples import Sampler
from .producer_load import ProducerLoad, load
from .soak_results import ComparedCounts, Figure, SoakResults
from .stream_process import StreamProcess, dumped, streaming

TOPIC = "soak"
_SETTLED_S = 300.0
_STEP_S = 1.0
#: What ends a part of a run, and not the whole of it.
_FAILURES = (SoakError, RecordingError, BrokerToolError, KafkaException, OSError)
#: What is kept of the capture's file at most, about: the time between two rounds of giving blocks back.
_GIVE_BACK_S = 20.0


@dataclass(frozen=True)
class SoakPlan:
    """What is run.

    seconds: of load. rate: transactions a second, over all producers.
    hang_every_s, restart_every_s: from the beginning of one to that of the next; a restart takes place while one hangs,
        and needs several brokers. crash: without a clean stop. spark: with the stream.
    """

    seconds: float
    producers: int = 8
    rate: float = 60.0
    partitions: int = 6
    hang_every_s: float = 120.0
    restart_every_s: float = 600.0
    watch_every_s: float = 5.0
    sample_every_s: float = 5.0
    crash: bool = False
    spark: bool = True
    kafka: str = BROKER_VERSION


@dataclass
class _Parts:
    """What runs."""

    load: ProducerLoad
    watching: WatchProcess
    capturing: CaptureProcess
    streaming: StreamProcess | None

    def check(self) -> None:
        """Raises SoakError where something has ended."""
        self.load.check()
        self.watching.child.check()
        self.capturing.check()
        if self.streaming is not None:
            self.streaming.child.check()


@dataclass
class SoakState:
    """What is there so far."""

    counts: list[ComparedCounts] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    whole: bool = False

    def note(self, what: str, value: object) -> None:
        self.figures.append(Figure(what=what, value=f"{value:,}" if isinstance(value, int) else str(value)))


def soak(
    running: RunningCluster, plan: SoakPlan, folder: Path, *, command: str, notify: Callable[[str], None]
) -> SoakResults:
    """Runs a plan on a cluster that lets transactions hang; Ctrl-C ends it with what there is so far.

    Args:
        folder: is made, and left to the caller. `command`: the command line, for the report.
        notify: called with messages on the progress.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = SoakState()
    sampler = Sampler(every_s=plan.sample_every_s)
    try:
        with ExitStack() as stack:
            create_topics(running.bootstrap, {TOPIC: plan.partitions}, replicas=min(3, len(running.nodes)), config={})
            parts = _start(running, plan, folder, stack, sampler)
            hangs = HangingTransactions(running, parts.watching, TOPIC, plan.partitions, folder)
            with recording_failures(results):
                _run_until_the_end(running, plan, parts, hangs, results, notify)
                results.whole = True
            sampler.end()
            with recording_failures(results):
                _end(running, parts, hangs, results, notify)
    except _FAILURES as error:
        results.failures.append(str(error))
    finally:
        sampler.end()
    here = machine(command, 0.0, 0.0)
    return SoakResults(
        command=command,
        date=here.date,
        versions=_versions(plan, here.versions["kafkawire"]),
        machine=f"{here.processor}, {here.cores} cores, {round(here.memory / 2**30)} GB; {here.system}",
        nodes=len(running.nodes),
        producers=plan.producers,
        minutes=results.seconds / 60,
        every_s=plan.sample_every_s,
        whole=results.whole,
        counts=tuple(results.counts),
        figures=tuple(results.figures),
        series=tuple(sampler.series()),
        failures=tuple(results.failures),
    )


@contextmanager
def recording_failures(results: SoakState) -> Iterator[None]:
    """Records an error of the block as a problem; the code after the block runs anyway."""
    try:
        yield
    except KeyboardInterrupt:
        results.failures.append("it was interrupted")
    except _FAILURES as error:
        results.failures.append(str(error))


def _start(running: RunningCluster, plan: SoakPlan, folder: Path, stack: ExitStack, sampler: Sampler) -> _Parts:
    """Starts everything; returns when all of it works."""
    ports = [node.port for node in running.nodes]
    captured = stack.enter_context(capturing(ports, folder / "capture"))
    watched = stack.enter_context(watching(running.bootstrap, TOPIC, folder / "watch", interval_s=plan.watch_every_s))
    stream = None
    if plan.spark:
        logs = str(running.nodes[0].log_dir / f"{TOPIC}-*")
        heap = partial(sampler.add, "Spark JVM, heap after a collection")
        stream = stack.enter_context(streaming(logs, folder / "stream", heap))
        stream.wait_started()
    until(lambda: bool(watched.numbers) or None, "the first poll", seconds=_SETTLED_S)
    loaded = stack.enter_context(
        load(running.bootstrap, TOPIC, plan.partitions, producers=plan.producers, rate=plan.rate)
    )
    children = {"txn watch": watched.child, "capture --follow": captured.child}
    if stream is not None:
        children["Spark stream, its driver in Python"] = stream.child
        sampler.processes("Spark stream, its Python workers", stream.workers)
        sampler.processes("Spark JVM", lambda: [] if stream.jvm is None else [stream.jvm], judged=False)
        sampler.folder("checkpoint of the Spark stream", stream.folder / "checkpoint", judged=False)
    for name, child in children.items():
        sampler.processes(name, partial(list, [child.process.pid]))
        sampler.folder(f"temporary files of {name}", child.temporary)
    sampler.folder("the capture's file, of which what was read is given back", captured.folder, judged=False)
    sampler.start()
    return _Parts(loaded, watched, captured, stream)


def _run_until_the_end(
    running: RunningCluster,
    plan: SoakPlan,
    parts: _Parts,
    hangs: HangingTransactions,
    results: SoakState,
    notify: Callable[[str], None],
) -> None:
    """Makes hanging transactions, restarts brokers and checks all processes until the time is over."""
    begun = time.monotonic()
    hang_at, restart_at, give_back_at = begun, begun + plan.restart_every_s, begun
    restarts = 0
    try:
        while (now := time.monotonic()) < begun + plan.seconds:
            parts.check()
            if now >= give_back_at:
                parts.capturing.give_back()
                give_back_at = now + _GIVE_BACK_S
            if now < hang_at:
                time.sleep(_STEP_S)
                continue
            hang_at = now + plan.hang_every_s
            restart = None
            if now >= restart_at and len(running.nodes) > 1:
                node = running.nodes[restarts % len(running.nodes)].node_id
                restart = partial(_crash, running, node) if plan.crash else partial(running.restart_node, node)
                restart_at += plan.restart_every_s
                restarts += 1
            hangs.one(restart)
            notify(
                f"{(now - begun) / 60:.1f} min: {len(hangs.made)} hangs, {restarts} restarts, "
                f"{parts.capturing.exchanges:,} exchanges captured, {len(parts.watching.numbers)} polls"
            )
    finally:
        results.seconds = time.monotonic() - begun
        results.note("restarts of a broker, while a transaction hung", restarts)


def _crash(running: RunningCluster, node_id: int) -> None:
    """As by a power cut: what the broker had not given to others yet is cut off when it comes back."""
    running.kill_node(node_id)
    running.start_node(node_id)


def _end(
    running: RunningCluster,
    parts: _Parts,
    hangs: HangingTransactions,
    results: SoakState,
    notify: Callable[[str], None],
) -> None:
    """Stops one after the other, and compares."""
    notify("the load ends; what was written, sent and read is compared")
    with recording_failures(results):
        hangs.finish()
    parts.load.stop()
    parts.load.check()
    wrote = parts.load.wrote()
    results.note("transactions committed", wrote.committed)
    results.note("transactions aborted by their producers", wrote.aborted)
    results.note("transactions in which something failed, as brokers restarted", wrote.failed)
    results.note("records whose fate their producer did not learn", len(wrote.unknown))
    if parts.streaming is not None:
        ends = until(lambda: _settled(running), "the last markers", seconds=_SETTLED_S)
        rows = parts.streaming.read_up_to(ends)
        parts.streaming.end()
        results.counts += stream_counts(
            rows, wrote, hangs.made, ends, dumped(parts.streaming.logs, version=TOOLS_VERSION)
        )
    parts.watching.end()
    results.counts += watch_counts(parts.watching, hangs)
    for outcome, count in parts.watching.outcomes.items():
        results.note(f"polls of txn watch: {outcome}", count)
    results.note("polls of txn watch that were skipped, as its summary states", parts.watching.missed)
    parts.capturing.end()
    results.counts += capture_counts(parts.capturing, wrote, hangs)
    results.note("exchanges captured", parts.capturing.exchanges)
    results.note("packets captured", parts.capturing.captured)
    results.note("bytes of the capture", parts.capturing.bytes)
    for problem, count in parts.capturing.problems.most_common():
        results.note(f"exchanges captured with the problem: {problem}", count)


def _settled(running: RunningCluster) -> dict[int, int] | None:
    """The end of each partition, once no transaction is open in any: EndTxn is answered before markers are written."""
    stable, end = (_ends(running.bootstrap, isolation) for isolation in IsolationLevel)
    return end if stable == end else None


def _ends(bootstrap: str, isolation: IsolationLevel) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "soak-ends", "log_level": 0})
    partitions = admin.list_topics(TOPIC, timeout=_SETTLED_S).topics[TOPIC].partitions
    asked = {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in partitions}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=_SETTLED_S)
    return {place.partition: answer.result().offset for place, answer in answers.items()}


def _versions(plan: SoakPlan, ours: str) -> dict[str, str]:
    found = {"kafkawire": f"{ours}, {backend} engine", "Python": platform.python_version(), "Kafka": plan.kafka}
    found["librdkafka"] = libversion()[0]
    if plan.spark:
        found["PySpark"] = version("pyspark")
    return found

"""examples/kafka-logs: log directories of brokers in which transactions hang, are in progress, or have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from tools.broker import RunningCluster, cluster

from . import RecordingError, broker_answers, clients
from .clients import Service, order
from .log_copies import copy_log_directory
from .raw_client import RawCluster, RawProducer, expect

MINUTE = 60_000
HOUR = 60 * MINUTE
SEGMENT_MS = 4_000
SETTLE_S = 2.0  # followers learn the high watermark with their next fetch

INVALID_TXN_STATE = 48

# What lets transactions hang as they did before Kafka 3.6.
CONFIG: Mapping[str, object] = {"transaction.partition.verification.enable": False}


@dataclass
class RecipeCase:
    """An open transaction in one partition: how it was made, and its true state; `verdict`, `reason`: of docs/audit.md.

    `start_offset` None: where the broker has it.
    """

    story: str
    verdict: str
    reason: str
    topic: str
    partition: int
    producer_id: int
    start_offset: int | None = None


@dataclass
class TransactionScene:
    """A running cluster and what has been done to it. Times are epoch milliseconds.

    Args of the methods that leave a transaction open: `topic`, `partition`: where. `hours`: age of its records.
    """

    running: RunningCluster
    wire: RawCluster
    now: int = field(default_factory=clients.now)
    cases: list[RecipeCase] = field(default_factory=list)
    # Producers whose decided transactions never complete, although nothing of them is open.
    unfinished: set[int] = field(default_factory=set)
    # Clients whose transactions stay open: they must not be collected before the brokers have stopped.
    left_open: list[Service] = field(default_factory=list)
    #: Whether brokers list transactions: from 3.0 on.
    transactions: bool = True

    def add_case(
        self, story: str, verdict: str, reason: str, place: tuple[str, int], producer: RawProducer, start: int
    ) -> None:
        """An open transaction. Args: as of `RecipeCase`; `place`: (topic, partition)."""
        self.cases.append(RecipeCase(story, verdict, reason, *place, producer.producer_id, start))

    def service(self, transactional_id: str, **options: Any) -> Service:
        return Service(self.running.bootstrap, transactional_id, **options)

    def hours_ago(self, hours: float) -> int:
        return self.now - int(hours * HOUR)

    # --- open transactions, one recipe each (docs/audit.md has the reasons' meanings)

    def without_id(self, topic: str, partition: int, *, hours: float, reason: str = "no_transactional_id") -> None:
        """An open transaction of a producer without a transactional id.

        Args:
            topic, partition: where it stays open. `hours`: age of its records.
            reason: of its verdict; "young" and "ghost" do not hang.
        """
        producer = self.wire.init_producer(None)
        start = self.wire.produce(topic, partition, some_orders(900, 3), producer, timestamp=self.hours_ago(hours))
        verdict = "hanging" if reason == "no_transactional_id" else "not_hanging"
        story = "a transactional batch of a producer id that was given out without a transactional id"
        self.add_case(story, verdict, reason, (topic, partition), producer, start)

    def late_batch(self, topic: str, partition: int, transactional_id: str, *, hours: float, version: int = 11) -> None:
        """A batch that arrives after its transaction has been committed (KAFKA-14402).

        Args:
            version: of the Produce request that brings it. The others: see the class.
        """
        producer = self.wire.init_producer(transactional_id)
        then = self.hours_ago(hours)
        self.wire.add_partitions(producer, {topic: [partition]})
        self.wire.produce(topic, partition, some_orders(910, 2), producer, timestamp=then)
        expect(self.wire.end(producer, committed=True), 0, "EndTxn")
        self.wait_until_ended(topic, partition, producer)
        start = self.wire.produce(
            topic, partition, some_orders(912, 2), producer, sequence=2, version=version, timestamp=then + MINUTE
        )
        story = "a batch of the same producer epoch that arrived after its transaction had been committed (KAFKA-14402)"
        self.add_case(story, "hanging", "transaction_ended", (topic, partition), producer, start)

    def never_added(self, topic: str, partition: int, transactional_id: str, *, hours: float, version: int = 9) -> None:
        """A batch in a partition that was never added to the transaction. Args: see the class."""
        producer = self.wire.init_producer(transactional_id)
        start = self.wire.produce(
            topic, partition, some_orders(920, 3), producer, timestamp=self.hours_ago(hours), version=version
        )
        # The producer learns it from EndTxn, if from anything: there is nothing to end.
        expect(self.wire.end(producer, committed=True), INVALID_TXN_STATE, "EndTxn")
        story = (
            f"a batch (Produce v{version}) without AddPartitionsToTxn: the coordinator knows the id and no transaction "
            "of it"
        )
        self.add_case(story, "hanging", "partition_not_in_transaction", (topic, partition), producer, start)

    def bumped(self, topic: str, partition: int, transactional_id: str, *, hours: float) -> None:
        """A batch that was not added; its producer restarts with a higher epoch. Args: see the class."""
        producer = self.wire.init_producer(transactional_id)
        start = self.wire.produce(topic, partition, some_orders(930, 1), producer, timestamp=self.hours_ago(hours))
        again = self.wire.init_producer(transactional_id)
        if (again.producer_id, again.epoch) <= (producer.producer_id, producer.epoch):
            raise RecordingError(f"the epoch of {transactional_id} was not bumped: {again}")
        story = "a batch without AddPartitionsToTxn, then a restart of its producer: the coordinator has a newer epoch"
        self.add_case(story, "hanging", "epoch_bumped", (topic, partition), producer, start)

    def one_partition_too_many(
        self, added: tuple[str, int], other: tuple[str, int], transactional_id: str, *, hours: float
    ) -> None:
        """An ongoing transaction that writes to two partitions and has added one of them.

        Args:
            added, other: (topic, partition). `hours`: age of the records.
        """
        producer = self.wire.init_producer(transactional_id)
        then = self.hours_ago(hours)
        self.wire.add_partitions(producer, {added[0]: [added[1]]})
        live = self.wire.produce(*added, some_orders(940, 2), producer, timestamp=then)
        lost = self.wire.produce(*other, some_orders(942, 2), producer, timestamp=then + MINUTE)
        story = "an ongoing transaction with old timestamps, of this partition only"
        self.add_case(story, "not_hanging", "live", added, producer, live)
        story = f"a batch of a producer whose ongoing transaction has {added[0]}-{added[1]} only"
        self.add_case(story, "hanging", "partition_not_in_transaction", other, producer, lost)

    def live(self, topic: str, partition: int, transactional_id: str, *, hours: float) -> None:
        """An ongoing transaction of a client that runs, with old timestamps. Args: see the class."""
        service = self.service(transactional_id)
        service.begin()
        service.send(topic, partition, range(950, 953), timestamp=self.hours_ago(hours))
        self.left_open.append(service)
        producer_id = self._open_in(topic, partition)
        story = "an ongoing transaction of a real client with old timestamps"
        self.cases.append(RecipeCase(story, "not_hanging", "live", topic, partition, producer_id))

    def stuck_prepare(self, topic: str, partition: int, transactional_id: str, *, hours: float) -> None:
        """A transaction that is committed, and whose COMMIT marker the partition refuses. Args: see the class."""
        producer = self.wire.init_producer(transactional_id)
        self.wire.add_partitions(producer, {topic: [partition]})
        # A marker of a coordinator epoch that no coordinator will reach: from now on the coordinator's own are fenced.
        self.wire.write_marker(topic, partition, producer, coordinator_epoch=1_000_000)
        start = self.wire.produce(topic, partition, some_orders(960, 2), producer, timestamp=self.hours_ago(hours))
        expect(self.wire.end(producer, committed=True), 0, "EndTxn")
        story = "committed; the coordinator's marker is refused for ever: it stays PrepareCommit"
        self.add_case(story, "not_hanging", "stuck_prepare", (topic, partition), producer, start)

    def wait_until_ended(self, topic: str, partition: int, producer: RawProducer) -> None:
        """Waits until a producer has no open transaction in a partition: EndTxn is answered before markers are written.

        Args:
            topic, partition: one of the transaction's.
        """

        def ended(truth: broker_answers.Truth) -> bool:
            return not truth.producer(topic, partition, producer.producer_id).open

        if not ended(broker_answers.ask_until(self.wire, [topic], ended, transactions=self.transactions)):
            raise RecordingError(f"the marker of producer id {producer.producer_id} does not arrive")

    def _open_in(self, topic: str, partition: int) -> int:
        """The producer id of the newest open transaction in a partition."""
        states = broker_answers.ask(self.wire, [topic], transactions=self.transactions).producers
        opened = [state for state in states if state.open and state.partition == partition]
        if not opened:
            raise RecordingError(f"nothing is open in {topic}-{partition}")
        return max(opened, key=lambda state: state.current_txn_start_offset).producer_id


@dataclass(frozen=True)
class TransactionRecipe:
    """What to do to a cluster. `config`: properties of topics, `brokers`: of the brokers."""

    name: str
    nodes: int
    topics: Mapping[str, int]
    act: Callable[[TransactionScene], None]
    replicas: int = 1
    config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[str, object] = field(default_factory=lambda: CONFIG)


def _one_node(scene: TransactionScene) -> None:
    _finished(scene, 4.0)
    scene.late_batch("orders", 1, "orders-archiver", hours=3)
    scene.without_id("payments", 0, hours=2.5)
    scene.live("orders", 0, "refunds-service", hours=2)
    _after_the_hang(scene, 1.0)
    scene.without_id("orders", 0, hours=0, reason="young")


def _three_nodes(scene: TransactionScene) -> None:
    _finished(scene, 6.0)
    scene.without_id("orders", 0, hours=5)
    scene.never_added("orders", 1, "labels-service", hours=4.5)
    scene.bumped("orders", 1, "coupons-service", hours=4)
    scene.live("orders", 2, "refunds-service", hours=4)
    scene.late_batch("payments", 0, "orders-archiver", hours=3)
    scene.one_partition_too_many(("audit-trail", 0), ("payments", 1), "audit-service", hours=2.5)
    scene.stuck_prepare("ledger", 0, "ledger-service", hours=2)
    time.sleep(SEGMENT_MS / 1000)
    _after_the_hang(scene, 1.0)
    scene.without_id("orders", 0, hours=0, reason="young")


RECIPES = (
    TransactionRecipe("one-node", 1, {"orders": 2, "payments": 1}, _one_node),
    TransactionRecipe(
        "three-nodes",
        3,
        {"orders": 3, "payments": 2, "audit-trail": 1, "ledger": 1},
        _three_nodes,
        replicas=3,
        # Segments end while transactions are open.
        config={"payments": {"segment.ms": str(SEGMENT_MS), "retention.ms": "-1"}},
    ),
)


def make(recipe: TransactionRecipe, target: Path, *, cache: Path | None = None) -> dict[str, Any]:
    """Runs a recipe, copies the log directories to `target/broker-<node id>`; the truth about them, as JSON values.

    Args:
        recipe: topics and brokers, and what is done to them. `target`: folder; `broker-<node id>` are made in it.
        cache: folder of Kafka's jars; by default `jars.cache_dir()`.
    """
    with cluster(recipe.nodes, config=recipe.brokers, cache=cache) as running, RawCluster(running.bootstrap) as wire:
        scene = TransactionScene(running, wire)
        clients.create_topics(running.bootstrap, recipe.topics, replicas=recipe.replicas, config=recipe.config)
        recipe.act(scene)
        truth = settled_answers(scene, recipe.topics)
        opened = _compare(scene, truth)
        time.sleep(SETTLE_S)
        if not running.stop():
            raise RecordingError(f"{recipe.name}: a broker did not stop by itself: its directory is no clean copy")
        for node_id, log_dir in running.log_dirs.items():
            if not (log_dir / ".kafka_cleanshutdown").exists():
                raise RecordingError(f"{recipe.name}: broker {node_id} was not shut down cleanly")
            copy_log_directory(log_dir, target / f"broker-{node_id}", metadata_index_bytes=0)
        scene.left_open.clear()
    return {"topics": dict(recipe.topics), "open": opened, **broker_answers.as_json(truth)}


def _finished(scene: TransactionScene, hours: float) -> None:
    """Transactions that ended well before anything hangs: committed and aborted, side by side, by three clients."""
    orders, invoices = scene.service("orders-service"), scene.service("invoices-service", codec="lz4")
    then = scene.hours_ago(hours)
    orders.transaction({("orders", 0): range(3), ("orders", 1): range(3, 6)}, timestamp=then)
    # Two at once in one partition; the one that began first is aborted last.
    orders.begin()
    orders.send("orders", 0, range(10, 13), timestamp=then + MINUTE)
    invoices.begin()
    invoices.send("orders", 0, range(100, 102), timestamp=then + 2 * MINUTE)
    invoices.send("payments", 0, range(102, 104), timestamp=then + 2 * MINUTE)
    invoices.end(committed=False)
    orders.end(committed=False)
    invoices.transaction({("payments", 0): range(110, 116)}, timestamp=then + 5 * MINUTE)
    orders.transaction({("orders", 1): range(20, 24)}, timestamp=then + 6 * MINUTE, committed=False)
    shipped = [("orders", 0), ("orders", 1)]
    reader = clients.consumer(scene.running.bootstrap, "shipments")
    clients.copy_exactly_once(scene.service("shipments-service"), reader, shipped, ("payments", 0), bytes.upper)
    reader.close()
    # Kafka's Java producer, transaction version 2: every end bumps the epoch.
    clients.java_transactions(
        scene.running.bootstrap, "payments", "shipping-service", records=40, per_second=100, duration_ms=100
    )


def _after_the_hang(scene: TransactionScene, hours: float) -> None:
    """Later transactions: committed, but invisible to readers of committed data."""
    orders = scene.service("orders-service")
    for i in range(3):
        orders.transaction(
            {("orders", 0): [30 + i], ("orders", 1): [40 + i], ("payments", 0): [50 + i]},
            timestamp=scene.hours_ago(hours) + i * MINUTE,
        )


def settled_answers(scene: TransactionScene, topics: Mapping[str, int]) -> broker_answers.Truth:
    """The brokers' answers once the markers of all transactions that ended have arrived."""
    made = {(case.topic, case.partition, case.producer_id) for case in scene.cases}
    stuck = {case.producer_id for case in scene.cases if case.reason == "stuck_prepare"} | scene.unfinished

    def settled(truth: broker_answers.Truth) -> bool:
        return all(not state.open or state.place in made for state in truth.producers) and all(
            not transaction.state.startswith("Prepare") or transaction.producer_id in stuck
            for transaction in truth.transactions
        )

    return broker_answers.ask_until(scene.wire, topics, settled)


#: Reasons of transactions that no coordinator knows, and of those that one holds.
_WITHOUT_COORDINATOR = frozenset({"no_transactional_id", "young", "ghost"})
_HELD = frozenset({"live", "two_phase_commit", "stuck_prepare"})


def _compare(scene: TransactionScene, truth: broker_answers.Truth) -> list[dict[str, Any]]:
    """Compares what was made with the brokers' answers: they must agree, or the examples are wrong.

    Returns the cases with these answers, as JSON values. `blocked`: it holds the partition's last stable offset back.
    `transactional_id` and `coordinator_state` are null where no coordinator knows the producer id.
    """
    opened = []
    for case in scene.cases:
        state = truth.producer(case.topic, case.partition, case.producer_id)
        place = f"{case.topic}-{case.partition}, producer id {case.producer_id}"
        if state.current_txn_start_offset < 0 or case.start_offset not in (None, state.current_txn_start_offset):
            raise RecordingError(f"{place}: expected to be open at {case.start_offset}, the broker's answer is {state}")
        transaction = truth.transaction(case.producer_id)
        listed = transaction is not None and (case.topic, case.partition) in transaction.partitions
        if (transaction is None) != (case.reason in _WITHOUT_COORDINATOR):
            raise RecordingError(f"{place}: {case.reason}, and the coordinators' answer is {transaction}")
        if listed != (case.reason in _HELD):
            raise RecordingError(f"{place}: {case.reason}, and the coordinator's partitions are {transaction}")
        opened.append(
            {
                **asdict(case),
                "start_offset": state.current_txn_start_offset,
                "blocked": _blocks(truth.offsets_of(case.topic, case.partition), state.current_txn_start_offset),
                "producer_epoch": state.producer_epoch,
                "last_timestamp": state.last_timestamp,
                "coordinator_epoch": state.coordinator_epoch,
                "transactional_id": transaction.transactional_id if transaction else None,
                "coordinator_state": transaction.state if transaction else None,
            }
        )
    known = {(case.topic, case.partition, case.producer_id) for case in scene.cases}
    for state in truth.producers:
        if state.open and state.place not in known:
            raise RecordingError(f"an open transaction of no recipe: {state}")
    return sorted(opened, key=itemgetter("topic", "partition", "start_offset"))


def _blocks(offsets: broker_answers.LeaderOffsets, start: int) -> bool:
    """Whether a transaction from `start` on is the one that holds the last stable offset back."""
    stable = offsets.last_stable_offset
    return stable == max(start, offsets.log_start_offset) and stable < offsets.high_watermark


def some_orders(first: int, count: int) -> list[bytes]:
    return [order(number) for number in range(first, first + count)]

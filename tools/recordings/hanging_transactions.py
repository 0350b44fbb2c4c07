"""All ways in which a transaction hangs, or only seems to, in the log directories of three brokers.

The log directories of three Kafka 4.4.0 brokers (transaction.version 2), a topic for each setup, and `truth.json`: what
is open, and the verdict on it as of two clocks; where nothing is open, although it might look so; and which rules of
the protocol were broken on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_END

from . import RecordingError, clients, transaction_recipes
from .cluster_clients import delete_records, set_broker_config
from .raw_client import TRANSIENT, RawProducer, expect
from .transaction_recipes import (
    HOUR,
    INVALID_TXN_STATE,
    TransactionRecipe,
    TransactionScene,
    some_orders,
)

VERIFICATION = "transaction.partition.verification.enable"
TRANSACTION_ABORTABLE = 120
#: The later clock of the truth: what was young is old by then, and live transactions are past their timeouts.
LATER_MS = 3 * HOUR
#: Reason -> verdict and reason by that clock; the others stay.
_LATER = {"young": ("hanging", "no_transactional_id"), "live": ("not_hanging", "late")}
#: A producer id that no coordinator has given to anyone.
INVENTED = 5_000_000
FENCE = 1_000_000
#: Files without facts about transactions, in addition to offset and time indexes.
SPARED = frozenset({"partition.metadata", "leader-epoch-checkpoint"})

TOPICS: Mapping[str, int] = {
    "first": 3,
    "ended": 2,
    "verified": 3,
    "unverified": 6,
    "invented": 1,
    "nobodys": 1,
    "late-batch": 1,
    "half-added": 3,
    "stuck": 1,
    "torn": 2,
    "live": 1,
    "two-phase": 1,
    "bumped": 1,
    "timed-out": 1,
    "fenced": 1,
    "empty": 1,
    "repaired": 1,
    "ghost": 1,
    "young": 1,
}

BROKERS: Mapping[str, object] = {
    "transaction.two.phase.commit.enable": True,
    "unstable.api.versions.enable": True,  # InitProducerId v6
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 1,
}

#: Where nothing may be found, and why it might.
QUIET = {
    "ended-0": "commits and aborts of librdkafka (version 0) and of Kafka's Java producer (version 2)",
    "ended-1": "the same",
    "verified-0": "verification on, Produce v9 without AddPartitionsToTxn: refused with error 48",
    "verified-1": "verification on, Produce v11: refused with error 120",
    "verified-2": "verification on, Produce v12: the broker adds the partition itself, and EndTxn ends it",
    "unverified-5": "verification off, Produce v12: the broker adds the partition itself, and EndTxn ends it",
    "torn-0": "the COMMIT marker of the transaction that was aborted by hand in torn-1",
    "torn-1": "a stuck PrepareCommit that an operator aborted: nothing is open, and the data is lost",
    "timed-out-0": "the coordinator aborted it at its timeout",
    "fenced-0": "the coordinator aborted it when its producer came again",
    "empty-0": "markers without data",
    "repaired-0": "hung, and was aborted as KIP-664 says",
}

#: Rules that were broken on purpose, beside what is open: (check, topic-partition or transactional id); and those that
#: only the later clock shows.
BROKEN = (("one_outcome", "torn-1"), ("producer_id_unique", "invented-0"), ("prepare_completed", "stuck"))
BROKEN_LATER = (("prepare_completed", "torn"),)


def visit(scene: TransactionScene) -> None:
    """Everything, in order: first what brokers refuse while they verify, then what they did before Kafka 3.6."""
    _verified(scene)
    _ended(scene)
    _stop_verifying(scene)
    for partition, version in enumerate((3, 8, 9, 10, 11)):
        scene.never_added("unverified", partition, f"unverified-v{version}", hours=3, version=version)
    _added_by_the_broker(scene, "unverified", 5)
    _invented(scene)
    scene.without_id("nobodys", 0, hours=2.5)
    scene.late_batch("late-batch", 0, "late-batch", hours=3)
    scene.one_partition_too_many(("half-added", 0), ("half-added", 2), "half-added", hours=2.5)
    scene.bumped("bumped", 0, "bumped", hours=4)
    scene.stuck_prepare("stuck", 0, "stuck", hours=2)
    _torn(scene)
    _two_phase(scene)
    _timed_out(scene)
    _fenced(scene)
    _empty(scene)
    _repaired(scene)
    _ghost(scene)
    scene.live("live", 0, "live", hours=5)
    # The coordinators' log continues after all that hangs.
    last = scene.service("last")
    for i in range(3):
        last.transaction({("ended", 0): [60 + i], ("ended", 1): [70 + i]}, timestamp=scene.now)
    scene.without_id("young", 0, hours=0, reason="young")


RECIPE = TransactionRecipe("hanging-transactions", 3, TOPICS, visit, replicas=3, brokers=BROKERS)


# Setups that the examples do not have --------------------------------------------------------------------------------


def _verified(scene: TransactionScene) -> None:
    for partition, version, code in ((0, 9, INVALID_TXN_STATE), (1, 11, TRANSACTION_ABORTABLE)):
        producer = scene.wire.init_producer(f"verified-v{version}")
        scene.wire.produce(
            "verified",
            partition,
            some_orders(1, 2),
            producer,
            timestamp=scene.hours_ago(3),
            version=version,
            expected=code,
        )
    _added_by_the_broker(scene, "verified", 2)


def _added_by_the_broker(scene: TransactionScene, topic: str, partition: int) -> None:
    producer = scene.wire.init_producer(f"{topic}-v12")
    scene.wire.produce(topic, partition, some_orders(5, 2), producer, timestamp=scene.hours_ago(3), version=12)
    expect(scene.wire.end(producer, committed=True, version=5), 0, "EndTxn")
    scene.wait_until_ended(topic, partition, producer)


def _ended(scene: TransactionScene) -> None:
    one, two = scene.service("ended-1"), scene.service("ended-2", codec="lz4")
    then = scene.hours_ago(6)
    one.transaction({("ended", 0): range(3), ("ended", 1): range(3, 6)}, timestamp=then)
    one.begin()
    one.send("ended", 0, range(10, 13), timestamp=then)
    two.transaction({("ended", 0): range(100, 102), ("ended", 1): range(102, 104)}, timestamp=then, committed=False)
    one.end(committed=False)
    clients.java_transactions(
        scene.running.bootstrap, "ended", "ended-java", records=40, per_second=100, duration_ms=100
    )


def _stop_verifying(scene: TransactionScene) -> None:
    """Each broker takes its new property up in its own time: a batch that would hang is tried until it is taken."""
    for node in scene.running.nodes:
        set_broker_config(scene.running.bootstrap, node.node_id, VERIFICATION, "false")
    if {*scene.wire.leaders(["first"]).values()} != {node.node_id for node in scene.running.nodes}:
        raise RecordingError("topic first is not led by all brokers")
    for partition in range(TOPICS["first"]):
        _wait_unverified(scene, "first", partition)


def _wait_unverified(scene: TransactionScene, topic: str, partition: int) -> None:
    """Until the partition's leader takes a batch unverified. The batch is committed: nothing stays open of it."""
    producer = scene.wire.init_producer("first")
    scene.wire.produce(
        topic,
        partition,
        some_orders(7, 1),
        producer,
        timestamp=scene.hours_ago(6),
        passing=TRANSIENT | {INVALID_TXN_STATE},
    )
    scene.wire.add_partitions(producer, {topic: [partition]})
    expect(scene.wire.end(producer, committed=True), 0, "EndTxn")
    scene.wait_until_ended(topic, partition, producer)


def _invented(scene: TransactionScene) -> None:
    producer = RawProducer(INVENTED, 0)
    start = scene.wire.produce("invented", 0, some_orders(20, 2), producer, timestamp=scene.hours_ago(2.5))
    story = "a producer id that no broker allocated"
    scene.add_case(story, "hanging", "no_transactional_id", ("invented", 0), producer, start)


def _torn(scene: TransactionScene) -> None:
    """What kafka-transactions.sh abort does to a stuck PrepareCommit: one partition committed, the other aborted."""
    producer = scene.wire.init_producer("torn")
    scene.wire.add_partitions(producer, {"torn": [0, 1]})
    scene.wire.write_marker("torn", 1, producer, coordinator_epoch=FENCE)
    for partition in (0, 1):
        scene.wire.produce("torn", partition, some_orders(30, 2), producer, timestamp=scene.hours_ago(2))
    expect(scene.wire.end(producer, committed=True), 0, "EndTxn")
    scene.wait_until_ended("torn", 0, producer)
    scene.wire.write_marker("torn", 1, producer, coordinator_epoch=FENCE)
    scene.unfinished.add(producer.producer_id)


def _two_phase(scene: TransactionScene) -> None:
    producer = scene.wire.init_producer("two-phase", two_phase=True)
    scene.wire.add_partitions(producer, {"two-phase": [0]})
    start = scene.wire.produce("two-phase", 0, some_orders(40, 2), producer, timestamp=scene.hours_ago(5))
    story = "an ongoing transaction of a two-phase commit, which never times out (KIP-939)"
    scene.add_case(story, "not_hanging", "two_phase_commit", ("two-phase", 0), producer, start)


def _timed_out(scene: TransactionScene) -> None:
    producer = scene.wire.init_producer("timed-out", timeout_ms=1000)
    scene.wire.add_partitions(producer, {"timed-out": [0]})
    scene.wire.produce("timed-out", 0, some_orders(50, 2), producer, timestamp=scene.hours_ago(3))
    scene.wait_until_ended("timed-out", 0, producer)


def _fenced(scene: TransactionScene) -> None:
    producer = scene.wire.init_producer("fenced")
    scene.wire.add_partitions(producer, {"fenced": [0]})
    scene.wire.produce("fenced", 0, some_orders(55, 2), producer, timestamp=scene.hours_ago(3))
    scene.wire.init_producer("fenced")
    scene.wait_until_ended("fenced", 0, producer)


def _empty(scene: TransactionScene) -> None:
    producer = scene.wire.init_producer("empty")
    for committed in (True, False):
        scene.wire.add_partitions(producer, {"empty": [0]})
        expect(scene.wire.end(producer, committed=committed), 0, "EndTxn")


def _repaired(scene: TransactionScene) -> None:
    producer = scene.wire.init_producer("repaired")
    scene.wire.produce("repaired", 0, some_orders(80, 2), producer, timestamp=scene.hours_ago(3))
    scene.wire.write_marker("repaired", 0, producer, coordinator_epoch=0)
    scene.wait_until_ended("repaired", 0, producer)


def _ghost(scene: TransactionScene) -> None:
    """An operator deletes the records of a transaction that hangs. It is in the producer state still."""
    scene.without_id("ghost", 0, hours=3, reason="ghost")
    delete_records(scene.running.bootstrap, "ghost", OFFSET_END)
    scene.service("after-ghost").transaction({("ghost", 0): range(90, 93)}, timestamp=scene.hours_ago(1))


# The folder ----------------------------------------------------------------------------------------------------------


def truth_of(made: dict[str, Any]) -> dict[str, Any]:
    """The truth table: clocks, and every open transaction with its verdict by each."""
    opened = []
    for row in made["open"]:
        verdict, reason = _LATER.get(row["reason"], (row["verdict"], row["reason"]))
        opened.append({**row, "later": {"verdict": verdict, "reason": reason}})
    return {
        "as_of": made["asked_at"],
        "later": made["asked_at"] + LATER_MS,
        "open": opened,
        "quiet": QUIET,
        "broken": [{"check": check, "of": of} for check, of in BROKEN],
        "broken_later": [{"check": check, "of": of} for check, of in BROKEN_LATER],
        "offsets": made["offsets"],
    }


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes the log directories `broker-1` to `broker-3` and `truth.json` in `folder`."""
    made = transaction_recipes.make(RECIPE, folder, cache=cache)
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".index", ".timeindex") or path.name in SPARED:
            path.unlink()
    (folder / "truth.json").write_text(json.dumps(truth_of(made), indent=1) + "\n")

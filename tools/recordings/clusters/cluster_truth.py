"""`truth.json`: what was made, what brokers and Kafka's own tool answered, and what consumers got."""

from __future__ import annotations

import json
from typing import Any

from tools.broker import RunningCluster
from tools.recordings import broker_answers, clients
from tools.recordings.cluster_clients import read_offsets
from tools.recordings.raw_client import RawCluster
from tools.recordings.transaction_recipes import RecipeCase, TransactionScene

from .configurations import Configuration
from .workload import INTERNAL_PARTITIONS, topics_of

LEVELS = ("read_committed", "read_uncommitted")


def asked(configuration: Configuration, running: RunningCluster, scene: TransactionScene) -> dict[str, Any]:
    """The truth about a running cluster on which everything has ended that will.

    Args:
        scene: has what was left open.
    """
    open_here = {(case.topic, case.partition, case.producer_id) for case in scene.cases}

    def settled(answer: broker_answers.Truth) -> bool:
        return all(not state.open or state.place in open_here for state in answer.producers) and not any(
            transaction.state.startswith("Prepare") for transaction in answer.transactions
        )

    topics = topics_of(configuration)
    with RawCluster(running.bootstrap) as wire:
        answers = broker_answers.ask_until(wire, topics, settled, transactions=not configuration.zookeeper)
    places = [(topic, number) for topic, count in topics.items() for number in range(count)]
    return {
        "version": configuration.upgraded or configuration.version,
        "transaction_state_partitions": INTERNAL_PARTITIONS,
        "left_open": [_case(case, answers) for case in scene.cases],
        "consumed": {level: read_offsets(running.bootstrap, places, f"truth-{level}", level) for level in LEVELS},
        "found_by_kafka": [] if configuration.zookeeper else found_by_kafka(running),
        **broker_answers.as_json(answers),
    }


def as_text(truth: dict[str, Any]) -> str:
    """JSON with a row a line."""
    parts = []
    for name, value in truth.items():
        if isinstance(value, list):
            rows = ",\n  ".join(map(json.dumps, value))
            parts.append(f'"{name}": [\n  {rows}\n ]')
        elif name == "consumed":
            levels = [
                f'"{level}": {{\n   '
                + ",\n   ".join(f'"{place}": {json.dumps(offsets)}' for place, offsets in got.items())
                + "}"
                for level, got in value.items()
            ]
            parts.append(f'"{name}": {{\n  ' + ",\n  ".join(levels) + "}")
        else:
            parts.append(f'"{name}": {json.dumps(value)}')
    return "{" + ",\n ".join(parts) + "}\n"


def _case(case: RecipeCase, answers: broker_answers.Truth) -> dict[str, Any]:
    start = answers.producer(case.topic, case.partition, case.producer_id).current_txn_start_offset
    names = ("topic", "partition", "producer_id", "start_offset", "verdict", "reason")
    return {name: start if name == "start_offset" else getattr(case, name) for name in names}


def found_by_kafka(running: RunningCluster) -> list[dict[str, Any]]:
    """The rows of kafka-transactions.sh find-hanging, for each broker."""
    rows = []
    for node in running.nodes:
        printed = clients.kafka_transactions(running.bootstrap, "find-hanging", "--broker-id", str(node.node_id))
        head, *lines = [line.split() for line in printed.splitlines() if line.strip()]
        rows += [dict(zip(head, line, strict=True)) for line in lines]
    return rows

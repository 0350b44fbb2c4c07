"""`kafkawire txn describe-producers`: the producers that leaders, or all replicas, of partitions remember."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from kafkawire.cli import output
from kafkawire.cli import txn_options as txn
from kafkawire.cli.arguments import MINUTE_MS
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.findings import chosen_format, print_line
from kafkawire.cli.option_groups import exclusive, refusing
from kafkawire.cli.output_file import check_output
from kafkawire.cli.table import TableView

if TYPE_CHECKING:
    from kafkawire.client import Admin, ProducerState, TopicPartition


class ProducerRow(txn.TransactionToolRow, frozen=True, kw_only=True, rename="pascal"):
    """A producer in a partition. The epoch of the coordinator, sequence and timestamp are -1 where there is none, as
    Kafka's tool prints them; offset and duration (since the last timestamp) are None where no transaction is open."""

    topic: str
    partition: int
    broker_id: int
    producer_id: int
    producer_epoch: int
    latest_coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    current_transaction_start_offset: int | None
    duration_min: int | None = msgspec.field(name="Duration(min)")


VIEW = TableView(
    columns=ProducerRow.__struct_encode_fields__,
    primary=(
        "Topic", "Partition", "BrokerId", "ProducerId", "ProducerEpoch", "CurrentTransactionStartOffset",
        "Duration(min)",
    ),
    minor=("LastSequence", "LastTimestamp"),
)  # fmt: skip


class ReplicaSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions, whose replicas (by default the leaders), and which producers: all, or `only_open`."""

    topics: list[str]
    partitions: list[int] | None = None
    broker_id: int | None = None
    all_replicas: bool = False
    only_open: bool = False


class ReplicaAnswer(msgspec.Struct, frozen=True):
    """A broker's answer for its replica of a partition."""

    place: TopicPartition
    broker_id: int
    states: tuple[ProducerState, ...]


@refusing(exclusive("--broker-id names one replica, --all-replicas all: give one of them", "broker_id", "all_replicas"))
def describe_producers(
    bootstrap: txn.BootstrapOption,
    topic: Annotated[list[str], typer.Option("--topic", metavar="NAME", help="The topic; repeatable.")],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", min=0, metavar="N", help="Only this partition; repeatable. By default all."),
    ] = None,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", metavar="ID", help="Ask this broker's replicas, not the leaders.")
    ] = None,
    all_replicas: Annotated[bool, typer.Option("--all-replicas", help="Query every replica, to compare them.")] = False,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Describe the producers that partitions remember: epochs, last sequence and time, where a transaction began.

    \b
    One partition, as each of its replicas remembers it:
      kafkawire txn describe-producers --bootstrap-server 127.0.0.1:9092 \\
        --topic orders --partition 3 --all-replicas
    """
    wanted = ReplicaSelection(topics=topic, partitions=partition, broker_id=broker_id, all_replicas=all_replicas)
    cluster = txn.Address(bootstrap, command_config, timeout)
    print_producers(cluster, wanted, output.Shown(format, to, wide, no_cut))


def print_producers(cluster: txn.Address, wanted: ReplicaSelection, printing: output.Shown) -> None:
    """Prints the wanted producers, and raises the exit of the command."""
    check_output(printing.output, [cluster.command_config])
    outcome = ReadOutcome()

    async def ask(admin: Admin) -> list[ReplicaAnswer]:
        return await _ask(admin, wanted, outcome)

    found = cluster.run(ask)
    if found:
        outcome.read()
        now = txn.now_ms()
        lines = (
            _row(answer, state, now)
            for answer in sorted(found, key=lambda one: (one.place, one.broker_id))
            for state in sorted(answer.states, key=lambda state: state.producer_id)
            if state.transaction_start_offset is not None or not wanted.only_open
        )
        unmarked = any(
            state.coordinator_epoch is None and (state.transaction_start_offset is not None or not wanted.only_open)
            for answer in found
            for state in answer.states
        )
        printing.print(lines, [ProducerRow], {ProducerRow: VIEW})
        if unmarked and printing.output is None and chosen_format(printing.format) is output.Format.table:
            print_line("")
            print_line(
                "LatestCoordinatorEpoch -1: the partition has seen no marker of the producer id; txn abort sends 0."
            )
    outcome.end()


async def _ask(admin: Admin, wanted: ReplicaSelection, outcome: ReadOutcome) -> list[ReplicaAnswer]:
    from kafkawire.client import TopicPartition

    topics, numbers = wanted.topics, wanted.partitions
    metadata = await admin.cluster.metadata(topics, deadline=admin.cluster.deadline())
    for error in metadata.errors.values():
        outcome.problem(str(error))
    known = [place for place in metadata.partitions if numbers is None or place.partition in numbers]
    named = [TopicPartition(topic, n) for topic in topics if topic not in metadata.errors for n in numbers or ()]
    places = list(dict.fromkeys((*known, *named)))  # those that do not exist get their own error
    replicas: list[tuple[int | None, list[TopicPartition]]] = [(wanted.broker_id, places)]
    if wanted.all_replicas:
        by_broker: dict[int, list[TopicPartition]] = {}
        for place in known:
            for replica in dict.fromkeys(metadata.partitions[place].replicas):
                by_broker.setdefault(replica, []).append(place)
        replicas = [(replica, by_broker[replica]) for replica in sorted(by_broker)]
    found: list[ReplicaAnswer] = []
    answers = await asyncio.gather(*(_one_broker(admin, broker, mine) for broker, mine in replicas))
    for (broker, _), (values, problems) in zip(replicas, answers, strict=True):
        for problem in problems:
            outcome.problem(problem)
        for place, states in values.items():
            leader = metadata.partitions[place].leader
            found.append(ReplicaAnswer(place, (-1 if leader is None else leader) if broker is None else broker, states))
    return found


async def _one_broker(
    admin: Admin, broker_id: int | None, places: list[TopicPartition]
) -> tuple[dict[TopicPartition, tuple[ProducerState, ...]], list[str]]:
    from kafkawire.client import ClientError

    try:
        found = await admin.describe_producers(places, broker_id=broker_id)
    except ClientError as error:
        return {}, [str(error)]
    return found.values, [str(error) for error in found.errors.values()]


def _row(answer: ReplicaAnswer, state: ProducerState, now: int) -> ProducerRow:
    start, last = state.transaction_start_offset, state.last_timestamp
    return ProducerRow(
        topic=answer.place.topic,
        partition=answer.place.partition,
        broker_id=answer.broker_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        latest_coordinator_epoch=-1 if state.coordinator_epoch is None else state.coordinator_epoch,
        last_sequence=-1 if state.last_sequence is None else state.last_sequence,
        last_timestamp=-1 if last is None else last,
        current_transaction_start_offset=start,
        duration_min=None if start is None or last is None else (now - last) // MINUTE_MS,
    )

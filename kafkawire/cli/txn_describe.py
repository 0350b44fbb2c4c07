"""`kafkawire txn describe`: transactional ids, as their coordinators describe them, or what is open in partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli import output, txn_producers
from kafkawire.cli import txn_options as txn
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.option_groups import PARTITION_NEEDS_TOPIC, refusing
from kafkawire.cli.output_file import check_output
from kafkawire.cli.source_options import PartitionsOption
from kafkawire.cli.table import TableView

if TYPE_CHECKING:
    from kafkawire.client import Admin, Results, TransactionDescription


class Description(txn.TransactionToolRow, frozen=True, kw_only=True, rename="pascal"):
    """A transactional id, as its coordinator describes it; start and duration are None where none is in progress."""

    coordinator_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_state: str
    transaction_timeout_ms: int
    current_transaction_start_time_ms: int | None
    transaction_duration_ms: int | None
    topic_partitions: str


VIEW = TableView(
    columns=Description.__struct_encode_fields__,
    primary=("TransactionalId", "ProducerId", "TransactionState", "CurrentTransactionStartTimeMs", "TopicPartitions"),
    minor=("TransactionTimeoutMs", "TransactionDurationMs"),
)


@refusing(PARTITION_NEEDS_TOPIC)
def describe(
    bootstrap: txn.BootstrapOption,
    transactional_id: Annotated[
        list[str] | None, typer.Option("--transactional-id", metavar="ID", help="The id to describe; repeatable.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="Instead: the transactions that are open in it; repeatable."),
    ] = None,
    partition: PartitionsOption = None,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Describe transactional ids: state, producer, timeout, duration and partitions; or what is open in partitions.

    Partitions of topics that the principal may not Describe are left out by the coordinator.

    \b
    One id, and what is open in a topic, from any producer:
      kafkawire txn describe --bootstrap-server 127.0.0.1:9092 --transactional-id orders-service
      kafkawire txn describe --bootstrap-server 127.0.0.1:9092 --topic orders
    """
    if bool(transactional_id) == bool(topic):
        raise typer.BadParameter("give --transactional-id or --topic, and not both")
    check_output(to, [command_config])
    cluster, printing = txn.Address(bootstrap, command_config, timeout), output.Shown(format, to, wide, no_cut)
    if topic:
        wanted = txn_producers.ReplicaSelection(topics=topic, partitions=partition, only_open=True)
        txn_producers.print_producers(cluster, wanted, printing)
        return

    async def ask(admin: Admin) -> Results[str, TransactionDescription]:
        return await admin.describe_transactions(transactional_id or ())

    found = cluster.run(ask)
    outcome = ReadOutcome()
    for error in found.errors.values():
        outcome.problem(str(error))
    if found.values:
        outcome.read()
        now = txn.now_ms()
        printing.print((_row(one, now) for one in found.values.values()), [Description], {Description: VIEW})
    outcome.end()


def _row(one: TransactionDescription, now: int) -> Description:
    begun = one.start_time_ms
    return Description(
        coordinator_id=one.coordinator,
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transaction_state=one.state,
        transaction_timeout_ms=one.timeout_ms,
        current_transaction_start_time_ms=begun,
        transaction_duration_ms=None if begun is None else now - begun,
        topic_partitions=",".join(map(str, one.partitions)),
    )

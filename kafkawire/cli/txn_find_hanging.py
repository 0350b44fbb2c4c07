"""`kafkawire txn find-hanging`: which open transactions of a cluster hang, why, and what to do about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import field
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.cli import findings, output
from kafkawire.cli import txn_options as txn
from kafkawire.cli.arguments import MINUTE_MS
from kafkawire.cli.option_groups import PARTITION_NEEDS_TOPIC, Group, exclusive, grouped, refusing
from kafkawire.cli.output import Format
from kafkawire.cli.source_options import PartitionsOption
from kafkawire.cli.table import TableView
from kafkawire.cli.wait_reports import Counting

if TYPE_CHECKING:
    from kafkawire.client import Admin

_HARMLESS = ("live", "young")


class Hanging(txn.TransactionToolRow, frozen=True, kw_only=True, rename="pascal"):
    """A finding as a line of the table: the columns of kafka-transactions.sh, and more."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int | None
    last_timestamp: int | None
    duration_min: int | None = field(name="Duration(min)")
    transactional_id: str
    transaction_state: str
    blocks_readers: str
    verdict: str
    reason: str
    held_offsets: int | None
    held_bytes: int | None
    attention: str
    blocked_since: int | None
    blocked_until: int | None
    waits_for: str


VIEW = TableView(
    columns=Hanging.__struct_encode_fields__,
    primary=("Topic", "Partition", "StartOffset", "Duration(min)", "TransactionalId", "Verdict", "Reason"),
    minor=(
        "CoordinatorEpoch",
        "ProducerEpoch",
        "LastTimestamp",
        "BlocksReaders",
        "TransactionState",
        "HeldOffsets",
        "HeldBytes",
        "Attention",
        "BlockedSince",
        "BlockedUntil",
        "WaitsFor",
    ),
)


@refusing(
    PARTITION_NEEDS_TOPIC, exclusive("--group and --topic both select partitions: give one of them", "group", "topic")
)
@grouped(
    Group("Which transactions", ("topic", "partition", "group", "broker_id", "all_")),
    Group("How they are judged", ("max_transaction_timeout", "confirm_after", "blocked_after")),
    Group("The cluster", ("bootstrap", "command_config", "timeout", "fetch_bytes")),
    Group("What is printed", ("show_records", "format", "wide", "no_cut")),
)
def find_hanging(
    bootstrap: txn.BootstrapOption,
    topic: txn.TopicOption = None,
    partition: PartitionsOption = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="GROUP",
            help="What this group waits for: only partitions that its members are assigned, or with offsets of it.",
        ),
    ] = None,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", metavar="ID", help="Only partitions with a replica there.")
    ] = None,
    max_transaction_timeout: txn.MaxTimeoutOption = None,
    confirm_after: txn.ConfirmOption = 1.0,
    blocked_after: txn.BlockedAfterOption = txn.BLOCKED_AFTER,
    all_: Annotated[
        bool, typer.Option("--all", help="Also print transactions that are live, or too young to be judged.")
    ] = False,
    show_records: txn.ShowRecordsOption = 0,
    fetch_bytes: txn.FetchBytesOption = 8 << 20,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.PrintedFormatOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Find hanging transactions on a cluster, prove that they hang, and suggest what to do about each.

    Exit code 3: a transaction hangs, is stuck, or has blocked readers for longer than --blocked-after; 4: none was
    found, but not everything could be read or judged; 5: one was found, and not everything could be read or judged.

    To state what a hanging or stuck transaction holds back, the offsets of groups, the sizes and settings of its
    partition, and at most --fetch-bytes of its log are read.

    \b
    The whole cluster, and only what holds up a consumer group:
      kafkawire txn find-hanging --bootstrap-server 127.0.0.1:9092
      kafkawire txn find-hanging --bootstrap-server 127.0.0.1:9092 --group shipments
    """
    from kafkawire.client.diagnosis.blocked_group import BlockedGroup, find_blocking

    cluster = txn.Address(bootstrap, command_config, timeout)
    search = txn.make_search(
        cluster,
        max_transaction_timeout,
        confirm_after,
        blocked_after,
        topics=tuple(topic) if topic else None,
        partitions=tuple(partition) if partition else None,
        broker_id=broker_id,
        impact=True,
        fetch_bytes=fetch_bytes,
        show_records=show_records,
    )

    counting = Counting()

    async def ask(admin: Admin) -> BlockedGroup:
        if group is not None:
            return await find_blocking(admin.cluster, group, search, counting.advance)
        return BlockedGroup(await admin.find_hanging_transactions(search, counting.advance))

    blocked = cluster.run(ask, counting)
    found = blocked.audit
    txn.warn_of_limit(found.read.settings)
    kept = tuple(
        one
        for one in found.findings
        if all_ or one.attention is not None or one.reason not in _HARMLESS or blocked.waits_behind(one)
    )
    shown = replace(found, findings=kept)
    chosen = findings.chosen_format(format)
    if chosen is Format.table:
        print_table(
            shown, len(found.findings) - len(shown.findings), wide=wide, no_cut=no_cut, also=blocked.waits_behind
        )
    else:
        findings.print_for_tools(shown, chosen)
    findings.end(found)


def print_table(
    audit: rows.Audit,
    harmless: int,
    *,
    wide: bool,
    no_cut: bool = False,
    also: Callable[[rows.Finding], bool] = lambda finding: False,
) -> None:
    """Prints findings as a table, then their evidence.

    Args:
        audit: the findings to print, and what was read.
        harmless: the number of open transactions that are not printed.
        wide, no_cut: as the options.
        also: which findings are explained beside those that need action.
    """
    from kafkawire.cli.formatting import counted
    from kafkawire.transactions.attention import BLOCKED
    from kafkawire.transactions.formatting import when

    found = findings.by_place(audit.findings)
    if found:
        if any(one.attention == BLOCKED for one in found):
            findings.print_attention(audit)
            findings.print_line("")
        output.print_rows(
            map(_line, found), [Hanging], format=Format.table, views={Hanging: VIEW}, wide=wide, no_cut=no_cut
        )
    else:
        findings.print_none_found(audit, findings.NOTHING_HANGS, findings.NONE_FOUND)
    findings.print_line("")
    others = f"; {counted(harmless, 'transaction')} more live or too young (--all shows them)" if harmless else ""
    partitions, brokers = findings.counted_partitions(audit.read), counted(len(audit.read.brokers), "broker")
    findings.print_line(f"{partitions} on {brokers}, as of {when(audit.as_of)} ({audit.read.clock}){others}.")
    if audit.read.scope:
        findings.print_line(audit.read.scope)
    if found:
        findings.print_missing(audit)
    findings.explain(found, also=also)


def _line(finding: rows.Finding) -> Hanging:
    held = None if finding.impact is None else finding.impact.held
    return Hanging.of(
        finding,
        coordinator_epoch=-1 if finding.coordinator_epoch is None else finding.coordinator_epoch,
        duration_min=None if finding.age_ms is None else finding.age_ms // MINUTE_MS,
        transactional_id=finding.transactional_id or "",
        transaction_state=finding.coordinator_state or "",
        blocks_readers="yes" if finding.blocked else "no",
        held_offsets=None if held is None else held.end_offset - held.start_offset,
        held_bytes=None if held is None else held.bytes,
        attention=finding.attention or "",
        waits_for=finding.waits_for or "",
    )

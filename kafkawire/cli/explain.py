"""`kafkawire explain`: what every offset of a partition is, or the story of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire import rows
from kafkawire.cli import output
from kafkawire.cli.dump_options import all_paths
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.option_groups import Group, Need, conflict, exclusive, grouped, needs, refusing
from kafkawire.cli.output_file import check_log_output, check_output, open_output
from kafkawire.cli.source_options import ClusterOption, PathsArgument, ReportOption, TierKeysOption, check_source
from kafkawire.cli.table import TableView, Views
from kafkawire.cli.txn_options import Address, ConfigOption

if TYPE_CHECKING:
    from kafkawire.cli.explain_cluster import LiveCopy
    from kafkawire.offsets import Replica

_MOST = 40  # `offsets.MOST_RANGES`
_FETCH_BYTES = 64 << 20
_CLUSTER = Need(
    "--bootstrap-server or --bootstrap-controller",
    "--bootstrap-server (or --bootstrap-controller)",
    lambda values: values["bootstrap_server"] is not None or values["bootstrap_controller"] is not None,
)
_COPIES = Need("PATH", "log directories (PATH), no --bootstrap-server", lambda values: not _CLUSTER.met(values))
_SHARES = Need("--share-group", "--share-group", lambda values: values["share_group"] is not None)

_STATUS = ("status", "transaction", "control", "coordinator_epoch")
#: What a table shows of each kind.
_VIEWS: Views = {
    rows.ReplicaBounds: TableView(
        columns=(
            "broker", "state", "log_start_offset", "local_start_offset", "last_stable_offset", "high_watermark",
            "log_end_offset", "end_offset", "compacted", "diverges_at",
        ),
        primary=("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset"),
        minor=("state", "broker", "compacted"),
    ),
    rows.StatusRange: TableView(
        columns=(
            "first_offset", "last_offset", "offsets", *_STATUS, "of", "reason", "detail", "segment", "position",
        ),
        primary=("first_offset", "last_offset", "status", "transaction", "of", "reason"),
        minor=("segment", "position", "coordinator_epoch"),
        prose=("detail",),
    ),
    rows.StatusTotal: TableView(
        columns=(*_STATUS, "reason", "offsets", "ranges", "first_offset", "last_offset"),
        primary=("status", "transaction", "control", "offsets"),
    ),
    rows.OffsetStanding: TableView(
        columns=(
            "broker", "offset", *_STATUS, "first_offset", "last_offset", "leader_epoch", "read_committed",
            "read_uncommitted", "reason", "detail", "segment", "position",
        ),
        primary=("offset", "status", "transaction", "detail"),
        minor=("segment", "position", "first_offset", "last_offset"),
        prose=("detail",),
    ),
    rows.BatchRow: TableView(
        columns=(
            "position", "base_offset", "last_offset", "records", "timestamp", "producer_id", "producer_epoch",
            "sequence", "leader_epoch", "transactional", "control", "transaction",
        ),
        primary=("base_offset", "last_offset", "timestamp", "producer_id"),
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)


@refusing(
    needs(
        "--bootstrap-controller goes with --partition-history: controllers hold no other log",
        "bootstrap_controller", "partition_history",
    ),
    conflict(
        "{} does not go with --share-group",
        "share_group", "first", "end", "equal_records", "report", "partition_history",
    ),
    conflict(
        "{} does not go with --partition-history",
        "partition_history", "offset", "first", "end", "equal_records", "report", "max_ranges",
    ),
    exclusive("give --bootstrap-controller or --bootstrap-server", "bootstrap_controller", "bootstrap_server"),
    conflict(
        "--offset goes with none of --from, --to, --equal-records and --report",
        "offset", "first", "end", "equal_records", "report",
    ),
)  # fmt: skip
@grouped(
    Group("What is explained", ("topic", "partition", "offset", "first", "end", "share_group", "partition_history")),
    Group("Of a share group", ("delivery_count_limit", "dead_letter_topic"), (_SHARES,)),
    Group("A cluster in place of copies", ("bootstrap_server", "bootstrap_controller")),
    Group("A cluster", ("command_config", "fetch_bytes"), (_CLUSTER,)),
    Group("Copies", ("tier_key",), (_COPIES,)),
    Group("What is printed", ("max_ranges", "equal_records", "report", "format", "to", "wide", "no_cut")),
)
def explain(
    paths: PathsArgument = None,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="The topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, metavar="N", help="The partition of it.")] = None,
    share_group: Annotated[
        str | None,
        typer.Option("--share-group", metavar="GROUP", help="What each offset is to this share group; of all topics."),
    ] = None,
    offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="The story of this offset.")] = None,
    first: Annotated[int | None, typer.Option("--from", min=0, metavar="A", help="Only offsets from A on.")] = None,
    end: Annotated[
        int | None, typer.Option("--to", min=0, metavar="B", help="Only offsets up to B, without it.")
    ] = None,
    max_ranges: Annotated[
        int,
        typer.Option(
            min=0,
            max=1_000_000,
            metavar="N",
            help="Ranges of a replica, at most: neighbours are merged and counted by status. 0: all, unmerged.",
        ),
    ] = _MOST,
    equal_records: Annotated[
        bool,
        typer.Option("--equal-records", help="Also search for records that were written twice; reads all records."),
    ] = False,
    partition_history: Annotated[
        bool,
        typer.Option("--partition-history", help="Who led the partition: leaders, ISR and ELR, by __cluster_metadata."),
    ] = False,
    delivery_count_limit: Annotated[
        int | None,
        typer.Option(
            "--delivery-count-limit",
            min=1,
            max=32_767,
            metavar="N",
            help="group.share.delivery.count.limit of the brokers' server.properties.",
        ),
    ] = None,
    dead_letter_topic: Annotated[
        str | None,
        typer.Option("--dead-letter-topic", metavar="NAME", help="Its dead-letter topic; default: its property."),
    ] = None,
    bootstrap_server: ClusterOption = None,
    bootstrap_controller: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-controller",
            metavar="HOST:PORT,...",
            help="Some controllers of a cluster, for --partition-history.",
        ),
    ] = None,
    command_config: ConfigOption = None,
    fetch_bytes: Annotated[
        int | None,
        typer.Option(
            "--fetch-bytes",
            min=1,
            max=1 << 40,
            metavar="BYTES",
            help="Fetch at most this much of a partition; default: 64 MiB.",
        ),
    ] = None,
    tier_key: TierKeysOption = None,
    report: ReportOption = None,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Explain every offset of a partition: record, marker, compacted away, deleted, lost.

    Each offset from 0 to the end of the log has exactly one status, and the sums are exact. Files are only read. Exit
    code 4: something could not be read; its offsets are unreadable.

    \b
    Why are offsets missing, and where do consumers stop?
      kafkawire explain /var/kafka-logs --topic orders --partition 0
    All replicas, their tier, and the coordinator's records of one offset:
      kafkawire explain /copies/broker-* /copies/tier --topic orders --partition 0 --offset 4711
    A share group: what became of each record, and the story of one:
      kafkawire explain /copies/broker-* --share-group workers
      kafkawire explain /copies/broker-* --share-group workers --topic orders --partition 0 --offset 6
    The same of a cluster:
      kafkawire explain --bootstrap-server 127.0.0.1:9092 --share-group workers
    Who led a partition, and which elections were unclean:
      kafkawire explain /copies/broker-* --topic orders --partition 0 --partition-history
      kafkawire explain --bootstrap-controller 127.0.0.1:9093 --topic orders --partition 0 --partition-history
    Part of a log in full detail:
      kafkawire explain /var/kafka-logs --topic orders --partition 0 --from 4000 --to 5000 --max-ranges 0
    The leader's log of a live cluster, its newest 64 MiB:
      kafkawire explain --bootstrap-server 127.0.0.1:9092 --topic orders --partition 0
    """
    from kafkawire import logdir, offsets

    printing = output.Shown(format, to, wide, no_cut)
    budget = _FETCH_BYTES if fetch_bytes is None else fetch_bytes
    if share_group is not None:
        if partition is not None and topic is None:
            raise typer.BadParameter("--partition needs --topic")
        if offset is not None and partition is None:
            raise typer.BadParameter("--offset needs --topic and --partition")
        from kafkawire.cli.explain_shares import copied, live_shares, print_shares

        check_source(paths, bootstrap_server)
        of_group = share_group, topic, partition, delivery_count_limit, dead_letter_topic
        if bootstrap_server is not None:
            check_output(to, [command_config])
            shares, gaps = live_shares(Address(bootstrap_server, command_config), *of_group, budget)
        else:
            chosen = all_paths(paths, None)
            check_log_output(to, [*chosen, *(tier_key or ())])
            shares, gaps = copied(chosen, tier_key or (), *of_group)
        print_shares(shares, gaps, offset, max_ranges or None, printing)
        return
    if topic is None or partition is None:
        raise typer.BadParameter("give --topic and --partition, or --share-group")
    if partition_history:
        from kafkawire.cli.explain_history import print_live_history, print_partition_history

        address = bootstrap_controller or bootstrap_server
        check_source(paths, address)
        if address is not None:
            check_output(to, [command_config])
            cluster, controllers = Address(address, command_config), bootstrap_controller is not None
            print_live_history(cluster, topic, partition, budget, printing, controllers=controllers)
            return
        chosen = all_paths(paths, None)
        check_log_output(to, [*chosen, *(tier_key or ())])
        print_partition_history(chosen, tier_key or (), topic, partition, printing)
        return
    if report is not None and not max_ranges:
        raise typer.BadParameter("--report needs a bound: --max-ranges above 0")
    if report is not None and to is not None and os.path.realpath(report) == os.path.realpath(to):
        raise typer.BadParameter(f"--report and --output are both {report}")
    if end is not None and (first or 0) >= end:
        raise typer.BadParameter(f"no offset is in {first or 0} to {end}: --from must be below --to")
    check_source(paths, bootstrap_server)
    with ExitStack() as stack:
        live: LiveCopy | None = None
        if bootstrap_server is not None:
            from kafkawire.cli.explain_cluster import live_copy

            check_output(to, [command_config])
            check_output(report, [command_config], "--report")
            cluster = Address(bootstrap_server, command_config)
            live = stack.enter_context(live_copy(cluster, (topic, partition), (first, end), offset, budget))
            directory = logdir.open(live.root)
            if first is None and end is None and live.spooled.first > live.spooled.offsets.log_start:
                first = live.spooled.first
        else:
            chosen = all_paths(paths, None)
            read = [*chosen, *(tier_key or ())]
            check_log_output(to, read)
            check_log_output(report, read, "--report")
            directory = logdir.open(*chosen, tier_keys=tier_key or ())
        outcome = ReadOutcome()
        page = None if report is None else stack.enter_context(open_output(report))
        try:
            found = offsets.replicas(directory, topic, partition)
            _check_range(found, f"{topic}-{partition}", first, end, offset)
        except LookupError as error:
            raise typer.BadParameter(str(error.args[0])) from None
        shown = (
            offsets.story(directory, topic, partition, offset)
            if offset is not None
            else chain.from_iterable(
                offsets.explain(one, first or 0, end, most=max_ranges or None, equal_records=equal_records)
                for one in found
            )
        )
        if live is not None:
            shown = live.shown(shown)
            for problem in live.spooled.problems:
                outcome.problem(problem)
        shown = outcome.counted(directory, _with_unreadable(shown, outcome))
        if page is not None:
            from kafkawire import report as reports

            listed = list(shown)
            page.write(reports.render_offsets(listed).encode())
            shown = iter(listed)
        if report != "-" or to is not None:
            printing.print(shown, _kinds(offset is not None), _VIEWS)
    outcome.end()


def _check_range(found: list[Replica], name: str, first: int | None, end: int | None, offset: int | None) -> None:
    """A usage error for offsets after the end of all replicas. Raises LookupError: no file has or names an offset."""
    reached = max(one.bounds.end_offset for one in found)
    if not reached and not any(one.partition.segments for one in found):
        raise LookupError(f"the paths hold no segment of {name}")
    for option, value, least in (("--from", first, 1), ("--to", end, 0), ("--offset", offset, 1)):
        if value is not None and value + least > reached:
            raise typer.BadParameter(f"{name} ends at offset {reached}, before {value}", param_hint=option)


def _with_unreadable(found: Iterator[rows.Row], outcome: ReadOutcome) -> Iterator[rows.Row]:
    """All rows; those of offsets that could not be read are recorded in `outcome`."""
    details: dict[tuple[str | None, str | None], str] = {}
    for row in found:
        if isinstance(row, rows.StatusRange) and row.status == "unreadable" and row.detail:
            details.setdefault((row.file, row.reason), row.detail)
        if isinstance(row, rows.StatusTotal) and row.status == "unreadable":
            detail = details.get((row.file, row.reason), row.reason)
            outcome.problem(f"{row.file}: {row.offsets} offsets are unreadable: {detail}")
        elif isinstance(row, rows.OffsetStanding) and row.status == "unreadable":
            outcome.problem(f"{row.file}: offset {row.offset} is unreadable: {row.detail}")
        yield row


def _kinds(one: bool) -> list[type[rows.Row]]:
    """The kinds of rows that can occur: their fields are the columns of csv and Parquet."""
    if one:
        return [rows.OffsetStanding, rows.BatchRow, rows.TransactionStory, rows.CoordinatorStep, rows.DamageRow]
    return [
        rows.ReplicaBounds, rows.StatusRange, rows.StatusTotal, rows.PartialTransaction, rows.PartialTransactionTotal,
        rows.EqualRecords, rows.DamageRow,
    ]  # fmt: skip

"""`kafkawire witness`: what brokers answered, in captures, joined with what they hold, in logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkawire import rows
from kafkawire.cli import capture_options, exit_codes, output
from kafkawire.cli.capture_summary import FileNotes
from kafkawire.cli.dump_options import all_paths
from kafkawire.cli.option_groups import CLUSTER, LOCAL, SPARK, Group, Need, grouped
from kafkawire.cli.output_file import check_log_output, open_output
from kafkawire.cli.source_options import ClusterOption, ReportOption, TierKeysOption
from kafkawire.cli.spark_options import ConfOption, Engine, EngineOption, MasterOption, spark_settings
from kafkawire.cli.table import TableView, Views
from kafkawire.cli.txn_options import ConfigOption

if TYPE_CHECKING:
    from kafkawire.logdir import LogDirectory
    from kafkawire.witness import Witness
    from kafkawire.witness.held_side import HeldSide

_MOST = 1000  # `witness.MOST_ANOMALIES`
_LOGS = Need("--logs", "--logs", lambda values: values["bootstrap_server"] is None)
#: The counts of what breaks a promise.
_FOUND = ("anomalies", "read_anomalies", "transaction_anomalies", "order_anomalies", "commit_anomalies")

#: What a table shows of each kind of row, in the order of the columns of csv.
_VIEWS: Views = {
    rows.WitnessSummary: TableView(
        columns=(
            "captures", "requests", "sendings", "batches", "records", "acknowledged", "held", "anomalies", "unknown",
            "undecoded", "old", "partitions", "copies", "unseen", "fetched", "read_anomalies", "read_unknown", "ended",
            "transaction_anomalies", "order_anomalies", "commits", "commit_anomalies", "commit_unknown",
        ),
        primary=("batches", "acknowledged", "held", "anomalies", "unknown"),
        minor=("captures", "old", "undecoded", "partitions", "copies", "unseen"),
    ),
    rows.FateTotal: TableView(
        columns=("response", "fate", "transaction", "error", "reason", "batches", "records", "detail"),
        primary=("response", "fate", "transaction", "reason", "batches"),
        prose=("detail",),
    ),
    rows.ReadTotal: TableView(
        columns=("isolation", "read", "reason", "batches", "records", "detail"),
        primary=("isolation", "read", "reason", "batches"),
        prose=("detail",),
    ),
    rows.TransactionTotal: TableView(
        columns=("end_txn", "transaction", "batches"), primary=("end_txn", "transaction", "batches")
    ),
    rows.CommitTotal: TableView(
        columns=("commit", "delivery", "reason", "commits", "detail"),
        primary=("commit", "delivery", "reason", "commits"),
        prose=("detail",),
    ),
    rows.Premise: TableView(
        columns=("name", "holds", "what", "source", "needs"), primary=("name", "holds", "what"), prose=("what", "needs")
    ),
    rows.DeliveryAnomaly: TableView(
        columns=(
            "name", "topic", "partition", "acknowledged_offset", "held_offset", "second_offset", "producer_id",
            "producer_epoch", "sequence", "records", "acks", "sendings", "client_id", "packet", "response_packet",
            "file", "log", "rule", "hint",
        ),
        primary=("name", "topic", "partition", "acknowledged_offset", "held_offset", "packet", "rule"),
        minor=("records", "acks", "sendings", "producer_epoch", "client_id", "file"),
        prose=("rule", "hint"),
    ),
    rows.TransactionAnomaly: TableView(
        columns=(
            "name", "topic", "partition", "offset", "marker_offset", "producer_id", "producer_epoch", "end_txn",
            "transaction", "packet", "response_packet", "file", "log", "rule", "hint",
        ),
        primary=("name", "topic", "partition", "offset", "end_txn", "transaction", "packet"),
        minor=("producer_epoch", "file", "response_packet"),
        prose=("rule", "hint"),
    ),
    rows.OrderAnomaly: TableView(
        columns=(
            "name", "topic", "partition", "offset", "later_offset", "producer_id", "producer_epoch", "sequence",
            "later_sequence", "client_id", "packet", "file", "log", "rule", "hint",
        ),
        primary=("name", "topic", "partition", "offset", "later_offset", "packet"),
        minor=("producer_epoch", "client_id", "file"),
        prose=("rule", "hint"),
    ),
    rows.ReadAnomaly: TableView(
        columns=(
            "name", "topic", "partition", "first_offset", "last_offset", "producer_id", "producer_epoch", "client_id",
            "packet", "response_packet", "file", "log", "rule", "hint",
        ),
        primary=("name", "topic", "partition", "first_offset", "response_packet", "rule"),
        minor=("producer_epoch", "client_id", "file", "packet"),
        prose=("rule", "hint"),
    ),
    rows.CommitAnomaly: TableView(
        columns=(
            "name", "group", "topic", "partition", "offset", "first_offset", "last_offset", "record_offset",
            "producer_id", "producer_epoch", "client_id", "packet", "response_packet", "file", "log", "rule", "hint",
        ),
        primary=("name", "group", "topic", "partition", "offset", "first_offset", "packet"),
        minor=("producer_id", "producer_epoch", "client_id", "file", "response_packet"),
        prose=("rule", "hint"),
    ),
    rows.DamageRow: TableView(
        columns=("topic", "partition", "position", "reason", "detail", "resumed_at"),
        primary=("topic", "partition", "position", "reason", "detail"),
        prose=("detail",),
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("witness")(witness)


@grouped(
    Group("What was sent", ("captures", "keylog", "decode_as")),
    Group("What is held: one of these, and how it is joined", ("logs", "engine")),
    Group("Logs", ("tier_key",), (_LOGS,)),
    Group("A cluster in place of logs, as it is now", ("bootstrap_server",), (LOCAL,)),
    Group("A cluster", ("command_config",), (CLUSTER,)),
    Group("A Spark job", ("master", "conf"), (SPARK,)),
    Group("What is printed", ("max_anomalies", "report", "format", "to", "wide", "no_cut")),
)
def witness(
    captures: Annotated[
        list[str],
        typer.Option(
            "--captures",
            metavar="FILE",
            help="A capture of clients (pcap, pcapng); of a directory or a pattern in quotes the files as one. May be "
            "repeated.",
        ),
    ],
    logs: Annotated[
        list[str] | None,
        typer.Option(
            "--logs", metavar="PATH", help="A log directory, a tier, or a folder of several. May be repeated."
        ),
    ] = None,
    bootstrap_server: ClusterOption = None,
    command_config: ConfigOption = None,
    max_anomalies: Annotated[
        int, typer.Option(min=0, metavar="N", help="Anomalies that are listed, at most; all are counted.")
    ] = _MOST,
    keylog: capture_options.Keylog = None,
    decode_as: capture_options.DecodeAs = None,
    report: ReportOption = None,
    tier_key: TierKeysOption = None,
    engine: EngineOption = Engine.local,
    master: MasterOption = None,
    conf: ConfOption = None,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Tell for each batch that was produced what became of it: what brokers answered, against what they hold.

    Each batch in a Produce request of the captures has exactly one fate, and their counts sum to what was seen. A fate
    that the evidence does not reach is unknown, with its reason: copy the logs after the capture. Exit codes: 3 a
    promise is broken (anomalies); 4 none is, and something is unknown or could not be read; 5 both.

    \b
    Was anything lost, changed, or appended twice?
      kafkawire witness --captures trace.pcap --logs /copies/broker-1 --logs /copies/broker-2
    Many captures and brokers, on a cluster:
      kafkawire witness --captures a.pcap --captures b.pcap --logs s3://copies --engine spark --master yarn
    The same by what a running cluster holds now:
      kafkawire witness --captures trace.pcap --bootstrap-server broker-1:9092
    A page to pass on, with the way of each record that an anomaly is about:
      kafkawire witness --captures trace.pcap --logs /copies --report witness.html
    Only the anomalies, for tools:
      kafkawire witness --captures 'ring*.pcapng' --logs /copies --format jsonl | grep '"kind":"anomaly"'
    """
    from kafkawire.witness import Witness

    if (bootstrap_server is None) == (not logs):
        raise typer.BadParameter("one of --logs and --bootstrap-server is needed")
    paths = all_paths(logs, None) if logs else []
    check_log_output(to, [*paths, *captures, *(keylog or ()), *(tier_key or ()), *filter(None, [command_config])])
    capture_options.check_keylog(keylog)
    rules = capture_options.checked_rules(decode_as)
    spark_conf = spark_settings(conf)
    notes = FileNotes()
    if report is not None:
        check_log_output(report, [*paths, *captures, *(keylog or ()), *(tier_key or ())], "--report")
    printing = output.Shown(format, to, wide, no_cut)
    if engine is Engine.spark:
        rows_found, problems, unreadable = _on_spark(
            captures, paths, master, spark_conf, notes,
            most=max_anomalies, keylog=keylog or (), decode_as=rules, tier_keys=tier_key or (),
        )  # fmt: skip
        _print([*unreadable, *rows_found], notes.incomplete(), problems, printing, report)
        return
    with _held_side(paths, tier_key, bootstrap_server, command_config) as held:
        joined = Witness(held, most=max_anomalies)
        for file in captures:
            _take(joined, file, keylog, rules, notes)
        found = chain(_unreadable(held), joined.rows())
        _print(found, notes.incomplete(), joined.problems, printing, report)


@contextmanager
def _held_side(
    paths: list[str], tier_key: list[str] | None, bootstrap: str | None, command_config: str | None
) -> Iterator[LogDirectory | HeldSide]:
    """What brokers hold: log directories, or a live cluster while the context lasts."""
    from kafkawire import logdir

    if bootstrap is None:
        yield logdir.open(*paths, tier_keys=tier_key or ())
        return
    from kafkawire.cli.txn_options import client_properties, warn_once
    from kafkawire.client import Cluster, Config
    from kafkawire.client.cluster.background import Background
    from kafkawire.client.diagnosis.live_copies import LiveCopies

    config = Config.of(bootstrap, client_properties(command_config, None))
    for sentence in config.unapplied:
        warn_once(f"{command_config}: {sentence}")
    with Background() as loop:
        cluster = Cluster(config)
        try:
            yield LiveCopies(loop, cluster, bootstrap)
        finally:
            loop.run(cluster.close())


def _unreadable(held: LogDirectory | HeldSide) -> list[rows.DamageRow]:
    """The paths that cannot be read."""
    found = getattr(held, "unreadable", ())
    return [rows.DamageRow(file=one.path, reason="unreadable", detail=one.reason) for one in found]


def _on_spark(
    captures: list[str], paths: list[str], master: str | None, conf: dict[str, str], notes: FileNotes, **options: Any
) -> tuple[list[rows.Row], list[str], list[rows.DamageRow]]:
    from kafkawire import logdir
    from kafkawire.cli.progress import spark_tasks
    from kafkawire.spark.auditing.witness_job import witness as on_spark

    with spark_tasks() as progress:
        found, of_captures, problems = on_spark(captures, paths, master=master, conf=conf, progress=progress, **options)
    for note in of_captures:
        if note.error is not None:
            notes.failed(note.file, note.error)
        if note.summary is not None:
            notes.summary(note.file, note.summary)
    return found, problems, _unreadable(logdir.open(*paths, tier_keys=options["tier_keys"]))


def _print(
    found: Iterable[rows.Row], missing: list[str], problems: list[str], printing: output.Shown, report: str | None
) -> None:
    """Prints the rows, and ends with the exit code. `missing`: what could not be read. `problems`: gets more, while
    `found` is made. `report`: the file of a page."""
    broken = 0

    def judged() -> Iterator[rows.Row]:
        nonlocal broken
        for row in found:
            if isinstance(row, rows.WitnessSummary):
                broken = sum(getattr(row, name) for name in _FOUND)
            missing.extend(_missing(row))
            yield row
        missing.extend(problems)

    shown: Iterable[rows.Row] = judged()
    if report is not None:
        from kafkawire import report as reports

        with open_output(report) as page:
            shown = list(shown)  # totals, and anomalies up to the limit
            page.write(reports.render_witness(shown).encode())
    printing.print(shown, tuple(_VIEWS), _VIEWS)
    exit_codes.end(rows.Outcome(found=broken > 0, complete=not missing, missing=tuple(missing)))


def _missing(row: rows.Row) -> Iterator[str]:
    """Sentences on what a row leaves unknown."""
    if isinstance(row, rows.WitnessSummary):
        if row.read_unknown:
            yield f"of {row.read_unknown} of {row.fetched} fetched batches nothing is known"
        if row.commit_unknown:
            yield f"of {row.commit_unknown} of {row.commits} committed offsets not all is known"
        if row.unknown:
            yield f"the fate of {row.unknown} of {row.batches} batches is unknown"
        if not (row.requests or row.fetches):
            yield "the captures hold no Produce request and no Fetch response"
    elif isinstance(row, rows.Premise) and not row.holds:
        yield row.what
    elif isinstance(row, rows.DamageRow) and row.reason == "unreadable" and row.topic is None:
        yield f"{row.file}: {row.detail}"


def _take(joined: Witness, file: str, keylog: list[str] | None, rules: tuple[str, ...], notes: FileNotes) -> None:
    """Takes the exchanges of a capture; its errors become notes, so that the next one is read."""
    from kafkawire import capture
    from kafkawire.errors import CaptureError

    found = capture.read(file, keep=True, keylog=keylog or (), decode_as=rules)
    try:
        for exchange in found.matched():
            joined.add(exchange)
    except CaptureError as error:
        notes.failed(file, str(error))
        return
    except OSError as error:
        notes.failed(file, error.strerror or str(error))
        if not found.summary.packets:
            return
    notes.summary(file, found.summary)

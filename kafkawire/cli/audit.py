"""`kafkawire audit`: which open transactions in copied logs, or on a cluster, hang, and what to do about each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire import rows
from kafkawire.cli import findings, output
from kafkawire.cli import source_options as source
from kafkawire.cli import txn_options as txn
from kafkawire.cli.arguments import MINUTE_MS, InputError, JobsOption, check_clock, check_minutes, cores
from kafkawire.cli.option_groups import (
    CLUSTER,
    COPIES,
    LOCAL,
    SPARK,
    Given,
    Group,
    Refusal,
    exclusive,
    grouped,
    needs,
    refusing,
)
from kafkawire.cli.output import Format
from kafkawire.cli.output_file import check_log_output, open_output
from kafkawire.cli.progress import progress, spark_tasks, total_size
from kafkawire.cli.spark_options import ConfOption, Engine, EngineOption, MasterOption, spark_settings
from kafkawire.cli.table import TableView, Views

if TYPE_CHECKING:
    from kafkawire.offsets import Replica
    from kafkawire.transactions import Settings


class SaveMode(StrEnum):
    """What to do where a table exists, as Spark names it."""

    errorifexists = "errorifexists"
    append = "append"
    overwrite = "overwrite"
    ignore = "ignore"


class OpenTransaction(output.CommandRow, frozen=True, kw_only=True):
    """A finding as a line of the table; `cluster` only where there are several."""

    cluster: str | None = None
    topic: str
    partition: int
    producer_id: int
    epoch: int
    start_offset: int | None
    last_timestamp: int | None
    age: str
    transactional_id: str | None
    coordinator_state: str | None
    blocks_readers: str
    verdict: str
    reason: str


_VIEWS: Views = {
    OpenTransaction: TableView(
        columns=OpenTransaction.__struct_encode_fields__,
        primary=(
            "cluster", "topic", "partition", "start_offset", "age", "transactional_id", "verdict", "reason",
        ),
        minor=("epoch", "last_timestamp", "blocks_readers", "coordinator_state"),
    ),
    rows.Violation: TableView(
        columns=("check", "place", "what", "offset", "producer_id", "transactional_id"),
        primary=("check", "place", "what"),
        prose=("what",),
    ),
    rows.DamageRow: TableView(
        columns=("topic", "partition", "position", "reason", "detail", "resumed_at"),
        primary=("topic", "partition", "position", "reason", "detail"),
        prose=("detail",),
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("audit")(audit)


def _unexplained(given: Given) -> list[str]:
    met = given.of(["report"]) and COPIES.met(given.values) and LOCAL.met(given.values)
    return [] if met else given.of(["explained"])


@refusing(
    exclusive("--save and --save-as-table do not go together", "save", "save_as_table"),
    needs("--save-format needs --save or --save-as-table", "save_format", "save", "save_as_table"),
    Refusal("--explain needs --report, log directories and --engine local", ("explained", "report"), _unexplained),
)
@grouped(
    Group("What is audited", ("bootstrap_server", "engine")),
    Group("Copies", ("tier_key",), (COPIES,)),
    Group("Copies, on this machine", ("jobs",), (COPIES, LOCAL)),
    Group(
        "A cluster",
        ("command_config", "topic", "since", "throttle", "parallel", "confirm_after", "timeout"),
        (CLUSTER,),
    ),
    Group("A cluster, on this machine", ("resume",), (CLUSTER, LOCAL)),
    Group("A Spark job", ("master", "conf"), (SPARK,)),
    Group("Tables of a Spark job", ("save", "save_as_table", "save_format", "save_mode"), (SPARK, COPIES)),
    Group(
        "How it is judged",
        (
            "as_of", "blocked_after", "max_transaction_timeout", "txn_partitions", "producer_id_expiration",
            "transactional_id_expiration",
        ),
    ),
    Group("What is printed", ("report", "explained", "show_records", "format", "wide", "no_cut")),
)  # fmt: skip
def audit(
    paths: source.PathsArgument = None,
    tier_key: source.TierKeysOption = None,
    bootstrap_server: source.ClusterOption = None,
    command_config: txn.ConfigOption = None,
    topic: txn.TopicOption = None,
    since: Annotated[
        int | None,
        typer.Option(
            min=0,
            callback=lambda value: value and check_clock(value),
            metavar="MS",
            help="Read logs from that time on, epoch milliseconds, 0 for all; by default from each partition's oldest "
            "open transaction.",
        ),
    ] = None,
    throttle: Annotated[int, typer.Option(min=1, metavar="N", help="Bytes a second of logs at most.")] = 10_000_000,
    parallel: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Partitions that are read side by side; on Spark: tasks.")
    ] = 4,
    resume: Annotated[
        str | None, typer.Option(metavar="FILE", help="Keep there what was read, and continue from it.")
    ] = None,
    confirm_after: txn.ConfirmOption = 1.0,
    timeout: txn.TimeoutOption = None,
    engine: EngineOption = Engine.local,
    master: MasterOption = None,
    conf: ConfOption = None,
    jobs: JobsOption = None,
    as_of: source.AsOfOption = None,
    max_transaction_timeout: txn.MaxTimeoutOption = None,
    txn_partitions: source.StatePartitionsOption = None,
    producer_id_expiration: Annotated[
        int | None,
        typer.Option(
            min=1,
            callback=check_minutes,
            metavar="MINUTES",
            help="The brokers' producer.id.expiration.ms, in minutes; default: from its metadata, or else a day.",
        ),
    ] = None,
    transactional_id_expiration: Annotated[
        int | None,
        typer.Option(
            min=1,
            callback=check_minutes,
            metavar="MINUTES",
            help="The brokers' transactional.id.expiration.ms, in minutes; likewise, or else 7 days.",
        ),
    ] = None,
    blocked_after: txn.BlockedAfterOption = txn.BLOCKED_AFTER,
    save: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the audit's tables below that folder, a folder each.")
    ] = None,
    save_as_table: Annotated[
        str | None, typer.Option(metavar="CATALOG.SCHEMA", help="Write them as tables of that schema of a catalog.")
    ] = None,
    save_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="Their format: parquet, delta, iceberg; by default Spark's, or the catalog's."
        ),
    ] = None,
    save_mode: Annotated[
        SaveMode,
        typer.Option(help="What to do where a table exists; errorifexists is refused before anything is read."),
    ] = SaveMode.errorifexists,
    report: source.ReportOption = None,
    show_records: txn.ShowRecordsOption = 0,
    explained: Annotated[
        list[str] | None,
        typer.Option(
            "--explain",
            metavar="TOPIC-PARTITION",
            help="Show the offsets of this partition in the report of copies, too (with --report); repeatable.",
        ),
    ] = None,
    format: output.PrintedFormatOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Find hanging transactions in copied log directories, or on a cluster, and suggest what to do about each.

    The logs are also checked for violations of the transaction protocol. Exit code 3: a transaction hangs, is stuck or
    has held back readers for longer than --blocked-after, or a rule is violated; 4: nothing was found, but not
    everything could be read or judged; 5: something was found, and not everything could be read or judged.

    \b
    All brokers' copies, with a page to send around:
      kafkawire audit /copies/broker-1 /copies/broker-2 --report report.html
    A fleet, as a Spark job:
      kafkawire audit s3://logs/fleet --engine spark --master spark://spark:7077
    A cluster, without its disks:
      kafkawire audit --bootstrap-server 127.0.0.1:9092 --since 0 --resume audit.journal
    A large cluster, whose logs Spark tasks fetch:
      kafkawire audit --bootstrap-server kafka:9092 --engine spark --throttle 200000000 --parallel 16
    """
    from kafkawire.transactions import Settings

    paths = paths or []
    source.check_source(paths, bootstrap_server)
    spark_conf = spark_settings(conf)
    check_log_output(report, [*paths, *(tier_key or ()), command_config, resume], "--report")
    replicas = _replicas(paths, explained or (), tier_key or ())
    settings = Settings(
        as_of=as_of,
        max_timeout_ms=_milliseconds(max_transaction_timeout),
        producer_id_expiration_ms=_milliseconds(producer_id_expiration),
        transactional_id_expiration_ms=_milliseconds(transactional_id_expiration),
        transaction_state_partitions=txn_partitions,
        show_records=show_records,
        blocked_after_ms=blocked_after * MINUTE_MS,
    )
    with nullcontext() if report is None else open_output(report) as page:  # first: it may fail; reading takes hours
        if bootstrap_server is not None:
            from kafkawire.cli.audit_cluster import audit_cluster

            topics, load = tuple(topic) if topic else None, (throttle, parallel)
            on_spark = (master, spark_conf) if engine is Engine.spark else None
            cluster = txn.Address(bootstrap_server, command_config, timeout)
            result = audit_cluster(cluster, settings, confirm_after, topics, since, load, resume, on_spark)
        elif engine is Engine.spark:
            output_tables = (save, save_as_table, save_format, save_mode.value) if save or save_as_table else None
            result = _spark(paths, settings, master, spark_conf, output_tables, tier_key or ())
        else:
            result = _local(paths, settings, jobs or cores(), tier_key or ())
        if bootstrap_server is None and not result.read.partitions:
            raise InputError(f"{paths[0]}: no partition's log is here: give log directories, or folders that hold some")
        if page is not None:
            page.write(_html(result, replicas))
    if report != "-":
        chosen = findings.chosen_format(format)
        if chosen is Format.table:
            _print_table(result, output.Shown(chosen, None, wide, no_cut))
        else:
            findings.print_for_tools(result, chosen)
        if report is not None and chosen is Format.table:
            findings.print_line("")
            findings.print_line(f"Report: {report}")
    findings.end(result)


def _milliseconds(minutes: int | None) -> int | None:
    return None if minutes is None else minutes * MINUTE_MS


# Engines -------------------------------------------------------------------------------------------------------------


def _local(paths: list[str], settings: Settings, jobs: int, tier_keys: Sequence[str]) -> rows.Audit:
    from kafkawire import logdir, transactions
    from kafkawire.offsets.share_audit import with_shares

    directory = logdir.open(*paths, tier_keys=tier_keys)
    segments = (file for partition in directory.partitions for file in partition.segments)
    shown = sys.stderr.isatty()
    with progress(total_size(segments) if shown else 0, shown=shown) as advance:
        found = transactions.audit(
            directory, settings, paths=tuple(paths), progress=advance if shown else None, jobs=jobs
        )
        return with_shares(found, directory)


def _spark(
    paths: list[str],
    settings: Settings,
    master: str | None,
    conf: dict[str, str],
    tables: tuple[str | None, str | None, str | None, str] | None,
    tier_keys: Sequence[str],
) -> rows.Audit:
    from kafkawire.spark import TableOutput, audit

    save = None if tables is None else TableOutput(*tables)
    with spark_tasks() as progress:
        return audit(paths, settings, master=master, conf=conf, progress=progress, save=save, tier_keys=tier_keys)


# Answers -------------------------------------------------------------------------------------------------------------


def _print_table(audit: rows.Audit, printing: output.Shown) -> None:
    from kafkawire.transactions.checks.check_names import OF_FINDINGS
    from kafkawire.transactions.formatting import when

    several = len({finding.cluster_id for finding in audit.findings}) > 1
    found = findings.by_place(audit.findings)
    if found:
        printing.print((_line(finding, several) for finding in found), [OpenTransaction], _VIEWS)
    else:
        findings.print_none_found(audit, "No transaction is open.", "No open transaction was found")
    findings.print_line("")
    if found:
        findings.print_attention(audit)
    findings.print_line(f"Ages as of {when(audit.as_of)} ({audit.read.clock or 'no clock was found'}).")
    if audit.findings:
        findings.print_missing(audit)
    _print_answers(audit.answers)
    _print_settings(audit.read.settings)
    findings.explain(audit.findings, several_clusters=several)
    broken = [violation for violation in audit.violations if violation.check not in OF_FINDINGS]
    if broken or audit.damage:
        findings.print_line("")
        printing.print((*broken, *audit.damage), [rows.Violation, rows.DamageRow], _VIEWS)
    for sentence in findings.omitted(audit):
        findings.print_line(sentence)


def _print_answers(answers: tuple[rows.CheckAnswer, ...]) -> None:
    """Prints which checks were made, what they found, and which had no data."""
    from kafkawire.transactions.checks.check_names import OF_FINDINGS

    if not answers:
        return
    broken = [
        f"{answer.check} ({answer.violated}{', listed above' if answer.check in OF_FINDINGS else ''})"
        for answer in answers
        if answer.answer == "violated"
    ]
    findings.print_line(f"Checked: {len(answers)} rules of transactions. Violated: {', '.join(broken) or 'none'}.")
    mute = [answer for answer in answers if answer.answer == "not_checkable" or _doubts_an_id(answer)]
    if mute:
        findings.print_line("Not checkable:")
    for answer in mute:
        findings.print_line(f"  - {answer.check}: {'; '.join(answer.lacked)}")


def _doubts_an_id(answer: rows.CheckAnswer) -> bool:
    """Whether some producer ids could not be checked to be unique. That is rare, so it is printed even where all others
    were."""
    from kafkawire.transactions.answers import PRODUCER_ID_UNIQUE

    return answer.check == PRODUCER_ID_UNIQUE and answer.not_checkable > 0


def _print_settings(settings: tuple[rows.Setting, ...]) -> None:
    """Prints the settings of the audit, grouped by their source."""
    by_source: dict[str, list[str]] = {}
    for setting in settings:
        by_source.setdefault(setting.source, []).append(f"{setting.name} {setting.value}")
    if by_source:
        by_name = (f"{', '.join(listed)} ({source})" for source, listed in by_source.items())
        findings.print_line(f"Settings: {'; '.join(by_name)}.")


def _line(finding: rows.Finding, several: bool) -> OpenTransaction:
    from kafkawire.transactions.formatting import duration

    expired = finding.transactional_id is not None and finding.coordinator_state is None
    return OpenTransaction.of(
        finding,
        cluster=(finding.cluster_id or "unknown") if several else None,
        epoch=finding.producer_epoch,
        age="" if finding.age_ms is None else duration(finding.age_ms),
        coordinator_state="expired" if expired else finding.coordinator_state,
        blocks_readers="yes" if finding.blocked else "no",
    )


def _html(audit: rows.Audit, replicas: Sequence[Replica]) -> bytes:
    from kafkawire import report

    if not replicas:
        return report.render(audit).encode()
    from kafkawire import offsets

    return report.render(audit, (row for one in replicas for row in offsets.explain(one))).encode()


def _replicas(paths: Sequence[str], names: Sequence[str], tier_keys: Sequence[str]) -> list[Replica]:
    """The replicas of the partitions whose offsets the report shows."""
    if not names:
        return []
    from kafkawire import logdir, offsets
    from kafkawire.logdir.file_names import partition_name

    directory = logdir.open(*paths, tier_keys=tier_keys)
    found: list[Replica] = []
    for name in names:
        named = partition_name(name)
        if named is None or named.state:
            raise typer.BadParameter(f"{name!r} is no partition, such as orders-0", param_hint="--explain")
        try:
            found += offsets.replicas(directory, named.topic, named.partition)
        except LookupError as error:
            raise typer.BadParameter(str(error.args[0]), param_hint="--explain") from None
    return found

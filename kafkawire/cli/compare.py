"""`kafkawire compare`: two copies of the same data: replicas, a mirror, a lake table, before and after a restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkawire import rows
from kafkawire.cli import exit_codes, output
from kafkawire.cli.option_groups import SPARK, Group, grouped
from kafkawire.cli.output_file import check_log_output
from kafkawire.cli.source_options import TierKeysOption
from kafkawire.cli.spark_options import ConfOption, Engine, EngineOption, MasterOption, spark_settings
from kafkawire.cli.table import TableView, Views

if TYPE_CHECKING:
    from kafkawire.witness.lake_copies import LakeTable

_MOST = 1000  # `witness.MOST_DIFFERENCES`


class CompareBy(StrEnum):
    """What is compared: batches at the same offsets, or records in the same order."""

    offsets = "offsets"
    order = "order"


#: What a table shows of each kind of row, in the order of the columns of csv.
_VIEWS: Views = {
    rows.ComparedPartition: TableView(
        columns=(
            "topic", "partition", "topic_b", "by", "in_a", "in_b", "same", "of_a", "of_b", "syncs", "syncs_unknown",
            "a", "b",
        ),
        primary=("topic", "partition", "same", "of_a", "of_b"),
        minor=("a", "b", "by", "topic_b", "syncs", "syncs_unknown"),
    ),
    rows.CopyDifference: TableView(
        columns=("side", "difference", "topic", "partition", "first_offset", "last_offset", "number", "file"),
        primary=("side", "difference", "topic", "partition", "first_offset", "last_offset"),
        minor=("file",),
    ),
    rows.MirroredOffset: TableView(
        columns=(
            "said_by", "result", "group", "topic", "partition", "offset_a", "offset_b", "missed", "again",
        ),
        primary=("said_by", "result", "group", "topic", "partition", "offset_a", "offset_b"),
    ),
    rows.DamageRow: TableView(
        columns=("topic", "partition", "position", "reason", "detail", "resumed_at"),
        primary=("topic", "partition", "position", "reason", "detail"),
        prose=("detail",),
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


@grouped(
    Group("What is compared", ("by", "topic", "prefix", "offset_columns", "tier_key", "engine")),
    Group("A Spark job", ("master", "conf"), (SPARK,)),
    Group("What is printed", ("max_differences", "format", "to", "wide", "no_cut")),
)
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A log directory, a tier, or a folder of several.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The copy of it; or a lake table: Parquet, Delta or Iceberg.")],
    by: Annotated[
        CompareBy | None,
        typer.Option(
            help="What is compared: batches at the same offsets, or committed records in the same order. By default "
            "offsets where cluster or topic have one id in both, otherwise order."
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Only this topic, by its name in A.")] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="In front of the names of topics in B, as a mirror has: 'west.'.")
    ] = "",
    offset_columns: Annotated[
        str | None,
        typer.Option(
            "--offset-columns",
            metavar="NAME,NAME,NAME",
            help="Columns of a lake table with topic, partition and offset of each record. By default these names.",
        ),
    ] = None,
    max_differences: Annotated[
        int, typer.Option(min=0, metavar="N", help="Differences that are listed, at most; all are counted.")
    ] = _MOST,
    tier_key: TierKeysOption = None,
    engine: EngineOption = Engine.local,
    master: MasterOption = None,
    conf: ConfOption = None,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Compare two copies of the same data, partition by partition.

    Each batch of A is in B, or it is expired, compacted or uncommitted, or B ends before it, or it is lost; the reverse
    is extra, repeated, reordered or changed. Files are only read. Exit codes: 3 something is lost, extra, repeated,
    reordered or changed; 4 nothing is, and something could not be compared; 5 both.

    \b
    Do two replicas hold the same?
      kafkawire compare /copies/broker-1 /copies/broker-2
    What has a mirror not copied, or copied twice?
      kafkawire compare /copies/east /copies/west --prefix east. --by order
    Two fleets, on a cluster:
      kafkawire compare s3://copies/east s3://copies/west --engine spark --master yarn
    Has a lake table each record, once?
      kafkawire compare /copies/broker-1 /lake/orders --topic orders
    """
    from kafkawire import logdir
    from kafkawire.witness import CopyComparison

    spark_conf = spark_settings(conf)
    check_log_output(to, [a, b, *(tier_key or ())])
    table = _table(b, offset_columns)
    if table is not None and by is CompareBy.order:
        raise typer.BadParameter("a lake table is compared by offsets", param_hint="--by")
    directories = [logdir.open(one, tier_keys=tier_key or ()) for one in ((a,) if table else (a, b))]
    options: dict[str, Any] = {
        "by": None if by is None else by.value,
        "prefix": prefix,
        "topic": topic,
        "most": max_differences,
    }
    incomplete: list[str] = []
    number = broken = 0

    def compared() -> Iterator[rows.Row]:
        nonlocal broken
        if engine is Engine.spark:
            found, broken, missing = _on_spark(a, b, table, master, spark_conf, tier_key or (), options)
            yield from found
        else:
            comparison = CopyComparison(directories[0], table or directories[1], **options)
            yield from comparison.rows()
            broken, missing = comparison.found, comparison.incomplete
        incomplete.extend(missing)

    def counted() -> Iterator[rows.Row]:
        nonlocal number
        for directory in directories:
            for unreadable in directory.unreadable:
                incomplete.append(f"{unreadable.path}: {unreadable.reason}")
                yield rows.DamageRow(file=unreadable.path, reason="unreadable", detail=unreadable.reason)
        for row in compared():
            number += isinstance(row, rows.ComparedPartition)
            yield row

    output.Shown(format, to, wide, no_cut).print(counted(), tuple(_VIEWS), _VIEWS)
    if not number:
        incomplete.append("the paths hold no partition" + (f" of {topic}" if topic else ""))
    exit_codes.end(rows.Outcome(found=broken > 0, complete=not incomplete, missing=tuple(incomplete)))


def _on_spark(
    a: str,
    b: str,
    table: LakeTable | None,
    master: str | None,
    conf: dict[str, str],
    tier_keys: Sequence[str],
    options: dict[str, Any],
) -> tuple[list[rows.Row], int, list[str]]:
    from kafkawire.cli.progress import spark_tasks
    from kafkawire.spark.auditing.compare_job import compare as on_spark

    columns = None if table is None else table.columns
    with spark_tasks() as progress:
        return on_spark(
            a, b, master=master, conf=conf, progress=progress, offset_columns=columns, tier_keys=tier_keys, **options
        )


def _table(path: str, columns: str | None) -> LakeTable | None:
    """The lake table at a path; None where there is none."""
    from kafkawire.witness.lake_copies import OFFSET_COLUMNS, LakeTable, kind_of

    names = OFFSET_COLUMNS if columns is None else tuple(name.strip() for name in columns.split(","))
    if len(names) != 3 or not all(names):
        raise typer.BadParameter("three names, with commas between them", param_hint="--offset-columns")
    if kind_of(path) is not None:
        return LakeTable(path, (names[0], names[1], names[2]))
    if columns is not None:
        raise typer.BadParameter(f"{path} is no lake table", param_hint="--offset-columns")
    return None

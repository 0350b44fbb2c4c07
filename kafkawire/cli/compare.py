"""`kafkawire compare`: two copies of the same data: replicas, a mirror, before and after a restore."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from kafkawire import rows
from kafkawire.cli import exit_codes, output
from kafkawire.cli.dump_options import TierKeys, all_paths
from kafkawire.cli.output_file import check_log_output
from kafkawire.cli.table import TableView, Views

_MOST = 1000  # `witness.MOST_DIFFERENCES`


class CompareBy(StrEnum):
    """What is compared: batches at the same offsets, or records in the same order."""

    offsets = "offsets"
    order = "order"


_VIEWS: Views = {
    rows.ComparedPartition: TableView(
        columns=("topic", "partition", "topic_b", "by", "in_a", "in_b", "same", "of_a", "of_b", "a", "b"),
        primary=("topic", "partition", "same", "of_a", "of_b"),
        minor=("a", "b", "by", "topic_b"),
    ),
    rows.CopyDifference: TableView(
        columns=("side", "difference", "topic", "partition", "first_offset", "last_offset", "number", "file"),
        primary=("side", "difference", "topic", "partition", "first_offset", "last_offset"),
        minor=("file",),
    ),
    rows.DamageRow: TableView(
        columns=("topic", "partition", "position", "reason", "detail", "resumed_at"),
        primary=("topic", "partition", "position", "reason", "detail"),
        prose=("detail",),
    ),
}


def register(app: typer.Typer) -> None:
    app.command("compare", short_help="Compare two copies of one log: replicas, a mirror, a restore.")(compare)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A log directory, a tier, or a folder of several.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The copy of it.")],
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
    max_differences: Annotated[
        int, typer.Option(min=0, metavar="N", help="Differences that are listed, at most; all are counted.")
    ] = _MOST,
    tier_key: TierKeys = None,
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
    """
    from kafkawire import logdir
    from kafkawire.witness import CopyComparison

    paths = [all_paths([one], None) for one in (a, b)]
    check_log_output(to, [*(path for one in paths for path in one), *(tier_key or ())])
    directories = [logdir.open(*one, tier_keys=tier_key or ()) for one in paths]
    compared = CopyComparison(
        directories[0],
        directories[1],
        by=None if by is None else by.value,
        prefix=prefix,
        topic=topic,
        most=max_differences,
    )
    number = 0

    def counted() -> Iterator[rows.Row]:
        nonlocal number
        for directory in directories:
            for unreadable in directory.unreadable:
                compared.incomplete.append(f"{unreadable.path}: {unreadable.reason}")
                yield rows.DamageRow(file=unreadable.path, reason="unreadable", detail=unreadable.reason)
        for row in compared.rows():
            number += isinstance(row, rows.ComparedPartition)
            yield row

    output.print_rows(
        counted(),
        [rows.ComparedPartition, rows.CopyDifference, rows.DamageRow],
        format=format,
        output=to,
        views=_VIEWS,
        wide=wide,
        no_cut=no_cut,
    )
    if not number:
        compared.incomplete.append("the paths hold no partition" + (f" of {topic}" if topic else ""))
    missing = tuple(compared.incomplete)
    exit_codes.end(rows.Outcome(found=compared.found > 0, complete=not missing, missing=missing))

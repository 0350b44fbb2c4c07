"""The report's tables: rows of cells with sort keys. One macro of the template renders all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kafkawire.report.descriptions import (
    check_sentence,
    label,
    other_violations,
    reason_of,
    severity,
    waiting_offsets,
    with_spaces,
)
from kafkawire.report.partition_charts import PartitionChart
from kafkawire.rows import Audit, CheckAnswer, Finding
from kafkawire.transactions.formatting import duration

#: Limit of rows in a table. The number of the others is shown; `--format json` has all of them.
MOST_ROWS = 500

_ANSWER_SEVERITIES = {"violated": "stuck", "not_checkable": "unknown", "holds": "fine"}


class TableCell(msgspec.Struct, frozen=True):
    """A cell of a table.

    Attributes:
        key: the sort key; "" for the text itself, None for an unknown value, which is sorted last.
        severity: one of `descriptions.SEVERITIES`, for the colour.
        code: whether the text is a name, shown in a fixed-width font.
        anchor: the id of the page's section to which the cell links.
        bar: length of a bar beside the text, in per cent.
    """

    text: str
    key: int | str | None = ""
    severity: str | None = None
    code: bool = False
    anchor: str | None = None
    bar: float | None = None


class TableColumn(msgspec.Struct, frozen=True):
    """The heading of a column, and whether its cells are numbers."""

    name: str
    number: bool = False


class SortableTable(msgspec.Struct, frozen=True):
    """A table. `hidden`: number of rows that are not shown; `complete`: the command that has all."""

    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    hidden: int = 0
    complete: str = "audit --format json"


def number_cell(value: int | None) -> TableCell:
    """An offset or id without separators, as commands accept it; unknown for None."""
    return TableCell("unknown", None) if value is None else TableCell(str(value), value)


def count_cell(value: int) -> TableCell:
    """A number of things, with separators between thousands."""
    return TableCell(f"{value:,}", value)


def text_cell(value: str) -> TableCell:
    return TableCell(value, value)


def name_cell(value: str | None) -> TableCell:
    """A name of the cluster or its users: a transactional id, a state, a check."""
    return TableCell("none", None) if value is None else TableCell(value, value, code=True)


def partition_cell(topic: str, partition: int, cluster: str | None, *, several: bool) -> TableCell:
    """`orders-1`, which sorts before `orders-10`.

    Args:
        topic, partition: the partition.
        cluster: its cluster's id; None: unknown.
        several: whether to name the cluster.
    """
    text = f"{topic}-{partition}"
    return TableCell(f"{cluster or 'unknown'}: {text}" if several else text, f"{topic}-{partition:010}", code=True)


def table(
    caption: str, columns: Sequence[str], rows: Iterable[tuple[TableCell, ...]], total: int, omitted: int = 0
) -> SortableTable:
    """A table of the first rows.

    Args:
        caption: its title.
        columns: headings; one that ends with `#` is that of a column of numbers.
        rows: as many as are shown are taken.
        total: number of rows.
        omitted: number of further rows, which the audit does not have.
    """
    shown = tuple(row for row, _ in zip(rows, range(MOST_ROWS), strict=False))
    heads = tuple(TableColumn(head.removesuffix("#"), head.endswith("#")) for head in columns)
    where = "audit --engine spark --save PATH" if omitted else "audit --format json"
    return SortableTable(caption, heads, shown, total + omitted - len(shown), where)


def _omitted(audit: Audit, kind: str) -> int:
    return sum(more.count for more in audit.omitted if more.rows == kind)


# The tables -----------------------------------------------------------------------------------------------------


def findings(audit: Audit, ordered: Sequence[Finding], anchors: Sequence[str]) -> SortableTable:
    """All open transactions.

    Args:
        audit: the audit.
        ordered: its findings, in the order of the rows.
        anchors: ids of the sections of the first findings.
    """
    several = len(audit.read.clusters) > 1

    def row(position: int, finding: Finding) -> tuple[TableCell, ...]:
        anchor = anchors[position] if position < len(anchors) else None
        return (
            TableCell(label(finding), position, severity(finding), anchor=anchor),
            partition_cell(finding.topic, finding.partition, finding.cluster_id, several=several),
            number_cell(finding.start_offset),
            text_cell(reason_of(finding).title),
            TableCell("unknown", None)
            if finding.age_ms is None
            else TableCell(duration(finding.age_ms), finding.age_ms),
            count_cell(waiting_offsets(finding)),
            name_cell(finding.transactional_id),
            name_cell(finding.coordinator_state),
            number_cell(finding.producer_id),
            number_cell(finding.producer_epoch),
        )

    columns = ("Finding", "Partition", "From offset#", "Why", "Age#", "Holds back#", "Transactional id", "State",
               "Producer id#", "Epoch#")  # fmt: skip
    rows = (row(position, finding) for position, finding in enumerate(ordered))
    return table(
        "All open transactions, the most severe first", columns, rows, len(ordered), _omitted(audit, "finding")
    )


def partitions(audit: Audit, partition_charts: Sequence[PartitionChart]) -> SortableTable:
    """Partitions with open transactions: how far readers get, and how many offsets they wait for."""
    several = len(audit.read.clusters) > 1
    most = max((chart.waiting for chart in partition_charts), default=0)

    def row(chart: PartitionChart) -> tuple[TableCell, ...]:
        behind = chart.waiting
        holder = next((finding for finding in chart.findings if finding.blocked), None)
        return (
            partition_cell(chart.topic, chart.partition, chart.cluster_id, several=several),
            TableCell(f"{behind:,}", behind, bar=round(100 * behind / most, 1) if most else None),
            TableCell("none", None) if holder is None else TableCell(label(holder), severity=severity(holder)),
            number_cell(chart.last_stable_offset),
            number_cell(chart.high_watermark),
            number_cell(chart.log_start),
            count_cell(len(chart.findings)),
        )

    columns = ("Partition", "Readers wait for#", "Held by", "Last stable offset#", "High watermark#", "Log start#",
               "Open#")  # fmt: skip
    return table("Partitions with open transactions", columns, map(row, partition_charts), len(partition_charts))


def answers(audit: Audit) -> SortableTable:
    """The answers of all checks: violated ones first, then those that are not checkable."""
    order = list(_ANSWER_SEVERITIES)

    def rank(answer: CheckAnswer) -> int:
        return order.index(answer.answer) if answer.answer in order else len(order)

    def row(answer: CheckAnswer) -> tuple[TableCell, ...]:
        return (
            TableCell(with_spaces(answer.answer), rank(answer), _ANSWER_SEVERITIES.get(answer.answer)),
            name_cell(answer.check),
            text_cell(check_sentence(answer.check)),
            count_cell(answer.violated),
            count_cell(answer.held),
            count_cell(answer.not_checkable),
            count_cell(answer.noted),
            text_cell("; ".join(answer.lacked)),
        )

    columns = ("Answer", "Rule", "Description", "Broken#", "Held#", "Not checkable#", "Noted#", "What was lacking")
    ordered = sorted(audit.answers, key=rank)
    return table("The rules that were checked", columns, map(row, ordered), len(ordered))


def violations(audit: Audit) -> SortableTable:
    columns = ("Rule", "What was found", "Place", "Transactional id", "Producer id#", "File")
    shown = other_violations(audit)
    rows = (
        (
            TableCell(found.check, severity="stuck", code=True),
            text_cell(found.what),
            text_cell(found.place),
            name_cell(found.transactional_id),
            number_cell(found.producer_id),
            text_cell(found.file or ""),
        )
        for found in shown
    )
    return table("Broken rules other than open transactions", columns, rows, len(shown))


def damage(audit: Audit) -> SortableTable:
    columns = ("File", "Byte#", "Reason", "Detail", "Reading resumed at#", "Harmless")
    rows = (
        (
            text_cell(found.file or ""),
            number_cell(found.position),
            text_cell(with_spaces(found.reason)),
            text_cell(found.detail or ""),
            TableCell("nothing more was read", None) if found.resumed_at is None else number_cell(found.resumed_at),
            text_cell("yes" if found.harmless else "no"),
        )
        for found in audit.damage
    )
    return table("What could not be read", columns, rows, len(audit.damage), _omitted(audit, "damage"))


def settings(audit: Audit) -> SortableTable:
    columns = ("Setting", "Value#", "From")
    rows = ((name_cell(one.name), number_cell(one.value), text_cell(one.source)) for one in audit.read.settings)
    return table("Settings of the cluster that verdicts depend on", columns, rows, len(audit.read.settings))

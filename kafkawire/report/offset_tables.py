"""The offsets of partitions in a report: the rows of `kafkawire.offsets.explain`, a section for each replica."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.report.descriptions import with_spaces
from kafkawire.report.sortable_tables import SortableTable, TableCell, count_cell, number_cell, table, text_cell

#: Statuses that call for attention, and the severities of their badges.
_SEVERITIES = {
    "unreadable": "hanging",
    "truncated": "hanging",
    "open": "stuck",
    "unknown": "unknown",
    "above_high_watermark": "watch",
}


#: The command that has all ranges.
_COMPLETE = "explain --max-ranges 0"


class ReplicaOffsets(msgspec.Struct, frozen=True):
    """The section of a replica.

    Attributes:
        name: topic and partition. place: the directory, and the broker.
        facts: names and values of its bounds.
        tables: of its statuses, ranges, and what else was found.
    """

    name: str
    place: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[SortableTable, ...]


def replica_offsets(found: Iterable[rows.Row]) -> tuple[ReplicaOffsets, ...]:
    """The sections, in the order of the rows."""
    groups: list[tuple[rows.ReplicaBounds, list[rows.Row]]] = []
    for row in found:
        if isinstance(row, rows.ReplicaBounds):
            groups.append((row, []))
        elif groups:
            groups[-1][1].append(row)
    return tuple(_section(replica, listed) for replica, listed in groups)


def _section(replica: rows.ReplicaBounds, listed: Sequence[rows.Row]) -> ReplicaOffsets:
    broker = "" if replica.broker is None else f"broker {replica.broker}: "
    bounds = [
        ("Log start offset", replica.log_start_offset),
        ("Last stable offset", replica.last_stable_offset),
        ("High watermark", replica.high_watermark),
        ("Log end offset", replica.log_end_offset),
        ("Diverges from the newest log at", replica.diverges_at),
    ]
    tables = (_totals(listed), _ranges(listed), _partial(listed), _equal(listed))
    return ReplicaOffsets(
        name=f"{replica.topic}-{replica.partition}",
        place=f"{broker}{replica.file}",
        facts=tuple((name, str(value)) for name, value in bounds if value is not None),
        tables=tuple(replace(one, complete=_COMPLETE) for one in tables if one.rows),
    )


def _status(row: rows.StatusRange | rows.StatusTotal) -> TableCell:
    state = row.transaction or row.control
    text = with_spaces(row.status) if state in (None, "none") else f"{with_spaces(row.status)}, {state}"
    return TableCell(text, text, _SEVERITIES.get(row.transaction or row.status))


def _totals(listed: Sequence[rows.Row]) -> SortableTable:
    found = [row for row in listed if isinstance(row, rows.StatusTotal)]
    most = sum(row.offsets for row in found)
    return table(
        f"What its {most:,} offsets are",
        ("Status", "Offsets#", "Ranges#", "First#", "Last#", "Coordinator epoch#", "Reason"),
        (
            (
                _status(row),
                TableCell(f"{row.offsets:,}", row.offsets, bar=round(100 * row.offsets / most, 1)),
                count_cell(row.ranges),
                number_cell(row.first_offset),
                number_cell(row.last_offset),
                TableCell("", None) if row.coordinator_epoch is None else number_cell(row.coordinator_epoch),
                text_cell(with_spaces(row.reason or "")),
            )
            for row in found
        ),
        len(found),
    )


def _ranges(listed: Sequence[rows.Row]) -> SortableTable:
    found = [row for row in listed if isinstance(row, rows.StatusRange)]
    return table(
        "Its ranges of offsets",
        ("First#", "Last#", "Offsets#", "Status", "Detail"),
        (
            (
                number_cell(row.first_offset),
                number_cell(row.last_offset),
                count_cell(row.offsets),
                _status(row),
                text_cell(_detail(row)),
            )
            for row in found
        ),
        len(found),
    )


def _detail(row: rows.StatusRange) -> str:
    if isinstance(row.of, dict):
        return ", ".join(f"{number:,} {with_spaces(name)}" for name, number in row.of.items())
    place = "" if row.segment is None or row.position is None else f" ({row.segment}, byte {row.position})"
    return f"{row.detail or ''}{place}"


def _partial(listed: Sequence[rows.Row]) -> SortableTable:
    found = [row for row in listed if isinstance(row, rows.PartialTransaction)]
    total = sum(row.transactions for row in listed if isinstance(row, rows.PartialTransactionTotal))
    return table(
        "Transactions of which compaction has left a part",
        ("First offset#", "Last offset#", "Producer id#", "Outcome", "Records left#", "Records removed#"),
        (
            (
                number_cell(row.first_offset),
                number_cell(row.last_offset),
                number_cell(row.producer_id),
                text_cell(row.transaction),
                count_cell(row.left),
                count_cell(row.removed),
            )
            for row in found
        ),
        total,
    )


def _equal(listed: Sequence[rows.Row]) -> SortableTable:
    found = [row for row in listed if isinstance(row, rows.EqualRecords)]
    return table(
        "Records that were written twice",
        ("First offset#", "Last offset#", "Equal to#", "Up to#", "Producer id#", "Earlier producer id#"),
        (
            (
                number_cell(row.first_offset),
                number_cell(row.last_offset),
                number_cell(row.earlier_first_offset),
                number_cell(row.earlier_last_offset),
                number_cell(row.producer_id),
                number_cell(row.earlier_producer_id),
            )
            for row in found
        ),
        len(found),
    )

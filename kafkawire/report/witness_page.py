"""The content of the witness's report: the fates of batches, and each anomaly with the steps of its record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kafkawire import rows
from kafkawire.report.descriptions import with_spaces
from kafkawire.report.sortable_tables import SortableTable, TableCell, count_cell, name_cell, table, text_cell

#: What breaks a promise, and what is not known, by the colours of badges.
_BROKEN, _UNKNOWN, _FINE = "hanging", "unknown", "fine"
_ANOMALIES = (
    rows.DeliveryAnomaly, rows.TransactionAnomaly, rows.OrderAnomaly, rows.ReadAnomaly, rows.CommitAnomaly,
)  # fmt: skip
_COMPLETE = "witness --format jsonl"
_DELIVERED = {"held", "compacted", "deleted", "unacknowledged_held", "refused"}
#: Anomalies that have a section.
MOST_SECTIONS = 200


class Step(msgspec.Struct, frozen=True):
    """A step of a record's way. `name`: request, response, log, marker, fetch or commit. `where`: packet and capture,
    or offset and segment."""

    name: str
    what: str
    where: str


class AnomalySection(msgspec.Struct, frozen=True):
    """An anomaly, with the steps of its record."""

    anchor: str
    name: str
    place: str
    rule: str
    hint: str
    steps: tuple[Step, ...]


class WitnessContent(msgspec.Struct, frozen=True):
    """The content of the page. `facts`: names and values. `hidden`: number of anomalies without a section."""

    verdict: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[SortableTable, ...]
    sections: tuple[AnomalySection, ...]
    hidden: int


def witness_content(found: Iterable[rows.Row]) -> WitnessContent:
    """The content of the page, from the rows of `kafkawire.witness`.

    Raises:
        ValueError: there is no `WitnessSummary` among them.
    """
    listed = list(found)
    summary = next((row for row in listed if isinstance(row, rows.WitnessSummary)), None)
    if summary is None:
        raise ValueError("no WitnessSummary is among the rows")
    broken = sum(
        getattr(summary, name)
        for name in summary.__struct_fields__
        if name == "anomalies" or name.endswith("_anomalies")
    )
    anomalies = [row for row in listed if isinstance(row, _ANOMALIES)]
    sections = tuple(_section(number, row) for number, row in enumerate(anomalies[:MOST_SECTIONS], start=1))
    return WitnessContent(
        verdict=f"{summary.held:,} of {summary.acknowledged:,} acknowledged batches are held as acknowledged; "
        f"{broken:,} anomalies, {summary.unknown + summary.read_unknown + summary.commit_unknown:,} unknown.",
        facts=tuple(
            (with_spaces(name).capitalize(), f"{value:,}")
            for name in summary.__struct_fields__
            if isinstance(value := getattr(summary, name), int)
        ),
        tables=tuple(
            one
            for one in (_fates(listed), _reads(listed), _ended(listed), _commits(listed), _premises(listed))
            if one.rows
        ),
        sections=sections,
        hidden=broken - len(sections),
    )


def _table(caption: str, columns: Sequence[str], cells: Sequence[tuple[TableCell, ...]]) -> SortableTable:
    return msgspec.structs.replace(table(caption, columns, cells, len(cells)), complete=_COMPLETE)


def _colour(name: str, fine: Iterable[str]) -> TableCell:
    severity = _UNKNOWN if name == "unknown" else _FINE if name in fine else _BROKEN
    return TableCell(with_spaces(name), name, severity)


def _fates(listed: Sequence[rows.Row]) -> SortableTable:
    cells = [
        (
            text_cell(with_spaces(row.response)), _colour(row.fate, _DELIVERED), name_cell(row.transaction),
            text_cell(row.error or row.detail or ""), count_cell(row.batches), count_cell(row.records),
        )
        for row in listed
        if isinstance(row, rows.FateTotal)
    ]  # fmt: skip
    return _table("Batches that were sent", ("Response", "Fate", "Transaction", "Why", "Batches#", "Records#"), cells)


def _reads(listed: Sequence[rows.Row]) -> SortableTable:
    cells = [
        (
            name_cell(row.isolation), _colour(row.read, ("delivered", "left_out")), text_cell(row.detail or ""),
            count_cell(row.batches), count_cell(row.records),
        )
        for row in listed
        if isinstance(row, rows.ReadTotal)
    ]  # fmt: skip
    return _table("Batches that consumers were given", ("Isolation", "Read", "Why", "Batches#", "Records#"), cells)


def _ended(listed: Sequence[rows.Row]) -> SortableTable:
    cells = [
        (name_cell(row.end_txn), name_cell(row.transaction), count_cell(row.batches))
        for row in listed
        if isinstance(row, rows.TransactionTotal)
    ]
    return _table("Transactions whose end was answered", ("EndTxn", "Transaction", "Batches#"), cells)


def _commits(listed: Sequence[rows.Row]) -> SortableTable:
    cells = [
        (
            _colour(row.commit, ("held", "superseded", "aborted", "open")), _colour(row.delivery, ("delivered",)),
            text_cell(row.detail or ""), count_cell(row.commits),
        )
        for row in listed
        if isinstance(row, rows.CommitTotal)
    ]  # fmt: skip
    return _table("Offsets that groups committed", ("In the group's log", "Given", "Why", "Commits#"), cells)


def _premises(listed: Sequence[rows.Row]) -> SortableTable:
    cells = [
        (name_cell(row.name), _colour("holds" if row.holds else "does not hold", ("holds",)), text_cell(row.what))
        for row in listed
        if isinstance(row, rows.Premise)
    ]
    return _table("What the answer rests on", ("Premise", "Holds", "What was found"), cells)


def _section(number: int, row: rows.Row) -> AnomalySection:
    assert isinstance(row, _ANOMALIES)
    group = f"group {row.group}: " if isinstance(row, rows.CommitAnomaly) else ""
    return AnomalySection(
        anchor=f"anomaly-{number}",
        name=with_spaces(row.name),
        place=f"{group}{row.topic}-{row.partition}",
        rule=row.rule,
        hint=row.hint,
        steps=tuple(_steps(row)),
    )


def _steps(row: rows.Row) -> Iterable[Step]:
    """The steps of the record that are known, in their order."""
    assert isinstance(row, _ANOMALIES)
    who = f"{row.client_id or 'a client'} at {row.client}" if row.client else row.client_id or "a client"
    asked = {rows.ReadAnomaly: "Fetch", rows.CommitAnomaly: "commit", rows.TransactionAnomaly: "EndTxn or Produce"}
    name = asked.get(type(row), "Produce")
    if isinstance(row, (rows.ReadAnomaly, rows.CommitAnomaly)) and isinstance(row, rows.ReadAnomaly):
        yield Step("log", f"offsets {row.first_offset} to {row.last_offset}", row.log or "")
        yield Step("fetch", f"Fetch of {who}", _packet(row.packet, row.file))
        yield Step("response", with_spaces(row.name), _packet(row.response_packet, row.file))
        return
    if isinstance(row, rows.CommitAnomaly):
        if row.first_offset is not None:
            yield Step(
                "log", f"offsets {row.first_offset} to {row.last_offset}, which the group was not given", row.log or ""
            )
        yield Step("commit", f"offset {row.offset}, by {who}", _packet(row.packet, row.file))
        yield Step("response", "without error", _packet(row.response_packet, row.file))
        if row.record_offset is not None:
            yield Step("log", f"__consumer_offsets, offset {row.record_offset}", row.log or "")
        return
    yield Step("request", f"{name} of {who}", _packet(row.packet, row.file))
    if row.response_packet is not None:
        yield Step("response", _response(row), _packet(row.response_packet, row.file))
    if isinstance(row, rows.TransactionAnomaly):
        places = [(row.offset, "log", f"offset {row.offset}: {row.transaction}")]
        if row.marker_offset is not None:
            places.append((row.marker_offset, "marker", f"offset {row.marker_offset}"))
        for _, kind, what in sorted(places):
            yield Step(kind, what, row.log or "")
    elif isinstance(row, rows.OrderAnomaly):
        yield Step("log", f"offset {row.later_offset}: sequence {row.later_sequence}", row.log or "")
        yield Step("log", f"offset {row.offset}: sequence {row.sequence}, which was sent before", row.log or "")
    else:
        held = sorted(offset for offset in (row.held_offset, row.second_offset) if offset is not None)
        for offset in held:
            yield Step("log", f"offset {offset}", row.log or "")
        if not held:
            yield Step("log", "no copy that counts has the batch", row.log or "")


def _response(row: rows.Row) -> str:
    if isinstance(row, rows.DeliveryAnomaly):
        offset = "" if row.acknowledged_offset is None else f", offset {row.acknowledged_offset}"
        return f"{with_spaces(row.response)}{offset}"
    return row.end_txn or "without error" if isinstance(row, rows.TransactionAnomaly) else "answered"


def _packet(packet: int | None, file: str | None) -> str:
    return "not captured" if packet is None else f"packet {packet} of {file}"

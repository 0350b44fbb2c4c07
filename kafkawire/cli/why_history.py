"""`kafkawire why --history`: the story of a group or a transactional id, from the records of its coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkawire import rows
from kafkawire.cli import output
from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.output import Format
from kafkawire.cli.source_options import leading_replicas
from kafkawire.cli.table import TableView
from kafkawire.cli.txn_options import Address

if TYPE_CHECKING:
    from kafkawire.client import Admin
    from kafkawire.logdir import LogDirectory


class EventLine(output.CommandRow, frozen=True, kw_only=True):
    """An event as a line of the table."""

    time: str
    offset: int
    what: str


def print_history(source: LogDirectory | Address, subject: rows.Subject, fetch_bytes: int, format: Format) -> None:
    """Prints the events of a group or a transactional id, in order. Ends with exit code 4 where something could not be
    read. `source`: copies; or a cluster, of whose log at most `fetch_bytes` are fetched."""
    outcome = ReadOutcome()
    found = _live(source, subject, fetch_bytes) if isinstance(source, Address) else _copied(source, subject)
    seen = 0

    def events() -> Iterator[rows.HistoryEvent | rows.DamageRow]:
        nonlocal seen
        for one in found:
            if isinstance(one, rows.DamageRow):
                if not one.harmless:
                    outcome.problem(f"{one.file or f'{one.topic}-{one.partition}'}: {one.detail or one.reason}")
            else:
                seen += 1
                outcome.read()
                if one.damaged:
                    outcome.problem(f"{one.topic}-{one.partition}, offset {one.offset}: {one.what}")
            yield one

    if format is Format.table:
        view = {EventLine: TableView(columns=EventLine.__struct_encode_fields__, prose=("what",))}
        lines = (_line(one) for one in events() if isinstance(one, rows.HistoryEvent))
        output.print_rows(lines, [EventLine], format=format, views=view)
    else:
        output.print_rows(events(), [rows.HistoryEvent, rows.DamageRow], format=format)
    outcome.end()
    if not seen:
        who = f"group {subject.group}" if subject.group is not None else f"transactional id {subject.transactional_id}"
        raise InputError(f"no record names {who}")


def _line(one: rows.HistoryEvent) -> EventLine:
    from kafkawire.transactions.formatting import when

    return EventLine.of(one, time=when(one.timestamp))


def _copied(directory: LogDirectory, subject: rows.Subject) -> Iterator[rows.HistoryEvent | rows.DamageRow]:
    from kafkawire.offsets.copied_history import copied_history

    yield from copied_history(leading_replicas(directory), subject)


def _live(cluster: Address, subject: rows.Subject, fetch_bytes: int) -> Iterator[rows.HistoryEvent]:
    """The events of a cluster: of at most `fetch_bytes` of a log, so that they can be held."""

    async def ask(admin: Admin) -> list[rows.HistoryEvent]:
        from kafkawire.client.diagnosis.history_reading import read_history

        return [event async for event in read_history(admin.cluster, subject, fetch_bytes, cluster.timeout)]

    yield from cluster.run(ask)

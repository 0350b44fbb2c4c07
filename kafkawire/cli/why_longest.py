"""`kafkawire why --topic NAME --longest N`: the transactions that blocked read_committed consumers the longest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

Made = rows.Hold | rows.DamageRow


class HoldLine(output.CommandRow, frozen=True, kw_only=True):
    """A hold as a line of the table."""

    held: str
    partition: str
    transactional_id: str | None
    producer_id: int
    first_offset: int
    outcome: str
    since: str | None
    ended: str | None


def print_longest(
    source: LogDirectory | Address, subject: rows.Subject, most: int, fetch_bytes: int, format: Format
) -> None:
    """Prints the longest holds of a topic, or of partitions of it. Ends with exit code 4 where something could not be
    read. `source`: copies; or a cluster, of whose partitions at most `fetch_bytes` are fetched. `most`: number of
    holds."""
    outcome = ReadOutcome()
    if isinstance(source, Address):
        found = iter(_live(source, subject, most, fetch_bytes))
    else:
        found = _copied(source, subject, most)

    def holds() -> Iterator[Made]:
        for one in found:
            if isinstance(one, rows.Hold):
                outcome.read()
            elif not one.harmless:
                outcome.problem(f"{one.file or f'{one.topic}-{one.partition}'}: {one.detail or one.reason}")
            yield one

    if format is Format.table:
        view = {HoldLine: TableView(columns=HoldLine.__struct_encode_fields__)}
        lines = (_line(one) for one in holds() if isinstance(one, rows.Hold))
        output.print_rows(lines, [HoldLine], format=format, views=view)
    else:
        output.print_rows(holds(), [rows.Hold, rows.DamageRow], format=format)
    outcome.end()


def _line(one: rows.Hold) -> HoldLine:
    from kafkawire.transactions.formatting import duration, when

    return HoldLine.of(
        one,
        held="not known" if one.held_ms is None else duration(one.held_ms),
        partition=f"{one.topic}-{one.partition}",
        since=None if one.held_since is None else when(one.held_since),
        ended=None if one.ended is None else when(one.ended),
    )


def _copied(directory: LogDirectory, subject: rows.Subject, most: int) -> Iterator[Made]:
    from kafkawire.offsets.copied_holds import copied_holds
    from kafkawire.offsets.copied_why import UnknownSubjectError, check_topic

    replicas, topic = leading_replicas(directory), subject.topic or ""
    try:
        check_topic(replicas, subject)
    except UnknownSubjectError as error:
        raise InputError(str(error)) from None
    yield from copied_holds(replicas, topic, subject.partitions or replicas.numbers(topic), most)


def _live(cluster: Address, subject: rows.Subject, most: int, fetch_bytes: int) -> Iterable[Made]:
    async def ask(admin: Admin) -> list[Made]:
        from kafkawire.client.diagnosis.holds_reading import read_holds

        numbers = frozenset(subject.partitions) or None
        found = read_holds(admin.cluster, subject.topic or "", numbers, most, fetch_bytes, cluster.timeout)
        return [one async for one in found]

    return cluster.run(ask)

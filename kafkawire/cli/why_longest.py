"""`kafkawire why --topic NAME --longest N`: the transactions that blocked read_committed consumers the longest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkawire import rows
from kafkawire.cli import output
from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.output import Format
from kafkawire.cli.table import TableView
from kafkawire.cli.txn_options import with_admin

if TYPE_CHECKING:
    from kafkawire.client import Admin

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
    paths: Sequence[str],
    bootstrap: str | None,
    command_config: str | None,
    timeout: float | None,
    subject: rows.Subject,
    most: int,
    fetch_bytes: int,
    format: Format,
    tier_keys: Sequence[str],
) -> None:
    """Prints the longest holds of a topic's partitions. Ends with exit code 4 where something could not be read.

    Args:
        paths: copies; or `bootstrap`: a cluster, of whose partitions at most `fetch_bytes` are fetched.
        subject: a topic, or partitions of it. most: number of holds.
    """
    outcome = ReadOutcome()
    if bootstrap is None:
        found = _copied(paths, subject, most, tier_keys)
    else:
        found = iter(_live(bootstrap, command_config, timeout, subject, most, fetch_bytes))

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

    return HoldLine(
        held="not known" if one.held_ms is None else duration(one.held_ms),
        partition=f"{one.topic}-{one.partition}",
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        first_offset=one.first_offset,
        outcome=one.outcome,
        since=None if one.held_since is None else when(one.held_since),
        ended=None if one.ended is None else when(one.ended),
    )


def _copied(paths: Sequence[str], subject: rows.Subject, most: int, tier_keys: Sequence[str]) -> Iterator[Made]:
    from kafkawire import logdir
    from kafkawire.offsets.copied_holds import copied_holds
    from kafkawire.offsets.copied_why import UnknownSubjectError, check_topic, one_cluster
    from kafkawire.offsets.leading_replica import LeadingReplicas

    directory = logdir.open(*paths, tier_keys=tier_keys)
    replicas, topic = LeadingReplicas(directory), subject.topic or ""
    try:
        one_cluster(directory)
        check_topic(replicas, subject)
    except UnknownSubjectError as error:
        raise InputError(str(error)) from None
    yield from copied_holds(replicas, topic, subject.partitions or replicas.numbers(topic), most)


def _live(
    bootstrap: str,
    command_config: str | None,
    timeout: float | None,
    subject: rows.Subject,
    most: int,
    fetch_bytes: int,
) -> Iterable[Made]:
    async def ask(admin: Admin) -> list[Made]:
        from kafkawire.client.diagnosis.holds_reading import read_holds

        numbers = frozenset(subject.partitions) or None
        return [
            one async for one in read_holds(admin.cluster, subject.topic or "", numbers, most, fetch_bytes, timeout)
        ]

    found: list[Made] = with_admin(bootstrap, command_config, timeout, ask)
    return found

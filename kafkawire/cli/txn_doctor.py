"""`kafkawire txn doctor`: what in a cluster invites hanging transactions, loss of data or trouble of coordinators."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire import rows
from kafkawire.cli import output
from kafkawire.cli import txn_options as txn
from kafkawire.cli.arguments import MINUTE_MS, check_minutes
from kafkawire.cli.exit_codes import end
from kafkawire.cli.findings import chosen_format, print_line
from kafkawire.cli.formatting import counted
from kafkawire.cli.output import Format
from kafkawire.cli.table import TableView, Views

if TYPE_CHECKING:
    from kafkawire.client import Admin

#: Lines of the census that a table shows; json has all.
_MOST = 20


class ProducerLine(output.CommandRow, frozen=True, kw_only=True):
    """The producers of a partition, as a line of the table."""

    topic: str
    partition: int
    producer_ids: int
    open: int
    memory: str
    first_expires: str
    last_expires: str


class IdLine(output.CommandRow, frozen=True, kw_only=True):
    """The transactional ids of a pattern, as a line of the table."""

    pattern: str
    ids: int
    states: str
    memory: str
    first_expires: str
    last_expires: str


_VIEWS: Views = {
    ProducerLine: TableView(columns=ProducerLine.__struct_encode_fields__, minor=("first_expires", "last_expires")),
    IdLine: TableView(columns=IdLine.__struct_encode_fields__, minor=("first_expires", "last_expires")),
}


def doctor(
    bootstrap: txn.BootstrapOption,
    delivery_timeout: Annotated[
        int, typer.Option("--delivery-timeout", min=1, metavar="MS", help="delivery.timeout.ms of the producers.")
    ] = 120_000,
    client_pause: Annotated[
        int,
        typer.Option(
            "--client-pause",
            min=1,
            callback=check_minutes,
            metavar="MINUTES",
            help="The longest time for which a running client may be idle.",
        ),
    ] = 1440,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.PrintedFormatOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Find settings and states of a cluster that invite hanging transactions, loss of data or trouble of coordinators.

    With a census of producer ids by partition and of transactional ids by pattern. Nothing is changed. Exit code 3:
    something was found; 4: nothing was found, but not everything could be read; 5: both.

    \b
    A cluster whose jobs run once a week:
      kafkawire txn doctor --bootstrap-server 127.0.0.1:9092 --client-pause 10080
    """
    from kafkawire.client.diagnosis.doctor import examine

    async def ask(admin: Admin) -> rows.Checkup:
        pause_ms = client_pause * MINUTE_MS
        return await examine(admin.cluster, delivery_timeout_ms=delivery_timeout, pause_ms=pause_ms)

    found = txn.Address(bootstrap, command_config, timeout).run(ask)
    chosen = chosen_format(format)
    if chosen is Format.table:
        _print_table(found, output.Shown(chosen, None, wide, no_cut))
    elif chosen is Format.json:
        output.print_json(found)
    elif chosen is Format.csv:
        output.print_rows(found.risks, [rows.Risk], format=chosen)
    else:
        lines = (*found.risks, *found.producers, *found.transactional_ids, found.outcome)
        output.print_rows(lines, [rows.Risk, rows.ProducerCensus, rows.IdCensus, rows.Outcome], format=chosen)
    end(found.outcome)


def _print_table(found: rows.Checkup, printing: output.Shown) -> None:
    from kafkawire.transactions.formatting import when

    brokers, partitions = counted(len(found.brokers), "broker"), counted(found.partitions, "partition")
    print_line(f"{brokers}, {partitions}, {counted(len(found.checks), 'check')}, as of {when(found.as_of)}.")
    if not found.risks:
        print_line(
            "Nothing was found." if found.outcome.complete else "Nothing was found, but not everything was read."
        )
    for risk in found.risks:
        print_line("")
        print_line(f"{risk.subject}: {risk.setting} is {risk.value} ({risk.check})")
        print_line(f"  - {risk.why}{f' ({risk.source})' if risk.source else ''}")
        print_line(f"  => {risk.action}")
    for title, noun, lines in (
        ("Producer ids", "partition", [_producers(row) for row in found.producers]),
        ("Transactional ids", "pattern", [_ids(row) for row in found.transactional_ids]),
    ):
        if lines:
            print_line("")
            shown = f", the {_MOST} largest" if len(lines) > _MOST else ""
            print_line(f"{title} ({counted(len(lines), noun)}{shown}; memory is an estimate):")
            sys.stdout.flush()
            printing.print(lines[:_MOST], [type(lines[0])], _VIEWS)
    if found.hidden:
        print_line("")
        print_line("Not read:")
        for sentence in found.hidden:
            print_line(f"  - {sentence}")


def _producers(row: rows.ProducerCensus) -> ProducerLine:
    return ProducerLine.of(row, **_estimates(row))


def _ids(row: rows.IdCensus) -> IdLine:
    states = ", ".join(f"{state} {number}" for state, number in row.states.items())
    return IdLine.of(row, states=states, **_estimates(row))


def _estimates(row: rows.ProducerCensus | rows.IdCensus) -> dict[str, str]:
    from kafkawire.transactions.formatting import when

    first, last = ("" if time is None else when(time) for time in (row.first_expires, row.last_expires))
    return {"memory": f"{row.memory_bytes / 1000:,.1f} kB", "first_expires": first, "last_expires": last}

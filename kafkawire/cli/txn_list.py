"""`kafkawire txn list`: the transactional ids that coordinators know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli import output
from kafkawire.cli import txn_options as txn
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.output_file import check_output
from kafkawire.cli.table import TableView

if TYPE_CHECKING:
    from kafkawire.client import Admin, Results, TransactionListing


class ListedTransaction(txn.TransactionToolRow, frozen=True, kw_only=True, rename="pascal"):
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    transaction_state: str


def state_names(given: Iterable[str]) -> list[str]:
    """States as brokers name them, from lists with commas in any case; names that are not known stay as they are."""
    from kafkawire.transactions.coordinator.coordinator_rules import STATES

    known = {name.lower(): name for name in STATES.values()}
    names = [name.strip() for one in given for name in one.split(",")]
    return list(dict.fromkeys(known.get(name.lower(), name) for name in names if name))


VIEW = TableView(
    columns=("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
    primary=("TransactionalId", "TransactionState"),
)


def list_transactions(
    bootstrap: txn.BootstrapOption,
    broker_id: Annotated[
        list[int] | None, typer.Option("--broker-id", metavar="ID", help="Only this coordinator; repeatable.")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="NAME,...", help="Ongoing, PrepareCommit, ..., in any case; commas, or repeatable."
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", metavar="ID", help="Only this producer id; repeatable.")
    ] = None,
    duration_filter: Annotated[
        int | None,
        typer.Option(min=0, metavar="MS", help="Only transactions that are open for longer (brokers from 3.8 on)."),
    ] = None,
    transactional_id_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Only ids that match it as a whole, in RE2 (brokers from 4.1 on)."),
    ] = None,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """List transactional ids, the broker that coordinates each, its producer id and state.

    Ids that the principal may not Describe are left out by the brokers; nothing shows that they are.

    \b
    What is open now, and for longer than a quarter of an hour:
      kafkawire txn list --bootstrap-server 127.0.0.1:9092 --state Ongoing
      kafkawire txn list --bootstrap-server 127.0.0.1:9092 --duration-filter 900000
    """

    check_output(to, [command_config])

    async def ask(admin: Admin) -> Results[int, tuple[TransactionListing, ...]]:
        return await admin.list_transactions(
            states=state_names(state or ()),
            producer_ids=producer_id or (),
            duration_ms=duration_filter,
            pattern=transactional_id_pattern,
            broker_ids=broker_id,
        )

    found = txn.Address(bootstrap, command_config, timeout).run(ask)
    outcome = ReadOutcome()
    for broker, error in found.errors.items():
        outcome.problem(f"broker {broker}: {error}")
    if found.values:
        outcome.read()
        lines = (
            ListedTransaction(
                transactional_id=one.transactional_id,
                coordinator=broker,
                producer_id=one.producer_id,
                transaction_state=one.state,
            )
            for broker, listed in found.values.items()
            for one in sorted(listed, key=lambda one: one.transactional_id)
        )
        output.Shown(format, to, wide, no_cut).print(lines, [ListedTransaction], {ListedTransaction: VIEW})
    outcome.end()

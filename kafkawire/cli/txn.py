"""`kafkawire txn`: transactions on a live cluster: which there are, which hang and why, and how they are ended."""

from __future__ import annotations

import typer

from kafkawire.cli import (
    help_without_command,
    txn_abort,
    txn_describe,
    txn_find_hanging,
    txn_force_terminate,
    txn_list,
    txn_producers,
    txn_watch,
)


def register(app: typer.Typer) -> None:
    group = typer.Typer(rich_markup_mode=None)
    group.callback(invoke_without_command=True)(txn)
    group.command("list")(txn_list.list_transactions)
    group.command("describe")(txn_describe.describe)
    group.command("describe-producers")(txn_producers.describe_producers)
    group.command("find-hanging")(txn_find_hanging.find_hanging)
    group.command("abort")(txn_abort.abort)
    group.command("force-terminate")(txn_force_terminate.force_terminate)
    group.command("forceTerminateTransaction", hidden=True)(txn_force_terminate.force_terminate)
    group.command("watch")(txn_watch.watch)
    app.add_typer(group, name="txn")


def txn(context: typer.Context) -> None:
    """List and describe the transactions of a cluster, find those that hang, watch for them, and end them."""
    help_without_command(context)

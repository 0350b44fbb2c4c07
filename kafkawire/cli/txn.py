"""`kafkawire txn`: transactions on a live cluster: which there are, which hang and why, and how they are ended.

Each command is a function of a module of its own, imported when it is run: operators wait for every one of them.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import ClassVar

import typer

from kafkawire.cli import LazyGroup, help_without_command

#: Command -> module and function, and its line in the help.
_COMMANDS = {
    "list": ("txn_list:list_transactions", "List transactional ids and their coordinators."),
    "describe": ("txn_describe:describe", "Describe ids, or what is open in partitions."),
    "describe-producers": ("txn_producers:describe_producers", "Describe the producers that partitions remember."),
    "find-hanging": ("txn_find_hanging:find_hanging", "Find what hangs, prove it, and suggest what to do."),
    "abort": ("txn_abort:abort", "Abort a hanging transaction in its partition."),
    "force-terminate": ("txn_force_terminate:force_terminate", "End an id's transaction through its coordinator."),
    "forceTerminateTransaction": ("txn_force_terminate:force_terminate", None),
    "commit": ("txn_commit:commit", "Commit the transaction that its owner recorded."),
    "doctor": ("txn_doctor:doctor", "Find settings and states that invite hangs or loss."),
    "watch": ("txn_watch:watch", "Find what hangs again and again; serve metrics."),
}


def _load(name: str, app: typer.Typer) -> None:
    module, _, function = _COMMANDS[name][0].partition(":")
    app.command(name)(getattr(import_module(f"kafkawire.cli.{module}"), function))


class TxnCommands(LazyGroup):
    loaders: ClassVar = {name: partial(_load, name) for name in _COMMANDS}
    lines: ClassVar = {name: line for name, (_, line) in _COMMANDS.items()}


def register(app: typer.Typer) -> None:
    group = typer.Typer(cls=TxnCommands, rich_markup_mode=None)
    group.callback(invoke_without_command=True)(txn)
    app.add_typer(group, name="txn")


def txn(context: typer.Context) -> None:
    """List and describe the transactions of a cluster, find those that hang, watch for them, and end them."""
    help_without_command(context)

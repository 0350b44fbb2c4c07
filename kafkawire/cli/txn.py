"""`kafkawire txn`: transactions on a live cluster: which there are, which hang and why, and how they are ended.

Each command is a function of a module of its own, imported when it is run: operators wait for every one of them.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import ClassVar

import typer

from kafkawire.cli import LazyGroup, help_without_command

#: Command -> module and function. What is stock spelling alone is not in the help.
_COMMANDS = {
    "list": "txn_list:list_transactions",
    "describe": "txn_describe:describe",
    "describe-producers": "txn_producers:describe_producers",
    "find-hanging": "txn_find_hanging:find_hanging",
    "abort": "txn_abort:abort",
    "force-terminate": "txn_force_terminate:force_terminate",
    "forceTerminateTransaction": "txn_force_terminate:force_terminate",
    "watch": "txn_watch:watch",
}
_STOCK = ("forceTerminateTransaction",)


def _load(name: str, app: typer.Typer) -> None:
    module, _, function = _COMMANDS[name].partition(":")
    app.command(name, hidden=name in _STOCK)(getattr(import_module(f"kafkawire.cli.{module}"), function))


class TxnCommands(LazyGroup):
    loaders: ClassVar = {name: partial(_load, name) for name in _COMMANDS}


def register(app: typer.Typer) -> None:
    group = typer.Typer(cls=TxnCommands, rich_markup_mode=None)
    group.callback(invoke_without_command=True)(txn)
    app.add_typer(group, name="txn")


def txn(context: typer.Context) -> None:
    """List and describe the transactions of a cluster, find those that hang, watch for them, and end them."""
    help_without_command(context)

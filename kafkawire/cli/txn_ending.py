"""The common part of `txn abort` and `txn force-terminate`: confirmation, display of the exact request, and its
record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from kafkawire.cli.findings import chosen_format, print_line
from kafkawire.cli.formatting import json_bytes, printable
from kafkawire.cli.output import Format, PrintedFormat
from kafkawire.cli.txn_audit_log import AuditLog
from kafkawire.cli.txn_options import Address
from kafkawire.errors import KafkaWireError

if TYPE_CHECKING:
    from kafkawire.client import Search
    from kafkawire.client.actions.prepared_request import PreparedRequest

DRY_RUN = "dry_run"

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed without a terminal.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the request that would be sent, and send nothing.")
]


class EndingJob(msgspec.Struct, frozen=True, kw_only=True):
    """How a transaction is ended."""

    action: Callable[..., Any]  # runs something with a client: `Address.run`
    search: Search
    force: bool
    yes: bool
    log: AuditLog | None  # None: a dry run
    format: Format

    @property
    def human(self) -> bool:
        return self.format is Format.table

    def refuse(self, target: Any, reason: str, text: str) -> None:
        """Records a refused request in the audit log, unless this is a dry run. `target`, `reason`, `text`: the
        transaction, the kind of refusal, and the sentence of the error (`AuditLog.refuse`)."""
        if self.log is not None:
            self.log.refuse(target, reason, text)

    def failure(self, subject: str, outcome: str, problem: str | None) -> NotDone | None:
        """The error of an outcome that is not as it should be, or is not in the audit log; None where all is well.
        `subject`: what was ended. `outcome`: the word for it. `problem`: None for none."""
        unrecorded = "" if self.log is None else self.log.problem
        if problem is None and not unrecorded:
            return None
        text = outcome if problem is None else f"{outcome}: {problem}"
        if unrecorded:
            text += f"{',' if problem is None else ';'} {unrecorded}"
        return NotDone(f"{subject}: {text}")


@contextmanager
def ending_job(
    operation: str,
    cluster: Address,
    search: Search,
    asked: dict[str, Any],
    format: PrintedFormat | None,
    *,
    audit_log: str | None,
    dry_run: bool,
    yes: bool,
    force: str | None = None,
) -> Iterator[EndingJob]:
    """A command's job, with its audit log open while the context lasts. `operation`: the command. `asked`: the options
    that name the transaction. `format`, `audit_log`, `dry_run`, `yes`, `force`: the values of those options."""
    log = None if dry_run else AuditLog(audit_log, operation, *cluster[:2], force, asked)
    try:
        yield EndingJob(
            action=cluster.run, search=search, force=force is not None, yes=yes, log=log, format=chosen_format(format)
        )
    finally:
        if log is not None:
            log.close()


class NotDone(KafkaWireError):
    """The action was not carried out, or not as expected; the text names what to check."""


class NotConfirmed(NotDone):
    """The operator did not answer yes. Nothing was sent."""


def check_consent(*, yes: bool, dry_run: bool) -> None:
    """A usage error where there is no terminal to confirm on, so that nothing waits for an answer that never comes."""
    if not (yes or dry_run or _can_ask()):
        raise typer.BadParameter("no terminal to confirm on: give --yes, or --dry-run to see what would be sent")


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_leave(question: str, *, yes: bool) -> None:
    """Asks for consent on the terminal, and never on standard output. Raises NotConfirmed: the answer was not yes."""
    if yes:
        return
    typer.echo(f"{printable(question)} [y/N]: ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmed("not confirmed: nothing was sent")


def show_call(call: PreparedRequest) -> None:
    """Prints a request: decoded, in hex, and to whom."""
    print_line(f"{call.api} v{call.version} to broker {call.broker_id} ({call.address}):")
    print_line(f"  {json_bytes(call.body).decode()}", whole=True)
    print_line(f"  in hex {call.hex}", whole=True)


def check_reason(force: str | None) -> None:
    """A usage error, before anything is done, where `--force` has no reason."""
    if force is not None and not force.strip():
        raise typer.BadParameter("give a reason: it is recorded", param_hint="--force")

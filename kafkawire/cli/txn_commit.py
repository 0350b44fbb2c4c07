"""`kafkawire txn commit`: commits a transaction through its coordinator, for the owner who recorded it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkawire.cli import output
from kafkawire.cli import txn_ending as ending
from kafkawire.cli import txn_options as txn
from kafkawire.cli.findings import print_line
from kafkawire.cli.txn_audit_log import AuditLogOption
from kafkawire.cli.txn_force_terminate import print_state

if TYPE_CHECKING:
    from kafkawire.client.actions.committing import Committable, Committed
    from kafkawire.client.actions.prepared_request import PreparedRequest


class Commit(txn.TransactionToolRow, frozen=True, kw_only=True, rename="pascal"):
    """The outcome for a transaction.

    Attributes:
        transaction_state, topic_partitions: as the coordinator described the id before.
        without_data: partitions of the transaction in which no data of it is open.
        outcome: committed; already_committed (no request was needed); dry_run; not_committed (the coordinator's
            answer); not_verified (to be looked at).
        new_transaction_state: afterwards. problem: what is not as it should be. request: the request.
    """

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    transaction_state: str
    topic_partitions: str
    without_data: str = ""
    outcome: str
    new_transaction_state: str | None = None
    problem: str | None = None
    request: Any = None


def commit(
    bootstrap: txn.BootstrapOption,
    transactional_id: Annotated[
        str, typer.Option("--transactional-id", metavar="ID", help="The id, as its owner recorded it.")
    ],
    producer_id: Annotated[
        int, typer.Option("--producer-id", min=0, metavar="N", help="The producer id, as its owner recorded it.")
    ],
    producer_epoch: Annotated[
        int,
        typer.Option(
            "--producer-epoch", min=0, max=32_767, metavar="E", help="The producer epoch, as its owner recorded it."
        ),
    ],
    dry_run: ending.DryRunOption = False,
    yes: ending.YesOption = False,
    audit_log: AuditLogOption = None,
    confirm_after: txn.ConfirmOption = 1.0,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.PrintedFormatOption = None,
) -> None:
    """Commit the transaction that its owner recorded before it died: its coordinator commits it (EndTxn), as for the
    producer itself.

    For owners that have decided on COMMIT and cannot come back: a Flink job whose checkpoint is complete, a participant
    in a two-phase commit. Refused: another producer id or epoch, another outcome, a producer that still writes, and an
    epoch that had other transactions or whose beginning the coordinator's log has no more (docs/transactions.md says
    why). Needs Write on the id, and Read on __transaction_state.

    \b
    What would be sent:
      kafkawire txn commit --bootstrap-server 127.0.0.1:9092 --transactional-id flink-orders-1 \\
        --producer-id 29003 --producer-epoch 4 --dry-run
    """
    ending.check_consent(yes=yes, dry_run=dry_run)
    cluster = txn.Address(bootstrap, command_config, timeout)
    search = txn.make_search(cluster, None, confirm_after)
    asked = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": producer_epoch}
    with ending.ending_job(
        "commit", cluster, search, asked, format, audit_log=audit_log, dry_run=dry_run, yes=yes
    ) as job:
        _run(job, transactional_id, producer_id, producer_epoch)


def _run(job: ending.EndingJob, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
    from kafkawire.client.actions.committing import ALREADY_COMMITTED, committable, plan_commit
    from kafkawire.client.actions.committing import commit as send
    from kafkawire.transactions.verdict.abort_rules import Refused
    from kafkawire.transactions.verdict.commit_rules import RecordedTransaction

    recorded = RecordedTransaction(transactional_id, producer_id, producer_epoch)
    one: Committable | None = None
    call: PreparedRequest | None = None
    done: Committed | None = None
    try:
        one = ready = job.action(lambda admin: committable(admin.cluster, recorded, job.search))
        if job.human:
            print_state(one.found)
            if one.empty:
                print_line(
                    f"No data of it is open in {', '.join(map(str, one.empty))}: none was written, or it is lost."
                )
        outcome = ALREADY_COMMITTED if one.committed else ending.DRY_RUN
        if not one.committed:
            call = job.action(lambda admin: plan_commit(admin.cluster, ready))
            if job.human:
                ending.show_call(call)
        if not one.committed and job.log is not None:
            write = job.log.write
            ending.ask_leave(f"Commit the transaction of {transactional_id}?", yes=job.yes)
            done = job.action(lambda admin: send(admin.cluster, ready, job.search, record=write))
            outcome, call = done.outcome, done.call or call
        elif one.committed:
            job.refuse(one.found, ALREADY_COMMITTED, "it is committed already")
    except (Refused, ending.NotConfirmed) as refused:
        job.refuse(
            None if one is None else one.found,
            refused.reason if isinstance(refused, Refused) else "not_confirmed",
            str(refused),
        )
        raise
    if job.human:
        _print_outcome(outcome, transactional_id, done)
    else:
        output.print_rows([_row(one, outcome, call, done)], [Commit], format=job.format)
    if job.log is not None:
        job.log.print_path()
    failure = job.failure(f"transactional id {transactional_id}", outcome, done.problem if done else None)
    if failure is not None:
        raise failure


def _print_outcome(outcome: str, name: str, done: Committed | None) -> None:
    from kafkawire.client.actions.committing import ALREADY_COMMITTED

    if outcome == ending.DRY_RUN:
        print_line("Dry run: nothing was sent.")
    elif outcome == ALREADY_COMMITTED:
        print_line("It is committed already: nothing was sent.")
    elif done is not None and done.problem is None:
        print_line(f"Committed: {name} is {done.state}, and its partitions have the transaction no longer.")


def _row(one: Committable, outcome: str, call: Any, done: Committed | None) -> Commit:
    return Commit(
        transactional_id=one.found.transactional_id,
        coordinator_id=one.found.coordinator,
        producer_id=one.recorded.producer_id,
        producer_epoch=one.recorded.producer_epoch,
        transaction_state=one.found.state,
        topic_partitions=",".join(map(str, one.found.partitions)),
        without_data=",".join(map(str, one.empty)),
        outcome=outcome,
        new_transaction_state=done.state if done else None,
        problem=done.problem if done else None,
        request=call,
    )

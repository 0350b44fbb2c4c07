"""`kafkawire txn force-terminate`: ends transactions of ids through their coordinators, and fences their producers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkawire import rows
from kafkawire.cli import findings, output
from kafkawire.cli import txn_ending as ending
from kafkawire.cli import txn_options as txn
from kafkawire.cli.findings import print_line
from kafkawire.cli.formatting import counted
from kafkawire.cli.option_groups import exclusive, refusing
from kafkawire.cli.txn_audit_log import AuditLogOption
from kafkawire.errors import KafkaWireError

if TYPE_CHECKING:
    from kafkawire.client import TransactionDescription
    from kafkawire.client.actions.prepared_request import PreparedRequest
    from kafkawire.client.actions.terminating import Terminated


class Termination(txn.TransactionToolRow, frozen=True, kw_only=True, rename="pascal"):
    """The outcome for a transactional id.

    Attributes:
        producer_id, producer_epoch, transaction_state, topic_partitions: as the coordinator described it before.
        outcome: terminated; nothing_open (no request was needed); dry_run; not_ended (the coordinator's answer);
            not_verified (to be looked at).
        new_producer_id, new_producer_epoch, new_transaction_state: afterwards.
        still_open: transactions of the producer id that the coordinator does not know, "orders-0@17 hanging", ...
        problem: what is not as it should be. `request`: the request; None where none was needed.
    """

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    transaction_state: str
    topic_partitions: str
    outcome: str
    new_producer_id: int | None = None
    new_producer_epoch: int | None = None
    new_transaction_state: str | None = None
    still_open: str = ""
    problem: str | None = None
    request: Any = None


@refusing(exclusive("--transactional-id and --prefix both name ids: give one of them", "transactional_id", "prefix"))
def force_terminate(
    bootstrap: txn.BootstrapOption,
    transactional_id: Annotated[
        list[str] | None,
        typer.Option(
            "--transactional-id", "--transactionalId", metavar="ID", help="The id whose transaction ends; repeatable."
        ),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="All ids that begin so and have an open transaction.")
    ] = None,
    force: Annotated[
        str | None,
        typer.Option(
            metavar="REASON", help="Also end a transaction of two-phase commit (KIP-939); the reason is recorded."
        ),
    ] = None,
    dry_run: ending.DryRunOption = False,
    yes: ending.YesOption = False,
    audit_log: AuditLogOption = None,
    max_transaction_timeout: txn.MaxTimeoutOption = None,
    confirm_after: txn.ConfirmOption = 1.0,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.PrintedFormatOption = None,
) -> None:
    """End the transaction of a transactional id: its coordinator aborts it, and its producer is fenced.

    Several ids are ended one by one, each confirmed and recorded for itself, up to the first unexpected result. An id
    that does not exist is not created. Transactions that hang in partitions which the coordinator does not know
    stay open; they are named, with what to do. Exit code 3: one of them hangs; 4: not everything could be
    read; 5: one of them hangs, and not everything could be read.

    \b
    What would be sent:
      kafkawire txn force-terminate --bootstrap-server 127.0.0.1:9092 \\
        --transactional-id orders-service --dry-run
    All ids of a job that is gone:
      kafkawire txn force-terminate --bootstrap-server 127.0.0.1:9092 --prefix flink-orders-
    """
    if not transactional_id and prefix is None:
        raise typer.BadParameter("name the ids: --transactional-id ID, once or several times, or --prefix TEXT")
    if prefix == "":
        raise typer.BadParameter("an empty prefix names every id", param_hint="--prefix")
    ending.check_reason(force)
    ending.check_consent(yes=yes, dry_run=dry_run)
    cluster = txn.Address(bootstrap, command_config, timeout)
    search = txn.make_search(cluster, max_transaction_timeout, confirm_after)
    names = list(dict.fromkeys(transactional_id or ()))
    asked = {"transactional_id": names[0] if len(names) == 1 else names or None, "prefix": prefix}
    unlisted: tuple[str, ...] = ()
    with ending.ending_job(
        "force-terminate", cluster, search, asked, format, audit_log=audit_log, dry_run=dry_run, yes=yes, force=force
    ) as job:
        if prefix is not None:
            names, unlisted = _with_prefix(prefix, job)
        _Ending(job, names, unlisted, several=prefix is not None or len(names) > 1).run()


def _with_prefix(prefix: str, job: ending.EndingJob) -> tuple[list[str], tuple[str, ...]]:
    """The ids that begin so and have a transaction, and which brokers did not list theirs."""
    from kafkawire.transactions.coordinator.coordinator_rules import IDLE

    listed = job.action(lambda admin: admin.list_transactions())
    found = {one.transactional_id for of_broker in listed.values.values() for one in of_broker if one.state not in IDLE}
    unlisted = tuple(f"broker {broker} did not list its ids: {error}" for broker, error in listed.errors.items())
    names = sorted(name for name in found if name.startswith(prefix))
    if job.human:
        what = f"begins with {prefix!r} and has an open transaction"
        print_line(f"{counted(len(names), 'id')}: each {what}." if names else f"No id {what}.")
        print_line("")
    return names, unlisted


@dataclass
class _Ending:
    """Ends the transactions of some ids, one by one. `unlisted`: which further ids there may be, sentences. `several`:
    whether more than one id was asked for."""

    job: ending.EndingJob
    names: list[str]
    unlisted: tuple[str, ...]
    several: bool
    _left: list[rows.Audit] = field(default_factory=list)
    _failed: list[KafkaWireError] = field(default_factory=list)
    _ended: int = 0

    def run(self) -> None:
        """All of them, printed as they come; raises the first failure."""
        try:
            if self.job.human:
                for _ in self._each():
                    pass
            elif self.several:
                output.print_rows(self._each(), [Termination], format=self.job.format, live=True)
            else:
                output.print_rows(list(self._each()), [Termination], format=self.job.format)
        finally:
            if self.job.log is not None:
                self.job.log.print_path()
        if self._failed and self.several:
            verb = "were ended" if self.job.log is not None else "would be ended"
            raise ending.NotDone(f"{self._failed[0]} (stopped there: {self._ended} of {len(self.names)} {verb})")
        if self._failed:
            raise self._failed[0]
        if self._left or self.unlisted:
            gaps = tuple(dict.fromkeys((*self.unlisted, *(gap for one in self._left for gap in one.read.gaps))))
            whole = not gaps and all(one.read.complete for one in self._left)
            left = tuple(finding for one in self._left for finding in one.findings)
            findings.end(rows.Audit(read=rows.Coverage(complete=whole, gaps=gaps), findings=left))

    def _each(self) -> Iterator[Termination]:
        for name in self.names:
            row, failure = self._one(name)
            if row is not None:
                yield row
            if failure is not None:
                self._failed.append(failure)
                return
            self._ended += 1

    def _one(self, name: str) -> tuple[Termination | None, KafkaWireError | None]:
        """The outcome for an id, and the problem if it is not the expected one."""
        from kafkawire.client.actions.terminating import NOTHING_OPEN, describe_one, left_open
        from kafkawire.transactions.verdict.abort_rules import Refused

        job = self.job
        found: TransactionDescription | None = None
        try:
            found, open_ = job.action(lambda admin: describe_one(admin.cluster, name, job.search, force=job.force))
            if job.human:
                print_state(found)
            outcome, call, done = _end(found, job) if open_ else (NOTHING_OPEN, None, None)
            if not open_:
                job.refuse(found, NOTHING_OPEN, "its coordinator has nothing open")
        except (Refused, ending.NotConfirmed) as refused:
            job.refuse(found, refused.reason if isinstance(refused, Refused) else "not_confirmed", str(refused))
            return None, refused
        except KafkaWireError as error:
            return None, error
        if job.human:
            _print_outcome(outcome, found, done)
        problem = done.problem if done else None
        failure: KafkaWireError | None = job.failure(f"transactional id {name}", outcome, problem)
        left: rows.Audit | None = None
        if problem is None and outcome != ending.DRY_RUN:
            try:
                left = job.action(lambda admin: left_open(admin.cluster, found.producer_id, job.search))
            except KafkaWireError as error:  # the outcome is printed all the same
                failure = failure or error
        if left is not None:
            self._left.append(left)
        if job.human:
            if left is not None:
                findings.print_missing(left)
            for finding in left.findings if left else ():
                print_line("")
                findings.explain_one(finding)
            if self.several:
                print_line("")
        return _row(found, outcome, call, done, left), failure


def _end(found: TransactionDescription, job: ending.EndingJob) -> tuple[str, PreparedRequest, Terminated | None]:
    """Ends a transaction, or plans it (dry run): the outcome, the request, and the result."""
    from kafkawire.client.actions.terminating import NOTHING_OPEN, plan_end, terminate

    call = job.action(lambda admin: plan_end(admin.cluster, found))
    if job.human:
        ending.show_call(call)
    log, name = job.log, found.transactional_id
    if log is None:
        return ending.DRY_RUN, call, None
    ending.ask_leave(f"End the transaction of {name}, and fence its producer?", yes=job.yes)
    done = job.action(lambda admin: terminate(admin.cluster, found, job.search, record=log.write, force=job.force))
    if done.outcome == NOTHING_OPEN:
        job.refuse(found, NOTHING_OPEN, "its coordinator has nothing open any more")
    return done.outcome, done.call or call, done


def _row(
    found: TransactionDescription, outcome: str, call: Any, done: Terminated | None, left: rows.Audit | None
) -> Termination:
    producer = done.producer if done else None
    return Termination(
        transactional_id=found.transactional_id,
        coordinator_id=found.coordinator,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        transaction_state=found.state,
        topic_partitions=",".join(map(str, found.partitions)),
        outcome=outcome,
        new_producer_id=producer.producer_id if producer else None,
        new_producer_epoch=producer.producer_epoch if producer else None,
        new_transaction_state=done.state if done else None,
        still_open=",".join(f"{f.topic}-{f.partition}@{f.start_offset} {f.verdict}" for f in left.findings)
        if left
        else "",
        problem=done.problem if done else None,
        request=call,
    )


def print_state(found: TransactionDescription) -> None:
    """Prints an id as its coordinator describes it."""
    from kafkawire.transactions.coordinator.coordinator_rules import NEVER
    from kafkawire.transactions.formatting import duration, when

    never = found.timeout_ms == NEVER
    timeout = "no timeout (two-phase commit)" if never else f"timeout {duration(found.timeout_ms)}"
    since = f" since {when(found.start_time_ms)}" if found.start_time_ms is not None else ""
    where = f", in {', '.join(map(str, found.partitions))}" if found.partitions else ""
    if found.state == "Ongoing" and not found.partitions:
        where = ", in topics that the principal may not Describe"
    print_line(
        f"{found.transactional_id} is {found.state}{since}, producer id {found.producer_id}, epoch "
        f"{found.producer_epoch}, {timeout}{where} (coordinator: broker {found.coordinator})"
    )


def _print_outcome(outcome: str, found: TransactionDescription, done: Terminated | None) -> None:
    from kafkawire.client.actions.terminating import NOTHING_OPEN

    if outcome == ending.DRY_RUN:
        print_line("Dry run: nothing was sent.")
    elif outcome == NOTHING_OPEN:
        print_line("Its coordinator has nothing open: there is nothing to end, and nothing was sent.")
    elif done is not None and done.producer is not None and done.problem is None:
        given = done.producer
        print_line(
            f"Ended: {found.transactional_id} is {done.state}, its partitions have the transaction no longer, and its "
            f"producer is fenced (producer id {given.producer_id} is at epoch {given.producer_epoch} now)."
        )

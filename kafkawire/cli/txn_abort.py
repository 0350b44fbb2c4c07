"""`kafkawire txn abort`: aborts hanging transactions, and nothing else; judged before, verified after, recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.cli import findings, output
from kafkawire.cli import txn_ending as ending
from kafkawire.cli import txn_options as txn
from kafkawire.cli.findings import print_line
from kafkawire.cli.option_groups import Group, conflict, grouped, refusing
from kafkawire.cli.txn_audit_log import AuditLogOption
from kafkawire.cli.wait_reports import Counting
from kafkawire.errors import KafkaWireError

if TYPE_CHECKING:
    from kafkawire.client.actions.aborting import Aborted
    from kafkawire.client.actions.prepared_request import PreparedRequest
    from kafkawire.client.diagnosis.ended_transaction import EndedTransaction
    from kafkawire.transactions.verdict.abort_rules import TransactionSpec

ALREADY_ABORTED = "already_aborted"


class Abort(txn.TransactionToolRow, frozen=True, kw_only=True, rename="pascal"):
    """The outcome for one transaction.

    Attributes:
        coordinator_epoch: of the marker. `verdict`, `reason`: right before it was sent.
            None where it was aborted already.
        outcome: aborted; already_aborted (its ABORT marker was there: nothing was sent); dry_run; not_written (the
            broker's answer); not_verified (to be looked at).
        marker_offset: of the marker. `last_stable_offset`, `high_watermark`: after it, or as they are in a dry run.
        problem: what is not as it should be. `note`: who else holds the last stable offset.
        request: the request: api, version, broker, decoded body, and its bytes in hex.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int | None
    verdict: str | None
    reason: str | None
    outcome: str
    marker_offset: int | None = None
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    problem: str | None = None
    note: str | None = None
    request: Any = None


def _see_force_terminate(transactional_id: str | None) -> None:
    if transactional_id is not None:
        from kafkawire.transactions.commands import quoted

        raise typer.BadParameter(
            "abort takes a transaction of one partition; that of an id is ended through its coordinator: "
            f"kafkawire txn force-terminate --transactional-id {quoted(transactional_id)}"
        )


@refusing(conflict("--force is for one transaction, not for --all-hanging", "all_hanging", "force", hint="--force"))
@grouped(
    Group("Which transaction", ("topic", "partition", "start_offset", "producer_id", "producer_epoch",
                                "coordinator_epoch", "all_hanging")),
    Group("Whether and how it is aborted", ("dry_run", "yes", "force", "audit_log")),
    Group("How it is judged", ("max_transaction_timeout", "confirm_after")),
    Group("The cluster", ("bootstrap", "command_config", "timeout")),
    Group("What is printed", ("format",)),
)  # fmt: skip
def abort(
    bootstrap: txn.BootstrapOption,
    topic: Annotated[
        list[str], typer.Option("--topic", metavar="NAME", help="The topic; repeatable with --all-hanging.")
    ],
    partition: Annotated[int | None, typer.Option("--partition", min=0, metavar="N", help="The partition.")] = None,
    start_offset: Annotated[
        int | None, typer.Option(min=0, metavar="OFFSET", help="Where the transaction begins in the partition.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(min=0, metavar="ID", help="Instead of the start offset, with the two epochs.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option(min=0, max=32767, metavar="EPOCH", help="Of the producer in the partition.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option(min=-1, metavar="EPOCH", help="As find-hanging prints it; -1, no marker seen yet, is sent as 0."),
    ] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", hidden=True, is_eager=True, callback=_see_force_terminate)
    ] = None,
    all_hanging: Annotated[
        bool,
        typer.Option(
            "--all-hanging", help="Abort all that hang in the topics, one by one, up to the first unexpected result."
        ),
    ] = False,
    force: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Abort although the verdict is unknown or young; the reason is recorded."),
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
    """Abort a hanging transaction: prove that it hangs, write its ABORT marker, and see that readers move on.

    What a coordinator still holds is refused, with or without --force: see force-terminate. A marker cannot be taken
    back; there is no way to commit. A transaction that is aborted already is reported with its marker's offset, exit
    code 0; one that was committed is an error. Refused attempts are recorded, too.

    \b
    What would be sent, and the same for good:
      kafkawire txn abort --bootstrap-server 127.0.0.1:9092 \\
        --topic orders --partition 3 --start-offset 64 --dry-run
      kafkawire txn abort --bootstrap-server 127.0.0.1:9092 \\
        --topic orders --partition 3 --start-offset 64
    """
    named = _named(topic, partition, start_offset, producer_id, producer_epoch, coordinator_epoch, all_hanging)
    ending.check_reason(force)
    ending.check_consent(yes=yes, dry_run=dry_run)
    cluster = txn.Address(bootstrap, command_config, timeout)
    partitions = None if partition is None else (partition,)
    search = txn.make_search(
        cluster, max_transaction_timeout, confirm_after, topics=tuple(topic), partitions=partitions
    )
    asked = {
        "topics": topic,
        "partition": partition,
        "start_offset": start_offset,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "coordinator_epoch": coordinator_epoch,
        "all_hanging": all_hanging,
    }
    with ending.ending_job(
        "abort", cluster, search, asked, format, audit_log=audit_log, dry_run=dry_run, yes=yes, force=force
    ) as job:
        if named is None:
            _abort_all(job)
        else:
            _print([named], job)


def _named(
    topics: list[str],
    partition: int | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    all_hanging: bool,
) -> TransactionSpec | None:
    """The transaction that the options name, None for all that hang; a usage error where they name none, or both."""
    from kafkawire.transactions.verdict.abort_rules import TransactionSpec

    given = (producer_id, producer_epoch, coordinator_epoch)
    some, every = any(one is not None for one in given), all(one is not None for one in given)
    if all_hanging:
        if start_offset is not None or some:
            raise typer.BadParameter("--all-hanging names them all: no --start-offset, no producer", param_hint="abort")
        return None
    if len(topics) != 1 or partition is None:
        raise typer.BadParameter("name one --topic and one --partition, or use --all-hanging")
    if (start_offset is not None) == some or some != every:
        raise typer.BadParameter(
            "a transaction is named by --start-offset, or by --producer-id, --producer-epoch and --coordinator-epoch; "
            "never by both"
        )
    return TransactionSpec(
        topic=topics[0],
        partition=partition,
        start_offset=start_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
    )


# One, and all --------------------------------------------------------------------------------------------------------


def _abort_all(job: ending.EndingJob) -> None:
    """Raises the exit of `find-hanging` for the findings that remain."""
    from kafkawire.transactions.verdict.abort_rules import all_hanging

    counting = Counting()
    audit = job.action(lambda admin: admin.find_hanging_transactions(job.search, counting.advance), counting)
    hanging = all_hanging(audit.findings)
    if job.human and hanging:
        findings.print_missing(audit)
    elif job.human:
        findings.print_none_found(audit, findings.NOTHING_HANGS, findings.NONE_FOUND)
    _print(hanging, job)
    findings.end(replace(audit, findings=tuple(finding for finding in audit.findings if finding not in hanging)))


def _print(wanted: Sequence[rows.Finding | TransactionSpec], job: ending.EndingJob) -> None:
    """Aborts one by one, printing each; raises the first failure."""
    failed: list[KafkaWireError] = []
    ended: list[Abort] = []

    def done() -> Iterator[Abort]:
        for one in wanted:
            try:
                row = _attempt(one, job)
            except KafkaWireError as error:
                failed.append(error)
                return
            yield row
            subject = f"{row.topic}-{row.partition}, offset {row.start_offset}"
            failure = job.failure(subject, row.outcome, _bare(row))
            if failure is not None:
                failed.append(failure)
                return
            ended.append(row)

    try:
        if job.human:
            for row in done():
                _print_outcome(row)
        else:
            output.print_rows(done(), [Abort], format=job.format, live=True)
    finally:
        if job.log is not None:
            job.log.print_path()
    if failed and len(wanted) > 1:
        verb = "were aborted" if job.log is not None else "would be aborted"
        raise ending.NotDone(f"{failed[0]} (stopped there: {len(ended)} of {len(wanted)} {verb})")
    if failed:
        raise failed[0]


def _attempt(wanted: rows.Finding | TransactionSpec, job: ending.EndingJob) -> Abort:
    """Aborts a transaction, or finds that it is aborted already; what is refused is recorded."""
    from kafkawire.client.actions.aborting import look_at
    from kafkawire.client.diagnosis.ended_transaction import ABORT
    from kafkawire.transactions.verdict.abort_rules import NOT_OPEN, Refused, TransactionSpec, choose

    found = None if isinstance(wanted, TransactionSpec) else wanted
    named = (
        wanted
        if isinstance(wanted, TransactionSpec)
        else TransactionSpec(topic=wanted.topic, partition=wanted.partition, start_offset=wanted.start_offset)
    )
    try:
        if found is None:
            found = choose(job.action(lambda admin: look_at(admin.cluster, named, job.search)).findings, named)
        return _abort(found, job)
    except ending.NotConfirmed as declined:
        job.refuse(found, "not_confirmed", str(declined))
        raise
    except Refused as refused:
        ended = _ended(named, job) if refused.reason == NOT_OPEN else None
        if ended is None:
            job.refuse(found, refused.reason, str(refused))
            raise
        place = f"{ended.topic}-{ended.partition}"
        if ended.marker != ABORT:
            text = f"{refused}; already committed: COMMIT marker at offset {ended.marker_offset} of {place}"
            job.refuse(found, "already_committed", text)
            raise Refused("already_committed", text) from None
        text = f"already aborted: ABORT marker at offset {ended.marker_offset} of {place}"
        job.refuse(found, ALREADY_ABORTED, text)
        return _ended_row(ended)


def _ended(named: TransactionSpec, job: ending.EndingJob) -> EndedTransaction | None:
    """How a transaction ended that is not open; None where that cannot be found out."""
    from kafkawire.client import ClientError
    from kafkawire.client.diagnosis.ended_transaction import how_it_ended

    try:
        ended: EndedTransaction | None = job.action(
            lambda admin: how_it_ended(admin.cluster, named, job.search.timeout_s)
        )
    except ClientError:  # the transaction is not open; only the explanation is missing
        return None
    return ended


def _abort(finding: rows.Finding, job: ending.EndingJob) -> Abort:
    from kafkawire.client.actions.aborting import abort, plan_abort
    from kafkawire.transactions.verdict.abort_rules import permit

    if job.human:
        findings.explain_one(finding, action=False)
        print_line("")
    permit(finding, force=job.force)
    log = job.log
    if job.human or log is None:
        call = job.action(lambda admin: plan_abort(admin.cluster, finding))
        if job.human:
            ending.show_call(call)
        if log is None:
            return _row(finding, call, ending.DRY_RUN)
    ending.ask_leave(f"Abort {findings.place_of(finding)} of producer id {finding.producer_id}?", yes=job.yes)
    done = job.action(lambda admin: abort(admin.cluster, finding, job.search, record=log.write, force=job.force))
    return _row(done.finding, done.call, done.outcome, done)


# What is printed -----------------------------------------------------------------------------------------------------


def _row(finding: rows.Finding, call: PreparedRequest, outcome: str, done: Aborted | None = None) -> Abort:
    marker = call.body["markers"][0]
    row = Abort.of(finding, coordinator_epoch=marker["coordinatorEpoch"], outcome=outcome, request=call)
    return row if done is None else replace(
        row,
        marker_offset=done.marker_offset,
        last_stable_offset=done.last_stable_offset,
        high_watermark=done.high_watermark,
        problem=done.problem,
        note=done.note or None,
    )  # fmt: skip


def _ended_row(ended: EndedTransaction) -> Abort:
    return Abort.of(ended, verdict=None, reason=None, outcome=ALREADY_ABORTED)


def _bare(row: Abort) -> str | None:
    """The problem, without its place."""
    return None if row.problem is None else row.problem.removeprefix(f"{row.topic}-{row.partition}: ")


def _print_outcome(row: Abort) -> None:
    if row.outcome == ALREADY_ABORTED:
        print_line(
            f"Already aborted: the ABORT marker of producer id {row.producer_id}, epoch {row.producer_epoch}, is at "
            f"offset {row.marker_offset} of {row.topic}-{row.partition}. Nothing was sent. The last stable offset is "
            f"{row.last_stable_offset} (high watermark {row.high_watermark})."
        )
    elif row.outcome == ending.DRY_RUN:
        print_line("Dry run: nothing was sent.")
    elif row.problem is None:
        print_line(
            f"Aborted: the ABORT marker is at offset {row.marker_offset} of {row.topic}-{row.partition}; the last "
            f"stable offset is {row.last_stable_offset} now (high watermark {row.high_watermark})."
        )
        if row.note:
            print_line(row.note)
    print_line("")

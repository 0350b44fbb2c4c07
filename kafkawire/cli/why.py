"""`kafkawire why`: what blocks a group, a topic, an id or a producer, until when, and what to run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire import rows
from kafkawire.cli import exit_codes, output
from kafkawire.cli import source_options as sources
from kafkawire.cli import txn_options as txn
from kafkawire.cli.arguments import MINUTE_MS, InputError
from kafkawire.cli.findings import chosen_format, print_line
from kafkawire.cli.formatting import brief, printable
from kafkawire.cli.option_groups import (
    CLUSTER,
    COPIES,
    PARTITION_NEEDS_TOPIC,
    Group,
    conflict,
    exclusive,
    grouped,
    refusing,
)
from kafkawire.cli.output import Format
from kafkawire.cli.progress import progress, total_size
from kafkawire.cli.wait_reports import Counting

if TYPE_CHECKING:
    from kafkawire.client import Admin
    from kafkawire.logdir import LogDirectory
    from kafkawire.transactions import Settings

#: Sentences on what was not read that are printed; json has all.
_MOST = 10


def register(app: typer.Typer) -> None:
    app.command("why")(why)


_JUDGED = ("evidence", "as_of", "max_transaction_timeout")


@refusing(
    exclusive(
        "give one of --group, --topic, --transactional-id and --producer-id",
        "group", "topic", "transactional_id", "producer_id",
    ),
    PARTITION_NEEDS_TOPIC,
    conflict("--longest needs --topic, and goes not with --history", "history", "longest", hint="--longest"),
    conflict("--longest goes with none of --evidence, --as-of and --max-transaction-timeout", "longest", *_JUDGED),
    conflict("--history goes with none of --evidence, --as-of and --max-transaction-timeout", "history", *_JUDGED),
)  # fmt: skip
@grouped(
    Group("About whom: one of these", ("group", "topic", "partition", "transactional_id", "producer_id")),
    Group("What is asked", ("history", "longest")),
    Group("A cluster in place of copies", ("bootstrap_server",)),
    Group("A cluster", ("command_config", "timeout", "confirm_after", "fetch_bytes"), (CLUSTER,)),
    Group("Copies", ("tier_key", "as_of", "txn_partitions"), (COPIES,)),
    Group("How it is judged", ("blocked_after", "max_transaction_timeout")),
    Group("What is printed", ("evidence", "format")),
)
def why(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH|WORDS",
            help="Copies of brokers' log directories; without a subject and a cluster, a line of a log to look up.",
        ),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="GROUP", help="What blocks this group.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="What blocks this topic.")] = None,
    partition: sources.PartitionsOption = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", metavar="ID", help="What this id holds, and waits for.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", min=0, metavar="N", help="Likewise, by its producer id.")
    ] = None,
    bootstrap_server: sources.ClusterOption = None,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Print what each answer rests on, and all commands.")
    ] = False,
    history: Annotated[
        bool,
        typer.Option("--history", help="The story of the group or id: what each record of its coordinator changed."),
    ] = False,
    longest: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            metavar="N",
            help="Of a topic: the N transactions that blocked read_committed consumers the longest, also ended ones.",
        ),
    ] = None,
    max_transaction_timeout: txn.MaxTimeoutOption = None,
    confirm_after: txn.ConfirmOption = 1.0,
    blocked_after: txn.BlockedAfterOption = txn.BLOCKED_AFTER,
    fetch_bytes: txn.FetchBytesOption = 8 << 20,
    as_of: sources.AsOfOption = None,
    txn_partitions: sources.StatePartitionsOption = None,
    tier_key: sources.TierKeysOption = None,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.PrintedFormatOption = None,
) -> None:
    """What blocks a group, a topic, a transactional id or a producer: what waits, on what, who must act, until when,
    and one command; or what a line of a log means.

    Exit code 3: something blocks that does not pass by itself, or has for longer than --blocked-after; 4: nothing was
    found, but not everything could be read or judged; 5: both.

    \b
    On a cluster, and on copies of its log directories:
      kafkawire why --bootstrap-server 127.0.0.1:9092 --group shipments
      kafkawire why /copies/broker-1 /copies/broker-2 --topic orders --partition 0
    Which transactions blocked readers of a topic the longest:
      kafkawire why /copies/broker-1 --topic orders --longest 20
    The story of an id, with who fenced whom:
      kafkawire why /copies/broker-1 /copies/broker-2 --transactional-id orders-service --history
    A line of a log:
      kafkawire why "Out of order sequence number for producer 29003"
    """
    from kafkawire.transactions import Settings

    subject = _subject(group, topic, partition, transactional_id, producer_id)
    chosen = chosen_format(format)
    given = list(what or ())
    if subject is None:
        words = _words(given, bootstrap_server, chosen)
        if words is None:
            return
        subject, given = words, []
    sources.check_source(given, bootstrap_server)

    def source() -> LogDirectory | txn.Address:
        from kafkawire import logdir

        if bootstrap_server is not None:
            return txn.Address(bootstrap_server, command_config, timeout)
        return logdir.open(*given, tier_keys=tier_key or ())

    if longest is not None:
        if subject.topic is None:
            raise typer.BadParameter("--longest needs --topic, and goes not with --history", param_hint="--longest")
        from kafkawire.cli.why_longest import print_longest

        print_longest(source(), subject, longest, fetch_bytes, chosen)
        return
    if history:
        if subject.group is None and subject.transactional_id is None:
            raise typer.BadParameter("--history needs --group or --transactional-id")
        from kafkawire.cli.why_history import print_history

        print_history(source(), subject, fetch_bytes, chosen)
        return
    if bootstrap_server is None:
        settings = Settings(
            as_of=as_of,
            max_timeout_ms=None if max_transaction_timeout is None else max_transaction_timeout * MINUTE_MS,
            transaction_state_partitions=txn_partitions,
            blocked_after_ms=blocked_after * MINUTE_MS,
        )
        found = _copied(given, subject, settings, tier_key or ())
    else:
        cluster = txn.Address(bootstrap_server, command_config, timeout)
        search = txn.make_search(
            cluster, max_transaction_timeout, confirm_after, blocked_after, fetch_bytes=fetch_bytes
        )
        asked, counting = subject, Counting()

        async def ask(admin: Admin) -> rows.Why:
            from kafkawire.client.diagnosis.why_reading import read_why

            return await read_why(admin.cluster, asked, search, counting.advance)

        found = cluster.run(ask, counting)
        txn.warn_of_limit(found.read.settings)
    if chosen is Format.table:
        _print(found, evidence=evidence)
    else:
        _print_for_tools(found, chosen)
    exit_codes.end(found.outcome)


def _subject(
    group: str | None,
    topic: str | None,
    partition: list[int] | None,
    transactional_id: str | None,
    producer_id: int | None,
) -> rows.Subject | None:
    """The subject of the options; None where there is none."""
    if all(one is None for one in (group, topic, transactional_id, producer_id)):
        return None
    return rows.Subject(
        group=group,
        topic=topic,
        partitions=tuple(sorted(set(partition or ()))),
        transactional_id=transactional_id,
        producer_id=producer_id,
    )


# Words ---------------------------------------------------------------------------------------------------------------


def _words(given: list[str], bootstrap: str | None, format: Format) -> rows.Subject | None:
    """Looks up pasted words: returns the subject that they name if a cluster is given to ask, otherwise prints their
    meaning."""
    from kafkawire.transactions.blocking.pasted_words import WORDS, asked, recognised

    none = "give --group, --topic, --transactional-id or --producer-id; or a line of a log, in quotes"
    line = " ".join(given)
    if not line.strip():
        raise typer.BadParameter(none)
    if any(os.path.exists(one) for one in given):
        raise typer.BadParameter(none)
    found = recognised(line, bootstrap or "HOST:PORT")
    if found is None:
        known = ", ".join(one.name for one in WORDS)
        raise InputError(f"nothing is known of these words; known are {known}")
    subject = None if bootstrap is None else asked(found)
    if subject is not None:
        return subject
    if format is Format.table:
        _print_words(found)
    elif format is Format.json:
        output.print_json(found)
    else:
        output.print_rows([found], [type(found)], format=format)
    return None


def _print_words(found: object) -> None:
    from kafkawire.transactions.blocking.blocker_text import wrapped_command
    from kafkawire.transactions.blocking.pasted_words import Pasted

    assert isinstance(found, Pasted)
    print_line(f"{found.word} (docs/why.md)")
    for sentence in (found.means, *found.found):
        _say(sentence, "   ")
    for command in found.commands:
        for text in wrapped_command(command, "   run     "):
            print_line(text)


# Answers -------------------------------------------------------------------------------------------------------------


def _copied(
    paths: list[str], subject: rows.Subject, settings: Settings, tier_keys: list[str] | tuple[str, ...]
) -> rows.Why:
    from kafkawire import logdir
    from kafkawire.offsets.copied_why import UnknownSubjectError, copied_why

    directory = logdir.open(*paths, tier_keys=tier_keys)
    if not directory.partitions:
        raise InputError(f"{paths[0]}: no partition's log is here: give log directories, or folders that hold some")
    shown = sys.stderr.isatty()
    segments = (file for one in directory.partitions for file in one.segments)
    try:
        with progress(total_size(segments) if shown else 0, shown=shown) as advance:
            return copied_why(directory, subject, settings, paths=tuple(paths), progress=advance if shown else None)
    except UnknownSubjectError as error:
        raise InputError(str(error)) from None


def _print(found: rows.Why, *, evidence: bool) -> None:
    """Prints each blocker with its details, then the lags; or that nothing blocks, and what that rests on."""
    from kafkawire.transactions.blocking.blocker_text import behind, block, wrapped_command
    from kafkawire.transactions.blocking.why import nothing_blocks
    from kafkawire.transactions.formatting import when

    for number, blocker in enumerate(found.blockers, 1):
        for line in block(blocker, number, found.as_of):
            print_line(line)
        if evidence:
            for sentence in blocker.evidence:
                _say(brief(sentence), "   - ")
            for command in blocker.commands[1:]:
                for line in wrapped_command(command, "   run     "):
                    print_line(line)
        print_line("")
    if found.together is not None:
        print_line("All that a coordinator can end, at once:")
        for line in wrapped_command(found.together, "   run     "):
            print_line(line)
        print_line("")
    if nothing_blocks(found):
        print_line("Nothing blocks it.")
    elif not found.blockers:
        print_line("Nothing was found that blocks it, but not everything was read or judged:")
    elif found.outcome.missing:
        print_line("Not everything was read or judged:")
    for sentence in found.outcome.missing[:_MOST]:
        _say(sentence, "  - ")
    if len(found.outcome.missing) > _MOST:
        print_line(f"  - and {len(found.outcome.missing) - _MOST:,} more: --format json has all of them")
    for sentence in behind(found):
        _say(sentence)
    if found.read.scope:
        _say(found.read.scope)
    if evidence or nothing_blocks(found):
        for premise in found.read.premises:
            _say(f"{premise.name}: {brief(premise.what)}", "  - ")
    _say(f"As of {when(found.as_of)} ({found.read.clock or 'no clock was found'}).")


def _say(text: str, first: str = "") -> None:
    from kafkawire.transactions.blocking.blocker_text import prose

    if "kafka-transactions.sh " in text:  # a command is not broken into lines
        print_line(first + text)
        return
    for line in prose(printable(text), first):
        print_line(line)


def _print_for_tools(found: rows.Why, format: Format) -> None:
    if format is Format.json:
        output.print_json(found)
    elif format is Format.csv:
        output.print_rows(found.blockers, [rows.Blocker], format=format)
    else:
        output.print_rows(
            (found.subject, found.read, *found.blockers, *found.lags, found.outcome),
            [rows.Subject, rows.Coverage, rows.Blocker, rows.Lag, rows.Outcome],
            format=format,
        )

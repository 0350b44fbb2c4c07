"""The output of `audit` and `txn find-hanging`: their findings, and their exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import typer
from msgspec import structs

from kafkawire import rows
from kafkawire.cli import exit_codes, output
from kafkawire.cli.formatting import brief, collapsed, counted, printable, wrapped
from kafkawire.cli.output import Format, PrintedFormat
from kafkawire.cli.table import table_width

#: What `find-hanging` prints where nothing was found: an all-clear, and a result that is none.
NOTHING_HANGS, NONE_FOUND = "No transaction hangs.", "None found"

#: Sentences on what was not read that are printed; json has all.
_MOST = 20


class Read(rows.Coverage, frozen=True, kw_only=True):
    """The line of jsonl with what was read, and the clock."""

    as_of: int | None = None


class AuditAnswer(rows.Audit, frozen=True, kw_only=True):
    """The object of json: an audit, and whether it is complete."""

    outcome: rows.Outcome


def print_line(text: str, *, whole: bool = False) -> None:
    """Prints a line of text, made harmless; with runs of one escape counted.

    Args:
        text: the line. On a terminal, where lines have a width, prose is wrapped and indented below its first word.
        whole: text that is no prose, such as a command, stays on one line.
    """
    safe = collapsed(printable(text))
    width = table_width(terminal=sys.stdout.isatty(), wide=whole)
    for line in wrapped(safe, width):
        typer.echo(line.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def chosen_format(format: Format | PrintedFormat | None) -> Format:
    """The format of `--format`; by default a table on a terminal and jsonl elsewhere."""
    return Format(format) if format else (Format.table if sys.stdout.isatty() else Format.jsonl)


def print_for_tools(audit: rows.Audit, format: Format) -> None:
    """As json (one object), jsonl (each part a line, with a `kind`) or csv (the findings alone)."""
    from kafkawire.transactions.verdict.completeness import outcome

    result = outcome(audit)
    if format is Format.json:
        output.print_json(AuditAnswer(**structs.asdict(audit), outcome=result))
    elif format is Format.csv:
        output.print_rows(audit.findings, [rows.Finding], format=format)
        for sentence in omitted(audit):
            typer.echo(sentence, err=True)
    else:
        read = Read(**{name: getattr(audit.read, name) for name in rows.field_names(rows.Coverage)}, as_of=audit.as_of)
        output.print_rows(
            (
                read,
                *audit.findings,
                *audit.violations,
                *audit.damage,
                *audit.answers,
                *audit.unread,
                *audit.omitted,
                result,
            ),
            [
                Read,
                rows.Finding,
                rows.Violation,
                rows.DamageRow,
                rows.CheckAnswer,
                rows.Unread,
                rows.Omitted,
                rows.Outcome,
            ],
            format=format,
        )


def by_place(findings: Iterable[rows.Finding]) -> list[rows.Finding]:
    """Findings sorted by cluster, topic, partition and offset, for a table."""
    return sorted(findings, key=lambda one: (one.cluster_id or "", one.topic, one.partition, one.start_offset or 0))


def explain(
    findings: Iterable[rows.Finding],
    *,
    several_clusters: bool = False,
    also: Callable[[rows.Finding], bool] = lambda finding: False,
) -> None:
    """Prints, below a table, the evidence of findings that need action, and the suggested action; `also`: of which
    others."""
    from kafkawire.transactions.verdict.completeness import attention

    for finding in findings:
        if finding.verdict != "not_hanging" or attention(finding) is not None or also(finding):
            print_line("")
            explain_one(finding, f"cluster {finding.cluster_id or 'unknown'}, " if several_clusters else "")


def explain_one(finding: rows.Finding, where: str = "", *, action: bool = True) -> None:
    """Prints a finding: what it is, why, and what to do. `where`: text in front of its place, such as the cluster.
    `action`: whether to print the suggested action."""
    from kafkawire.transactions.impact.impact_text import sentences, shown_records
    from kafkawire.transactions.verdict.known_defects import described

    verdict = "stuck" if finding.reason == "stuck_prepare" else finding.verdict  # a verdict of its own to users
    print_line(f"{where}{place_of(finding)}: {verdict}, {finding.reason}{blocked_since(finding)}")
    for sentence in (*finding.evidence, *described(finding.cause), *sentences(finding), *shown_records(finding)):
        print_line(f"  - {brief(sentence)}")
    for sentence in premises(finding):
        print_line(f"  - {brief(sentence)}")
    if action:
        print_line(f"  => {finding.action}")


def blocked_since(finding: rows.Finding) -> str:
    """`, blocked since 2025-06-16 12:05:00 UTC` for what has held back readers for too long; else nothing."""
    from kafkawire.transactions.formatting import when

    blocked = finding.attention == "blocked" and finding.blocked_since is not None
    return f", blocked since {when(finding.blocked_since)}" if blocked else ""


def premises(finding: rows.Finding) -> Iterator[str]:
    """Sentences on what a verdict rests on: what is missing and how to get it, and what shows the rest."""
    if finding.attention == "blocked" and finding.waits_for is not None:
        yield f"It waits for {finding.waits_for}."
    for premise in finding.premises:
        if not premise.holds:
            yield f"Missing ({premise.name}): {premise.needs}."
    met = dict.fromkeys(premise.name for premise in finding.premises if premise.holds)
    if met and all(premise.holds for premise in finding.premises):
        yield f"Rests on: {', '.join(met)} (--format json has what shows each)."


def print_attention(audit: rows.Audit) -> None:
    """Prints how many findings need attention, and for what; nothing where none does. For transactions that block
    readers and do not hang, it prints where, since when, whose they are, and who must act."""
    from kafkawire.transactions.attention import BLOCKED
    from kafkawire.transactions.formatting import when
    from kafkawire.transactions.verdict.completeness import attention, outcome

    result = outcome(audit)
    needs = (
        (result.hanging, "hanging"), (result.stuck, "stuck"), (result.blocked, "blocked, not hanging (yet)"),
    )  # fmt: skip
    found = [f"{number:,} {what}" for number, what in needs if number]
    if found:
        print_line(f"Found: {', '.join(found)}.")
    blocked = [one for one in by_place(audit.findings) if attention(one) == BLOCKED]
    for one in blocked[:_MOST]:
        who = "no transactional id" if one.transactional_id is None else f"transactional id {one.transactional_id!r}"
        state = f", {one.coordinator_state}" if one.coordinator_state else ""
        waits = f"; waits for {one.waits_for}" if one.waits_for else ""
        print_line(f"  - {place_of(one)}: since {when(one.blocked_since)}, {who}{state}{waits}")
    if len(blocked) > _MOST:
        print_line(f"  - and {len(blocked) - _MOST:,} more: --format json has all of them")


def place_of(finding: rows.Finding) -> str:
    """`orders-0, offset 17`"""
    return f"{finding.topic}-{finding.partition}, offset {finding.start_offset}"


def print_none_found(audit: rows.Audit, clear: str, found_none: str) -> None:
    """Prints the answer where nothing was found: `clear` and what it rests on, or `found_none` and what was not read or
    judged.

    Args:
        audit: an audit without findings.
        clear: the sentence of a complete answer.
        found_none: the beginning of an incomplete one.
    """
    from kafkawire.transactions.verdict.completeness import not_judged, outcome

    result = outcome(audit)
    if result.complete:
        print_line(clear)
        for premise in audit.read.premises:
            print_line(f"  - {premise.name}: {brief(premise.what)}")
    else:
        _list(f"{found_none}, but not everything was read{' or judged' if not_judged(audit) else ''}:", result.missing)


def print_missing(audit: rows.Audit) -> None:
    """Prints what was not read next to the findings: standard error is easily lost."""
    from kafkawire.transactions.verdict.completeness import not_read

    if missing := not_read(audit):
        _list("Not everything was read:", missing)


def omitted(audit: rows.Audit) -> Iterator[str]:
    """Sentences on the rows that were left out of the answer."""
    findings = [f"{more.count:,} {more.verdict} ({more.reason})" for more in audit.omitted if more.rows == "finding"]
    damaged = sum(more.count for more in audit.omitted if more.rows == "damage")
    if findings:
        yield f"Not listed: {', '.join(findings)}."
    if damaged:
        yield f"Not listed: {damaged:,} more damaged places."


def _list(title: str, sentences: Sequence[str]) -> None:
    print_line(title)
    for sentence in sentences[:_MOST]:
        print_line(f"  - {sentence}")
    if len(sentences) > _MOST:
        print_line(f"  - and {len(sentences) - _MOST:,} more: --format json has all of them")


def counted_partitions(read: rows.Coverage) -> str:
    """`25 partitions`, or `17 of 25 partitions` where some were not read."""
    chosen = read.partitions_chosen
    if chosen is None or chosen == read.partitions:
        return counted(read.partitions, "partition")
    return f"{read.partitions:,} of {counted(chosen, 'partition')}"


def end(audit: rows.Audit) -> None:
    """Raises the command's exit: 3 where something was found, 4 where something may have been missed, 5 for both."""
    from kafkawire.transactions.verdict.completeness import outcome

    exit_codes.end(outcome(audit))

"""What `audit` and `txn find-hanging` print of their findings, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import typer

from kafkawire import rows
from kafkawire.cli import output
from kafkawire.cli.outcome import FOUND, INCOMPLETE
from kafkawire.cli.output import Format
from kafkawire.cli.text import brief, collapsed, printable


class Read(rows.Coverage, frozen=True, kw_only=True):
    """The line of jsonl that says what was read, and the clock."""

    as_of: int | None = None


def say(text: str) -> None:
    """Prints a line of text, made harmless; with runs of one escape counted."""
    typer.echo(collapsed(printable(text)).encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def chosen_format(format: Format | None) -> Format:
    """The format that was asked for; by default a table on a terminal and jsonl elsewhere."""
    return format or (Format.table if sys.stdout.isatty() else Format.jsonl)


def print_for_tools(audit: rows.Audit, format: Format) -> None:
    """As json (one object), jsonl (each part a line, with a `kind`) or csv (the findings alone)."""
    if format is Format.json:
        output.print_json(audit)
    elif format is Format.csv:
        output.print_rows(audit.findings, [rows.Finding], format=format)
    else:
        read = Read(**{name: getattr(audit.read, name) for name in rows.field_names(rows.Coverage)}, as_of=audit.as_of)
        output.print_rows(
            (read, *audit.findings, *audit.violations, *audit.damage, *audit.answers),
            [Read, rows.Finding, rows.Violation, rows.Damage, rows.CheckAnswer],
            format=format,
        )


def by_place(findings: Iterable[rows.Finding]) -> list[rows.Finding]:
    """Findings in the order of clusters, topics, partitions and offsets, as a table has them."""
    return sorted(findings, key=lambda one: (one.cluster_id or "", one.topic, one.partition, one.start_offset or 0))


def explain(findings: Iterable[rows.Finding], *, several_clusters: bool = False) -> None:
    """Prints, below a table, the evidence of what needs somebody's attention, and what to do."""
    for finding in findings:
        if finding.verdict != "not_hanging" or finding.reason == "stuck_prepare":
            say("")
            explain_one(finding, f"cluster {finding.cluster_id or 'unknown'}, " if several_clusters else "")


def explain_one(finding: rows.Finding, where: str = "", *, action: bool = True) -> None:
    """Prints a finding: what it is, why, and what to do."""
    say(f"{where}{place_of(finding)}: {finding.verdict}, {finding.reason}")
    for sentence in finding.evidence:
        say(f"  - {brief(sentence)}")
    if action:
        say(f"  => {finding.action}")


def place_of(finding: rows.Finding) -> str:
    """`orders-0, offset 17`"""
    return f"{finding.topic}-{finding.partition}, offset {finding.start_offset}"


def end(audit: rows.Audit) -> None:
    """Raises what the command ends with: 3 where something was found, 4 where something may have been missed."""
    stuck = any(finding.reason == "stuck_prepare" for finding in audit.findings)
    hanging = any(finding.verdict == "hanging" for finding in audit.findings)
    problems = [
        *audit.read.gaps,
        *(f"{d.file}: at byte {d.position}: {d.detail or d.reason}" for d in audit.damage if not d.harmless),
    ]
    unknown = [finding for finding in audit.findings if finding.verdict == "unknown"]
    if unknown:
        problems.append(f"{place_of(unknown[0])}: could not be judged")
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        typer.echo(f"incomplete: {brief(problems[0])}{more}", err=True)
    if hanging or stuck or audit.violations:
        raise typer.Exit(FOUND)
    if problems:
        raise typer.Exit(INCOMPLETE)

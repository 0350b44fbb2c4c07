"""`render`: an audit as one HTML document.

Names and ids are untrusted: Jinja escapes them, characters that are not printable become escapes, long texts are
shortened, and long lists show their first elements and the number of the others. The page's content policy allows no
request, and only the style and the script whose hashes it names. The script sorts, searches and copies; everything can
be read without it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from kafkawire.report import sortable_tables
from kafkawire.report.descriptions import (
    SEVERITIES,
    SEVERITY_NAMES,
    Reason,
    by_severity,
    command_notes,
    coordinator_state,
    coverage,
    headline,
    incomplete,
    label,
    overall_severity,
    reason_of,
    severities_of,
    severity,
    summary,
    waiting_offsets,
    what_to_do,
)
from kafkawire.report.offset_tables import replica_offsets
from kafkawire.report.partition_charts import ROW_HEIGHT, partition_charts
from kafkawire.report.transaction_timeline import TransactionTimeline, timeline
from kafkawire.report.untrusted_text import runnable, shortened, shown
from kafkawire.report.witness_page import witness_content
from kafkawire.rows import Audit, Cause, Finding, Row
from kafkawire.transactions.formatting import count, duration, numbers, when
from kafkawire.transactions.impact.impact_text import sentences

if TYPE_CHECKING:
    from jinja2 import Environment

#: Limits: findings with a section of their own, findings listed on the first screen, partitions with a chart. Tables
#: have more.
MOST_CARDS = 30
MOST_FIRST = 5
MOST_CHARTS = 8


class Member(msgspec.Struct, frozen=True):
    """A finding in a section.

    Attributes:
        waiting: number of offsets after it that readers wait for.
        command: the command to run; None if there is none.
        advice: why to run the command, or why there is none.
        impact: sentences on what it holds back, and what an abort would hide. `cause`: on why it happened.
        cause_anchor: the HTML id of its cause's remedy; None where there is none.
    """

    finding: Finding
    waiting: int
    command: str | None
    advice: str
    timeline: TransactionTimeline | None
    impact: list[str]
    cause: list[str]
    cause_anchor: str | None


class Card(msgspec.Struct, frozen=True):
    """Findings of one reason in one partition that need attention, with a section of their own.

    Attributes:
        anchor: the HTML id of its section.
        members: the findings, the most severe first.
        waiting: number of offsets after them that readers wait for.
        explained: whether this is the first section of its reason, which explains the reason.
    """

    anchor: str
    severity: str
    label: str
    reason: Reason
    waiting: int
    members: list[Member]
    explained: bool

    @property
    def finding(self) -> Finding:
        return self.members[0].finding


class Remedy(msgspec.Struct, frozen=True):
    """A cause of findings, and what prevents it; shown once for all findings with this cause.

    Attributes:
        anchor: the HTML id. `cause`: that of the first of these findings. `number`: of findings that it may have
            caused.
    """

    anchor: str
    cause: Cause
    number: int


def render(audit: Audit, offsets: Iterable[Row] = ()) -> str:
    """The report as an HTML document, to be stored in UTF-8.

    Args:
        audit: the audit.
        offsets: rows of `kafkawire.offsets.explain`, of the partitions whose offsets have a section.
    """
    severities = severities_of(audit)
    ordered = sorted(audit.findings, key=by_severity)
    notable = [finding for finding in ordered if severity(finding) != "fine"]
    remedies = _remedies(notable)
    cards = _cards(notable, audit.as_of, {one.cause.name: one.anchor for one in remedies})
    of_finding = {id(member.finding): card.anchor for card in cards for member in card.members}
    anchors = [of_finding[id(finding)] for finding in notable if id(finding) in of_finding]
    drawn = partition_charts(audit.findings)
    return _page(
        "report.html.jinja",
        audit=audit,
        title=headline(audit),
        severity=overall_severity(audit),
        summary=summary(audit),
        incomplete=incomplete(audit),
        coverage=coverage(audit.read),
        tally=[(word, SEVERITY_NAMES[word], severities[word]) for word in SEVERITIES if severities[word]],
        cards=cards,
        notes=list(command_notes(one.command for card in cards for one in card.members if one.command is not None)),
        more_cards=len(notable) - len(of_finding),
        remedies=remedies,
        partition_charts=drawn[:MOST_CHARTS],
        row_height=ROW_HEIGHT,
        most_first=MOST_FIRST,
        findings=sortable_tables.findings(audit, ordered, anchors),
        partitions=sortable_tables.partitions(audit, drawn),
        answers=sortable_tables.answers(audit),
        violations=sortable_tables.violations(audit),
        damage=sortable_tables.damage(audit),
        settings=sortable_tables.settings(audit),
        replicas=replica_offsets(offsets),
    )


def render_offsets(offsets: Iterable[Row]) -> str:
    """The rows of `kafkawire.offsets.explain` as an HTML document, to be stored in UTF-8."""
    replicas = replica_offsets(offsets)
    return _page(
        "offsets.html.jinja", title=f"Offsets of {replicas[0].name}" if replicas else "Offsets", replicas=replicas
    )


def render_witness(found: Iterable[Row]) -> str:
    """The rows of `kafkawire.witness` as an HTML document, to be stored in UTF-8.

    Raises:
        ValueError: there is no `WitnessSummary` among them.
    """
    return _page("witness.html.jinja", content=witness_content(found))


def _page(template: str, **content: object) -> str:
    """A page with the style and the script, and their hashes."""
    style, script = _template("report.css"), _template("report.js")
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    content = {"cards": [], **content}  # pages without findings have nothing to fold
    return _environment().get_template(template).render(style=style, script=script, **hashes, **content)


def _cards(notable: list[Finding], as_of: int | None, remedies: Mapping[str, str]) -> list[Card]:
    """The sections: findings of one reason in one partition together, as many findings as have a section."""
    grouped: dict[tuple[object, ...], list[Finding]] = {}
    for finding in notable[:MOST_CARDS]:
        key = finding.cluster_id, finding.topic, finding.partition, finding.reason, severity(finding)
        grouped.setdefault(key, []).append(finding)
    first = {found[0].reason: position for position, found in reversed(list(enumerate(grouped.values(), 1)))}
    return [
        Card(
            anchor=f"finding-{position}",
            severity=severity(found[0]),
            label=label(found[0]),
            reason=reason_of(found[0]),
            waiting=max(map(waiting_offsets, found)),
            members=[_member(finding, as_of, remedies) for finding in found],
            explained=first[found[0].reason] == position,
        )
        for position, found in enumerate(grouped.values(), 1)
    ]


def _member(finding: Finding, as_of: int | None, remedies: Mapping[str, str]) -> Member:
    command, advice = what_to_do(finding)
    if command is not None and not runnable(command):
        command, advice = None, "The command contains text that cannot be shown unchanged; --format json has it."
    cause = finding.cause
    return Member(
        finding=finding,
        waiting=waiting_offsets(finding),
        command=command,
        advice=advice,
        timeline=timeline(finding, as_of),
        impact=sentences(finding),
        cause=[] if cause is None else [f"Cause: {cause.name} ({cause.certainty}).", *cause.evidence],
        cause_anchor=None if cause is None else remedies.get(cause.name),
    )


def _remedies(notable: Iterable[Finding]) -> list[Remedy]:
    """The causes that have a remedy or a release, in the order of the findings."""
    found: dict[str, list[Cause]] = {}
    for finding in notable:
        cause = finding.cause
        if cause is not None and (cause.remedy is not None or cause.affected is not None or cause.fixed is not None):
            found.setdefault(cause.name, []).append(cause)
    return [Remedy(f"cause-{position}", causes[0], len(causes)) for position, causes in enumerate(found.values(), 1)]


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _template(name: str) -> str:
    return files("kafkawire.report").joinpath("templates", name).read_text("utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    environment.filters.update(
        when=when,
        coordinator_state=coordinator_state,
        duration=duration,
        count=count,
        numbers=lambda values: numbers(list(values)),
        grouped=lambda number: f"{number:,}",
        as_is=_as_is,
    )
    environment.globals.update(severity_of=severity, reason_of=reason_of)
    return environment


def _final(value: object) -> object:
    """Applied to every `{{ }}` before escaping. Markup is returned unchanged."""
    return value if hasattr(value, "__html__") else shortened(shown(value))


def _as_is(text: str) -> object:
    """A command: escaped, and never shortened."""
    from markupsafe import escape

    return escape(text)

"""`render`: an audit as one HTML document.

Names and ids are untrusted: Jinja escapes them, characters that are not printable become escapes, long texts are
shortened, and long lists show their first elements and the number of the others. The page's content policy allows no
request, and only the style and the script whose hashes it names. The script sorts, searches and copies; everything can
be read without it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
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
from kafkawire.rows import Audit, Finding, Row
from kafkawire.transactions.causes import described
from kafkawire.transactions.formatting import count, duration, numbers, when
from kafkawire.transactions.impact_text import sentences

if TYPE_CHECKING:
    from jinja2 import Environment

#: Limits: findings with a section of their own, findings listed on the first screen, partitions with a chart. Tables
#: have more.
MOST_CARDS = 30
MOST_FIRST = 6
MOST_CHARTS = 8


class Card(msgspec.Struct, frozen=True):
    """A finding that needs attention, with a section of its own.

    Attributes:
        anchor: the HTML id of its section.
        waiting: number of offsets behind it that readers wait for.
        command: the command to run; None if there is none.
        advice: how to run the command, or why there is none.
        impact: sentences on what it holds back, and what an abort would hide. `cause`: on why it hangs.
    """

    anchor: str
    finding: Finding
    severity: str
    label: str
    reason: Reason
    waiting: int
    command: str | None
    advice: str
    timeline: TransactionTimeline | None
    impact: list[str]
    cause: list[str]


def render(audit: Audit, offsets: Iterable[Row] = ()) -> str:
    """The report as an HTML document, to be stored in UTF-8.

    Args:
        audit: the audit.
        offsets: rows of `kafkawire.offsets.explain`, of the partitions whose offsets have a section.
    """
    severities = severities_of(audit)
    ordered = sorted(audit.findings, key=by_severity)
    notable = [finding for finding in ordered if severity(finding) != "fine"]
    cards = [_card(position, finding, audit.as_of) for position, finding in enumerate(notable[:MOST_CARDS], 1)]
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
        more_cards=len(notable) - len(cards),
        partition_charts=drawn[:MOST_CHARTS],
        row_height=ROW_HEIGHT,
        most_first=MOST_FIRST,
        findings=sortable_tables.findings(audit, ordered, [card.anchor for card in cards]),
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


def _page(template: str, **content: object) -> str:
    """A page with the style and the script, and their hashes."""
    style, script = _template("report.css"), _template("report.js")
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    return _environment().get_template(template).render(style=style, script=script, **hashes, **content)


def _card(position: int, finding: Finding, as_of: int | None) -> Card:
    command, advice = what_to_do(finding)
    if command is not None and not runnable(command):
        command, advice = None, "The command contains text that cannot be shown unchanged; --format json has it."
    return Card(
        anchor=f"finding-{position}",
        finding=finding,
        severity=severity(finding),
        label=label(finding),
        reason=reason_of(finding),
        waiting=waiting_offsets(finding),
        command=command,
        advice=advice,
        timeline=timeline(finding, as_of),
        impact=sentences(finding),
        cause=described(finding.cause),
    )


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

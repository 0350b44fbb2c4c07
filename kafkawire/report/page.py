"""`render`: an audit as one HTML document.

Names and ids in it were written by strangers: Jinja escapes them, characters that do not print are spelled out, long
ones are shortened, and of long lists the first are shown and the rest counted. The page's content policy allows no
request, and of styles and scripts only the two whose hashes it names. Without its script (sorting, searching, copying)
everything can be read.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
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
    coverage,
    headline,
    incomplete,
    label,
    overall_severity,
    reason_of,
    severity,
    summary,
    waiting_offsets,
    what_to_do,
)
from kafkawire.report.partition_charts import ROW_HEIGHT, partition_charts
from kafkawire.report.transaction_timeline import TransactionTimeline, timeline
from kafkawire.report.untrusted_text import runnable, shortened, shown
from kafkawire.rows import Audit, Finding
from kafkawire.transactions.wording import count, duration, numbers, when

if TYPE_CHECKING:
    from jinja2 import Environment

#: Findings with a section of their own, of these the ones on the first screen, and partitions with a chart; tables
#: have more.
MOST_CARDS = 30
MOST_FIRST = 6
MOST_CHARTS = 8


class Card(msgspec.Struct, frozen=True):
    """A finding that somebody has to look at.

    Attributes:
        anchor: the id of its section. `command`: what to run, where something is; `advice`: what to know about it.
        waiting: offsets that readers wait for behind it.
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


def render(audit: Audit) -> str:
    """The report, as text of an HTML document (UTF-8)."""
    style, script = _template("report.css"), _template("report.js")
    severities = Counter(map(severity, audit.findings))
    ordered = sorted(audit.findings, key=by_severity)
    loud = [finding for finding in ordered if severity(finding) != "fine"]
    cards = [_card(position, finding, audit.as_of) for position, finding in enumerate(loud[:MOST_CARDS], 1)]
    drawn = partition_charts(audit.findings)
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            audit=audit,
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
            title=headline(audit),
            severity=overall_severity(audit),
            summary=summary(audit),
            incomplete=incomplete(audit),
            coverage=coverage(audit.read),
            tally=[(word, SEVERITY_NAMES[word], severities[word]) for word in SEVERITIES if severities[word]],
            cards=cards,
            more_cards=len(loud) - len(cards),
            partition_charts=drawn[:MOST_CHARTS],
            row_height=ROW_HEIGHT,
            most_first=MOST_FIRST,
            findings=sortable_tables.findings(audit, ordered, [card.anchor for card in cards]),
            partitions=sortable_tables.partitions(audit, drawn),
            answers=sortable_tables.answers(audit),
            violations=sortable_tables.violations(audit),
            damage=sortable_tables.damage(audit),
            settings=sortable_tables.settings(audit),
        )
    )


def _card(position: int, finding: Finding, as_of: int | None) -> Card:
    command, advice = what_to_do(finding)
    if command is not None and not runnable(command):
        command, advice = None, "The command holds names that cannot be shown as they are: --format json has it."
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
        duration=duration,
        count=count,
        numbers=lambda values: numbers(list(values)),
        grouped=lambda number: f"{number:,}",
        as_is=_as_is,
    )
    environment.globals.update(severity_of=severity, reason_of=reason_of)
    return environment


def _final(value: object) -> object:
    """What every `{{ }}` goes through before it is escaped. Text that is markup already stays what it is."""
    return value if hasattr(value, "__html__") else shortened(shown(value))


def _as_is(text: str) -> object:
    """A command, which is escaped and never shortened."""
    from markupsafe import escape

    return escape(text)

"""`render`: an audit as one HTML document.

Names and ids in it were written by strangers: Jinja escapes them, characters that do not print are spelled out, and the
page's content policy allows no script and no request, and of styles only the one whose hash it names.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from kafkawire.report.timeline import ROW, WIDTH, timelines
from kafkawire.rows import Audit, Finding
from kafkawire.transactions.wording import count, duration, numbers, when

if TYPE_CHECKING:
    from jinja2 import Environment

#: Damage rows in the report; the rest is counted, and `--format json` has them all.
MOST_DAMAGE = 200

#: See `tone`, the loudest first.
_TONES = ("hanging", "stuck", "unknown", "fine")


def render(audit: Audit) -> str:
    """The report, as text of an HTML document (UTF-8)."""
    style = _template("report.css")
    tones = Counter(map(tone, audit.findings))
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            audit=audit,
            style=style,
            style_hash=f"sha256-{digest}",
            headline=headline(audit),
            tally=[(word, tones[word]) for word in _TONES if tones[word]],
            timelines=timelines(audit.findings),
            row_height=ROW,
            width=WIDTH,
            most_damage=MOST_DAMAGE,
        )
    )


def headline(audit: Audit) -> str:
    """The answer in one sentence."""
    tones = Counter(map(tone, audit.findings))
    if tones["hanging"]:
        return f"{count(tones['hanging'], 'hanging transaction')} found"
    if tones["stuck"]:
        return f"No hanging transaction; {count(tones['stuck'], 'stuck one')}"
    if tones["unknown"]:
        return f"{count(tones['unknown'], 'open transaction')} could not be judged"
    if not audit.read.complete or any(not damage.harmless for damage in audit.damage):
        return "No hanging transaction found, but not all could be read"
    return "No hanging transaction"


def tone(finding: Finding) -> str:
    """How loud a finding is: hanging, stuck, unknown or fine."""
    if finding.verdict == "not_hanging":
        return "stuck" if finding.reason == "stuck_prepare" else "fine"
    return finding.verdict


def shown(value: object) -> str:
    """Text as it is, but for characters that do not print or that turn the direction of writing: those as escapes."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


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
    environment.filters.update(when=when, duration=duration, numbers=lambda values: numbers(list(values)))
    environment.globals.update(tone=tone)
    return environment


def _final(value: object) -> object:
    """What every `{{ }}` goes through before it is escaped. Text that is markup already stays what it is."""
    return value if hasattr(value, "__html__") else shown(value)

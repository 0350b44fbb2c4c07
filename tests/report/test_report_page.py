"""The HTML report: what it shows, and that hostile text stays text."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from kafkawire import report
from kafkawire.report.timeline import MOST, WIDTH, timelines
from kafkawire.rows import Audit, Coverage, Damage, Finding, Violation
from tests import golden

HOSTILE = "<script>alert('x')</script>\"'&\x1b[31m\u202e\udcff\0{{ 7*7 }}"


def finding(**changes: object) -> Finding:
    fields: dict[str, object] = {
        "verdict": "hanging",
        "reason": "transaction_ended",
        "blocked": True,
        "topic": "orders",
        "partition": 1,
        "producer_id": 1000,
        "producer_epoch": 4,
        "start_offset": 10,
        "last_offset": 12,
        "last_timestamp": 1_750_064_400_000,
        "age_ms": 10_800_000,
        "coordinator_epoch": 6,
        "transactional_id": "pay",
        "coordinator_state": "CompleteCommit",
        "last_stable_offset": 10,
        "high_watermark": 90,
        "evidence": ("One sentence.", "Another."),
        "action": (
            "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic orders --partition 1 --start-offset 10"
        ),
    }
    return Finding(**{**fields, **changes})  # type: ignore[arg-type]


READ = Coverage(paths=("logs",), brokers=(1,), partitions=3, segments=4, batches=50, bytes=6000, complete=True,
                transaction_state=(0, 1, 2), clock="as given")  # fmt: skip


def test_a_report() -> None:
    audit = Audit(
        as_of=1_750_075_200_000,
        read=READ,
        findings=(
            finding(),
            finding(verdict="not_hanging", reason="stuck_prepare", topic="ledger", partition=0, action="none: never"),
            finding(
                verdict="unknown",
                reason="coverage_incomplete",
                start_offset=40,
                last_offset=60,
                blocked=False,
                transactional_id=None,
                coordinator_state=None,
                age_ms=None,
                action="none",
            ),
            finding(verdict="not_hanging", reason="live", topic="new", last_stable_offset=None, high_watermark=None),
        ),
        violations=(Violation(check="one_outcome", place="orders-1", what="COMMIT and ABORT"),),
        damage=(Damage(file="logs/a.log", position=7, reason="crc_mismatch", detail="wrong", resumed_at=90),),
    )
    golden.check("report/report.html", report.render(audit))


def test_a_report_of_nothing() -> None:
    read = Coverage(paths=("logs",), gaps=("no partition's log was found",))
    golden.check("report/nothing.html", report.render(Audit(read=read)))


class Document(HTMLParser):
    """Everything of a page that could act, and all its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, set[str]] = {}
        self.text: list[str] = []
        self.style = ""
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._in_style = tag == "style"
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.style += data
        else:
            self.text.append(data)


def parse(html: str) -> Document:
    document = Document()
    document.feed(html)
    return document


def hostile_audit() -> Audit:
    return Audit(
        as_of=0,
        read=Coverage(paths=(HOSTILE,), gaps=(HOSTILE,), clock=HOSTILE),
        findings=(finding(topic=HOSTILE, transactional_id=HOSTILE, coordinator_state=HOSTILE, evidence=(HOSTILE,),
                          action=HOSTILE, reason=HOSTILE),),
        violations=(Violation(check=HOSTILE, place=HOSTILE, what=HOSTILE),),
        damage=(Damage(file=HOSTILE, position=0, reason=HOSTILE, detail=HOSTILE),),
    )  # fmt: skip


def test_hostile_text_stays_text() -> None:
    html = report.render(hostile_audit())
    html.encode()  # no lone surrogates
    document = parse(html)
    assert not {"script", "img", "iframe", "object", "link", "a", "form", "base"} & set(document.tags)
    assert not {"style", "src", "href", "xmlns"} & set(document.attributes)
    assert not [name for name in document.attributes if name.startswith("on")]
    as_shown = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e").replace("\udcff", "\\udcff")
    assert document.text.count(as_shown.replace("\0", "\\x00")) >= 9
    assert all(char.isprintable() or char == "\n" for char in html)


def test_the_policy_allows_the_pages_own_style_and_nothing_else() -> None:
    document = parse(report.render(hostile_audit()))
    digest = b64encode(sha256(document.style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert policy in document.attributes["content"]
    assert document.tags.index("meta") < document.tags.index("style")
    assert not re.search(r"url\(|@import|https?:", document.style)


@pytest.mark.parametrize(
    ("findings", "complete", "text"),
    [
        ((finding(), finding()), True, "2 hanging transactions found"),
        ((finding(verdict="not_hanging", reason="stuck_prepare"),), True, "No hanging transaction; 1 stuck one"),
        ((finding(verdict="unknown", reason="coverage_incomplete"),), False, "1 open transaction could not be judged"),
        ((finding(verdict="not_hanging", reason="live"),), True, "No hanging transaction"),
        ((), False, "No hanging transaction found, but not all could be read"),
    ],
)
def test_the_headline_is_the_answer(findings: tuple[Finding, ...], complete: bool, text: str) -> None:
    html = report.render(Audit(read=Coverage(complete=complete), findings=findings))
    assert f"<h1>{text}</h1>" in html


def test_a_timeline_lies_within_its_picture() -> None:
    big = 2**62
    (line,) = timelines([finding(start_offset=0, last_offset=0, last_stable_offset=0, high_watermark=big),
                         finding(start_offset=big - 1, last_offset=big - 1, last_stable_offset=0,
                                 high_watermark=big)])  # fmt: skip
    for bar in line.bars:
        assert bar.x >= 0
        assert bar.width >= 2
        assert bar.x + bar.width <= WIDTH
    assert [mark.name for mark in line.lines] == ["LSO", "high watermark"]
    assert [mark.end for mark in line.lines] == [False, True]


def test_bars_stand_in_the_order_of_their_offsets_and_as_many_as_fit() -> None:
    (line,) = timelines(finding(start_offset=n, last_offset=n) for n in range(MOST + 5, 0, -1))
    assert [bar.finding.start_offset for bar in line.bars] == list(range(1, MOST + 1))
    assert line.hidden == 5

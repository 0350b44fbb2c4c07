"""The HTML report: its content, its bounded size, and the escaping of hostile text."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from kafkawire import report
from kafkawire.report.page import MOST_CARDS
from kafkawire.report.sortable_tables import MOST_ROWS
from kafkawire.report.untrusted_text import MOST_CHARACTERS
from kafkawire.rows import Audit, Cause, CheckAnswer, Coverage
from tests import golden
from tests.report.audits import HOSTILE, NOON, READ, every_kind, far_too_many, finding, hostile


def body(audit: Audit) -> str:
    """A report without its style and its script, which are files of their own."""
    html = re.sub(r"<(style|script)>.*?</\1>", r"<\1/>", report.render(audit), flags=re.DOTALL)
    return re.sub(r"'sha256-[^']*'", "'sha256-...'", html)


def test_report_of_every_kind_of_finding() -> None:
    golden.check("report/report.html", body(every_kind()))


def test_report_without_findings() -> None:
    read = Coverage(paths=("logs",), gaps=("no partition's log was found",))
    golden.check("report/nothing.html", body(Audit(read=read)))


class Document(HTMLParser):
    """Everything of a page that could act, and all its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.text: list[str] = []
        self.sources = {"style": "", "script": ""}
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._in = tag if tag in self.sources else ""
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in:
            self.sources[self._in] += data
        else:
            self.text.append(data)


def parse(html: str) -> Document:
    document = Document()
    document.feed(html)
    return document


# Hostile text --------------------------------------------------------------------------------------------------------


def test_hostile_text_stays_text() -> None:
    html = report.render(hostile())
    html.encode()  # no lone surrogates
    document = parse(html)
    assert document.tags.count("script") == 1
    assert not {"img", "iframe", "object", "link", "form", "base", "input"} & set(document.tags)
    assert not {"style", "src", "xmlns", "target", "action"} & set(document.attributes)
    assert not [name for name in document.attributes if name.startswith("on")]
    as_shown = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e").replace("\udcff", "\\udcff")
    text = "\n".join(document.text)
    assert text.count(as_shown.replace("\0", "\\x00")) >= 30
    assert text.count("alert('x')") == text.count(as_shown.replace("\0", "\\x00"))
    assert all(char.isprintable() or char == "\n" for char in html)


@pytest.mark.slow
def test_links_lead_to_anchors_of_the_page_only() -> None:
    for audit in (hostile(), every_kind(), far_too_many(100)):
        document = parse(report.render(audit))
        ids = document.attributes["id"]
        assert len(ids) == len(set(ids))
        assert {link.removeprefix("#") for link in document.attributes["href"]} <= set(ids)
        assert all(re.fullmatch(r"#[a-z0-9-]+", link) for link in document.attributes["href"])


def test_content_policy_allows_only_the_pages_style_and_script() -> None:
    html = report.render(hostile())
    document = parse(html)
    hashes = {name: b64encode(sha256(source.encode()).digest()).decode() for name, source in document.sources.items()}
    policy = (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    assert policy in document.attributes["content"]
    assert document.tags.index("meta") < document.tags.index("style")
    assert not re.search(r"url\(|@import|https?:", document.sources["style"])
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function|fetch|XMLHttp|import|https?:|location"
    )
    assert not re.search(forbidden, document.sources["script"])


def test_unprintable_and_overlong_commands_are_not_offered() -> None:
    fine = parse(report.render(Audit(as_of=NOON, read=READ, findings=(finding(),))))
    assert "pre" in fine.tags
    for action in ("kafkawire txn abort --topic 'a\u202eb'", "kafkawire txn abort --topic " + "a" * 5000):
        html = report.render(Audit(as_of=NOON, read=READ, findings=(finding(action=action),)))
        assert "pre" not in parse(html).tags
        assert "--format json has it" in html
    long = "kafkawire txn abort --topic " + "a" * (MOST_CHARACTERS + 100)
    assert long in report.render(Audit(as_of=NOON, read=READ, findings=(finding(action=long),)))


# Size ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_page_size_is_bounded_for_many_findings() -> None:
    few, many = (report.render(far_too_many(number)) for number in (1000, 10_000))
    assert len(many) < 1.02 * len(few) < 3_000_000
    document = parse(many)
    assert document.tags.count("article") == MOST_CARDS
    assert document.tags.count("tr") < 4 * MOST_ROWS + 20
    assert f"and {10_000 - MOST_ROWS:,} more" in many


@pytest.mark.slow
def test_page_size_is_bounded_for_long_names() -> None:
    html = report.render(far_too_many(50, "n" * 100_000))
    assert len(html) < 1_500_000
    assert "(100000 characters)" in html


# Content -------------------------------------------------------------------------------------------------------------


def test_findings_are_sorted_by_severity_and_held_back_offsets() -> None:
    findings = (
        finding(topic="fine", verdict="not_hanging", reason="live"),
        finding(topic="small", high_watermark=11),
        finding(topic="stuck", verdict="not_hanging", reason="stuck_prepare"),
        finding(topic="large", high_watermark=5000),
    )
    html = report.render(Audit(as_of=NOON, read=READ, findings=findings))
    cards = re.findall(r'<article class="card (\w+)".*?<code>([a-z]+)-1</code>', html, re.DOTALL)
    assert cards == [("hanging", "large"), ("hanging", "small"), ("stuck", "stuck")]


def test_unknown_values_are_shown_as_unknown() -> None:
    unknown = finding(
        start_offset=None, last_offset=None, last_timestamp=None, age_ms=None, last_stable_offset=None,
        high_watermark=None, transactional_id=None, coordinator_state=None, marker_timestamp=None,
        transaction_start_timestamp=None, transaction_last_update_timestamp=None, transaction_timeout_ms=None,
        log_start_offset=None, coordinator_epoch=None, action=None,
    )  # fmt: skip
    text = "".join(parse(report.render(Audit(read=READ, findings=(unknown,)))).text)
    assert "None" not in text
    assert "from offset unknown" in text


@pytest.mark.parametrize(
    ("read", "shown"),
    [
        (READ, "no record"),
        (
            Coverage(transaction_state=(0,), transaction_state_missing=(1,)),
            "no record in the partitions that were read",
        ),
        (Coverage(), "unknown: its log was not read"),
    ],
)
def test_distinguishes_a_log_without_a_record_from_one_that_was_not_read(read: Coverage, shown: str) -> None:
    html = report.render(Audit(read=read, findings=(finding(coordinator_state=None),)))
    assert f"<dt>Coordinator&#39;s state</dt><dd>{shown}</dd>" in html


def test_findings_that_must_not_be_aborted_have_no_command() -> None:
    for reason in ("stuck_prepare", "late", "live"):
        html = report.render(
            Audit(as_of=NOON, read=READ, findings=(finding(verdict="not_hanging", reason=reason, action="none: no"),))
        )
        assert "<pre" not in html


def test_check_without_description_is_shown_by_its_name() -> None:
    answer = CheckAnswer(check="a_new_rule", answer="holds", held=7)
    html = report.render(Audit(read=READ, answers=(answer,)))
    assert "<code>a_new_rule</code>" in html
    assert "a new rule" in html


def test_reason_without_description_is_shown_by_its_name() -> None:
    html = report.render(Audit(read=READ, findings=(finding(reason="of_next_year"),)))
    assert "<b>Of next year.</b>" in html


# Decision first, proof folded -----------------------------------------------------------------------------------------


def outline(html: str) -> list[str]:
    """What a reader meets in the sections of findings, in order; `(` and `)` are the ends of what is folded."""
    marks = {"<article": "card", "<pre": "command", "<details": "(", "</details>": ")", "What is known": "known"}
    main = html[html.index("<main>") :]
    return [marks[found] for found in re.findall("|".join(map(re.escape, marks)), main)]


def test_what_to_do_comes_before_the_proof_which_is_folded() -> None:
    html = report.render(Audit(as_of=NOON, read=READ, findings=(finding(), finding(topic="other"))))
    folded = ["(", ")"] * 2  # where readers wait, what was read
    assert outline(html) == [*(["card", "command", "(", "known", ")"] * 2), *folded]


def test_findings_of_one_reason_in_one_partition_are_one_section() -> None:
    findings = [finding(start_offset=start, action=f"kafkawire txn abort --start-offset {start}") for start in (3, 9)]
    other = finding(start_offset=20, reason="epoch_bumped")
    html = report.render(Audit(as_of=NOON, read=READ, findings=(*findings, other)))
    assert html.count("<article") == 2
    assert [f"--start-offset {start}<" in html for start in (3, 9)] == [True, True]
    assert html.count('<a href="#finding-1">') == 3  # on the first screen, and of two rows of the table
    document = parse(html)
    assert len(document.attributes["id"]) == len(set(document.attributes["id"]))


def test_a_remedy_is_written_once_however_many_findings_have_the_cause() -> None:
    cause = Cause(name="late_data", certainty="proven", remedy="raise the version", evidence=("Seen.",))
    findings = tuple(finding(partition=number, cause=cause) for number in range(5))
    html = report.render(Audit(as_of=NOON, read=READ, findings=findings))
    assert html.count("raise the version") == 1
    assert html.count('href="#cause-1"') == 5
    assert '<h3 id="cause-1">late_data <span>5 findings' in html


def test_what_is_not_on_the_first_screen_opens() -> None:
    findings = tuple(finding(partition=number) for number in range(11))
    html = report.render(Audit(as_of=NOON, read=READ, findings=findings))
    head = html[: html.index("<main>")]
    assert "<summary>and 6 more</summary>" in head
    assert len(re.findall(r'<li><a href="#finding-\d+">', head)) == 11

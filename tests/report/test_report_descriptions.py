"""The report's sentences: headline, summary, advice, and a description of every check and reason."""

from __future__ import annotations

import pytest

from kafkawire import report
from kafkawire.report.descriptions import CHECKS, REASONS, check_sentence, command_notes, what_to_do
from kafkawire.rows import Audit, Coverage, DamageRow, Omitted, Violation
from kafkawire.transactions.checks import check_names
from kafkawire.transactions.verdict import verdicts
from tests.report.audits import NOON, READ, finding


@pytest.mark.slow
@pytest.mark.parametrize(
    ("audit", "text", "severity"),
    [
        (Audit(read=READ, findings=(finding(), finding())), "2 hanging transactions", "hanging"),
        (Audit(read=READ, findings=(finding(), finding(verdict="not_hanging", reason="stuck_prepare"))),
         "1 hanging transaction, 1 stuck", "hanging"),
        (Audit(read=READ, findings=(finding(verdict="not_hanging", reason="stuck_prepare"),)),
         "No hanging transaction, but 1 stuck one", "stuck"),
        (Audit(read=READ, violations=(Violation(check="one_outcome", place="a-0", what="both"),)),
         "No hanging transaction, but 1 broken rule", "stuck"),
        (Audit(read=READ, findings=(finding(verdict="unknown", reason="coverage_incomplete"),)),
         "1 open transaction could not be judged", "unknown"),
        (Audit(read=Coverage(), findings=(finding(),)),
         "1 hanging transaction, and not everything could be read", "hanging"),
        (Audit(read=Coverage(), findings=(finding(verdict="not_hanging", reason="stuck_prepare"),)),
         "No hanging transaction found, but 1 stuck one, and not everything could be read", "stuck"),
        (Audit(read=Coverage(), violations=(Violation(check="one_outcome", place="a-0", what="both"),)),
         "No hanging transaction found, but 1 broken rule, and not everything could be read", "stuck"),
        (Audit(read=READ, findings=(finding(verdict="not_hanging", reason="stuck_prepare"),
                                    finding(verdict="unknown", reason="coverage_incomplete"))),
         "No hanging transaction found, but 1 stuck one, and 1 could not be judged", "stuck"),
        (Audit(read=READ, findings=(finding(verdict="not_hanging", reason="late"),)),
         "No hanging transaction, but 1 to look at", "watch"),
        (Audit(read=READ, findings=(finding(verdict="not_hanging", reason="ghost"),)),
         "No hanging transaction, but 1 to look at", "watch"),
        (Audit(read=READ, findings=(finding(verdict="not_hanging", reason="live"),)), "No hanging transaction", "fine"),
        (Audit(read=Coverage()), "No hanging transaction found, but not everything could be read", "unknown"),
        (Audit(read=READ, damage=(DamageRow(file="a", position=0, reason="crc_mismatch"),)),
         "No hanging transaction found, but not everything could be read", "unknown"),
        (Audit(read=READ, damage=(DamageRow(file="a", position=0, reason="preallocated", harmless=True),)),
         "No hanging transaction", "fine"),
    ],
)  # fmt: skip
def test_headline_states_the_most_severe_result(audit: Audit, text: str, severity: str) -> None:
    html = report.render(audit)
    assert f"<h1>{text}</h1>" in html
    assert f'<header class="{severity}">' in html


def test_numbers_count_findings_that_are_not_listed() -> None:
    more = (
        Omitted(rows="finding", verdict="hanging", reason="epoch_bumped", blocked=True, count=1200),
        Omitted(rows="finding", verdict="not_hanging", reason="live", blocked=True, count=7),
        Omitted(rows="damage", reason="crc_mismatch", harmless=True, count=33),
    )
    damage = (DamageRow(file="a", position=0, reason="crc_mismatch", harmless=True),)
    html = report.render(Audit(as_of=NOON, read=READ, findings=(finding(),), damage=damage, omitted=more))
    assert "<h1>1201 hanging transactions</h1>" in html
    for number in ("1,207", "33"):
        assert f"and {number} more: <code>kafkawire audit --engine spark --save PATH</code> has them all." in html


def test_summary_uses_singular_and_plural() -> None:
    one = report.render(Audit(as_of=NOON, read=READ, findings=(finding(),)))
    assert "It holds readers of committed data back in 1 partition, by 80 offsets." in one
    assert "of broker 1," in one
    two = report.render(Audit(as_of=NOON, read=READ, findings=(finding(), finding(partition=2, blocked=False))))
    assert "They hold readers of committed data back in 1 partition, by 80 offsets." in two
    free = report.render(Audit(as_of=NOON, read=READ, findings=(finding(blocked=False),)))
    assert "It holds no readers back now." in free


@pytest.mark.parametrize(
    ("action", "command", "advice"),
    [
        ("kafkawire txn abort --topic 'a: kafkawire b'", "kafkawire txn abort --topic 'a: kafkawire b'", ""),
        ("readers wait: kafka-transactions.sh --bootstrap-server HOST:PORT abort",
         "kafka-transactions.sh --bootstrap-server HOST:PORT abort",
         "Readers wait."),
        ("none: its producer ends it; to end it now: kafkawire txn force-terminate x", None,
         "Nothing: its producer ends it; to end it now: kafkawire txn force-terminate x."),
        ("ask the owner", None, "Ask the owner."),
        (None, None, "Nothing."),
    ],
)  # fmt: skip
def test_what_to_do_separates_command_and_advice(action: str | None, command: str | None, advice: str) -> None:
    assert what_to_do(finding(action=action)) == (command, advice)


def test_what_holds_of_all_commands_is_said_once() -> None:
    abort = "kafkawire txn abort --bootstrap-server HOST:PORT --topic a"
    html = report.render(Audit(as_of=NOON, read=READ, findings=(finding(action=abort), finding(topic="b"))))
    assert html.count("judges again before it acts") == html.count("Replace HOST:PORT") == 1
    assert list(command_notes(["kafka-transactions.sh --bootstrap-server b:1 abort"])) == []


def test_every_check_and_every_reason_has_a_description() -> None:
    assert {*check_names.CHECKS, *check_names.TIER_CHECKS} == set(CHECKS)
    assert all(check_sentence(check).endswith(".") for check in (*CHECKS, *check_names.SHARE_CHECKS))
    assert {reason for _, reason in verdicts.REASONS} == set(REASONS)

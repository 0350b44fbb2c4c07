"""Whether an answer is complete, and what it lacks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kafkawire.rows import Audit, Coverage, DamageRow, Finding, Omitted, Outcome, Violation
from kafkawire.transactions.verdict.completeness import outcome

CLEAR = Coverage(complete=True)


def finding(verdict: str, reason: str) -> Finding:
    return Finding(
        verdict=verdict, reason=reason, topic="orders", partition=3, producer_id=7, producer_epoch=0, start_offset=64
    )


@pytest.mark.parametrize(
    ("audit", "found", "missing"),
    [
        (Audit(read=CLEAR), False, ()),
        (Audit(read=CLEAR, findings=(finding("not_hanging", "live"), finding("not_hanging", "late"))), False, ()),
        (Audit(read=CLEAR, findings=(finding("hanging", "epoch_bumped"),)), True, ()),
        (Audit(read=CLEAR, findings=(finding("not_hanging", "stuck_prepare"),)), True, ()),
        (Audit(read=CLEAR, violations=(Violation(check="lso", place="orders-3", what="9, not 8"),)), True, ()),
        (Audit(read=Coverage(gaps=("orders-4 was not read: why",))), False, ("orders-4 was not read: why",)),
        (Audit(read=Coverage()), False, ("what was read is not complete",)),
        (Audit(read=CLEAR, damage=(DamageRow(file="a", position=9, reason="crc_mismatch"),)), False,
         ("a: at byte 9: crc_mismatch",)),
        (Audit(read=CLEAR, damage=(DamageRow(file="a", position=9, reason="preallocated", harmless=True),)), False, ()),
        (Audit(read=CLEAR, findings=(finding("unknown", "coverage_incomplete"),)), False,
         ("orders-3, offset 64: could not be judged",)),
        (Audit(read=Coverage(gaps=("a",)), findings=(finding("hanging", "epoch_bumped"), finding("unknown", "b"))),
         True, ("a", "orders-3, offset 64: could not be judged")),
        (Audit(read=CLEAR, omitted=(Omitted(rows="finding", verdict="unknown", reason="b", count=1234),
                                    Omitted(rows="finding", verdict="not_hanging", reason="live", count=9),
                                    Omitted(rows="damage", reason="crc_mismatch", harmless=False, count=5),
                                    Omitted(rows="damage", reason="preallocated", harmless=True, count=3))), False,
         ("5 more damaged places are not listed", "1,234 more transactions could not be judged")),
    ],
)  # fmt: skip
def test_outcome_follows_from_findings_and_gaps(audit: Audit, found: bool, missing: tuple[str, ...]) -> None:
    result = outcome(audit)
    assert replace(result, hanging=0, stuck=0, blocked=0) == Outcome(found=found, complete=not missing, missing=missing)


def test_outcome_counts_what_needs_attention() -> None:
    blocked = replace(finding("not_hanging", "live"), attention="blocked")
    doubtful = replace(finding("unknown", "coverage_incomplete"), attention="blocked")
    hanging, stuck = finding("hanging", "epoch_bumped"), finding("not_hanging", "stuck_prepare")
    result = outcome(Audit(read=CLEAR, findings=(blocked, doubtful, hanging, stuck)))
    assert (result.found, result.hanging, result.stuck, result.blocked) == (True, 1, 1, 2)
    alone = outcome(Audit(read=CLEAR, findings=(blocked,)))
    assert (alone.found, alone.complete) == (True, True)

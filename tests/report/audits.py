"""Audits for the report's tests: every kind of finding, hostile text, and a very large audit."""

from __future__ import annotations

from kafkawire.rows import Audit, CheckAnswer, Coverage, DamageRow, Finding, Setting, Violation

NOON = 1_750_075_200_000
HOUR = 3_600_000

HOSTILE = "<script>alert('x')</script>\"'&\x1b[31m\u202e\udcff\0{{ 7*7 }}</style></script><img src=x onerror=alert(1)>"

READ = Coverage(
    paths=("logs",), brokers=(1,), partitions=3, segments=4, batches=50, bytes=6000, complete=True,
    transaction_state=(0, 1, 2), clock="as given",
    settings=(Setting(name="transaction.max.timeout.ms", value=900_000, source="default"),),
)  # fmt: skip


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
        "last_timestamp": NOON - 3 * HOUR,
        "age_ms": 3 * HOUR,
        "coordinator_epoch": 6,
        "transactional_id": "pay",
        "coordinator_state": "CompleteCommit",
        "last_stable_offset": 10,
        "high_watermark": 90,
        "evidence": ("One sentence.", "Another."),
        "action": "kafkawire txn abort --bootstrap-server HOST:PORT --topic orders --partition 1 --start-offset 10",
        "log_start_offset": 0,
        "marker_timestamp": NOON - 4 * HOUR,
        "transaction_start_timestamp": NOON - 5 * HOUR,
        "transaction_last_update_timestamp": NOON - 4 * HOUR,
        "transaction_timeout_ms": 900_000,
    }
    return Finding(**{**fields, **changes})  # type: ignore[arg-type]


def every_kind() -> Audit:
    unowned = {"transactional_id": None, "coordinator_state": None, "transaction_start_timestamp": None,
               "transaction_last_update_timestamp": None, "transaction_timeout_ms": None}  # fmt: skip
    ongoing = {"coordinator_state": "Ongoing", "transaction_start_timestamp": NOON - HOUR,
               "transaction_last_update_timestamp": NOON - HOUR, "verdict": "not_hanging",
               "marker_timestamp": None}  # fmt: skip
    return Audit(
        as_of=NOON,
        read=READ,
        findings=(
            finding(),
            finding(verdict="not_hanging", reason="stuck_prepare", topic="ledger", partition=0,
                    coordinator_state="PrepareCommit", action="none: never"),
            finding(verdict="unknown", reason="coverage_incomplete", start_offset=40, last_offset=60, blocked=False,
                    age_ms=None, action="none before it is certain: look", **unowned),
            finding(reason="late", topic="late", action="none on the partition: its coordinator must end it",
                    **ongoing),
            finding(reason="live", topic="new", last_stable_offset=None, high_watermark=None,
                    action="none: its producer ends it", **ongoing | {"transaction_timeout_ms": 2 * HOUR}),
        ),
        violations=(Violation(check="one_outcome", place="orders-1", what="COMMIT and ABORT", offset=7),),
        answers=(
            CheckAnswer(check="sequence_contiguous", answer="holds", held=1200),
            CheckAnswer(check="one_outcome", answer="violated", violated=1, held=3),
            CheckAnswer(check="lso", answer="not_checkable", not_checkable=2, lacked=("no checkpoint", "a gap")),
            CheckAnswer(check="a_rule_of_next_year", answer="holds"),
        ),
        damage=(DamageRow(file="logs/a.log", position=7, reason="crc_mismatch", detail="wrong", resumed_at=90),),
    )  # fmt: skip


def hostile() -> Audit:
    return Audit(
        as_of=0,
        read=Coverage(paths=(HOSTILE,), gaps=(HOSTILE,), clock=HOSTILE, clusters=(HOSTILE, "b"),
                      settings=(Setting(name=HOSTILE, value=1, source=HOSTILE),)),
        findings=(finding(topic=HOSTILE, transactional_id=HOSTILE, coordinator_state=HOSTILE, evidence=(HOSTILE,),
                          action=HOSTILE, reason=HOSTILE, cluster_id=HOSTILE),
                  finding(verdict=HOSTILE, reason=HOSTILE, topic=HOSTILE, action="none: " + HOSTILE)),
        violations=(Violation(check=HOSTILE, place=HOSTILE, what=HOSTILE, transactional_id=HOSTILE, file=HOSTILE),),
        answers=(CheckAnswer(check=HOSTILE, answer=HOSTILE, lacked=(HOSTILE,)),),
        damage=(DamageRow(file=HOSTILE, position=0, reason=HOSTILE, detail=HOSTILE),),
    )  # fmt: skip


def far_too_many(number: int, name: str = "orders") -> Audit:
    """`number` hanging transactions, each in its own partition, and as many violations, damages and gaps."""
    return Audit(
        as_of=NOON,
        read=Coverage(paths=("logs",) * number, gaps=(name,) * number),
        findings=tuple(
            finding(topic=name, partition=n, transactional_id=name, evidence=(name,)) for n in range(number)
        ),
        violations=(Violation(check="one_outcome", place=name, what=name),) * number,
        damage=(DamageRow(file=name, position=0, reason="crc_mismatch", detail=name),) * number,
    )

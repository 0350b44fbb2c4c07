"""Blockers from facts: what waits, on what, who must act; and when nothing blocks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.rows import (
    Audit,
    Coverage,
    DamageRow,
    Finding,
    Impact,
    Lag,
    LagCount,
    OffsetRange,
    Premise,
    Subject,
    Unread,
    Violation,
    Wait,
)
from kafkawire.rows.impacts import HeldCompaction
from kafkawire.transactions.blocking.blocker_text import LINES, WIDTH, behind, block
from kafkawire.transactions.blocking.blockers import GroupView
from kafkawire.transactions.blocking.why import answer, nothing_blocks
from kafkawire.transactions.commands import Reach

NOW = 1_790_000_000_000
REACH = Reach("b:9092 --command-config my.properties", ("--max-transaction-timeout 60",))
ORDERS = Subject(topic="orders")
READ = Coverage(partitions=3, complete=True, premises=(Premise(name="reach", holds=True, what="all"),))


def finding(**fields: Any) -> Finding:
    defaults: dict[str, Any] = {
        "verdict": "hanging", "reason": "transaction_ended", "blocked": True, "topic": "orders", "partition": 0,
        "producer_id": 7, "producer_epoch": 1, "start_offset": 17, "transactional_id": "pay", "attention": "hanging",
        "coordinator_state": "CompleteCommit", "blocked_since": NOW - 60_000,
    }  # fmt: skip
    return Finding(**(defaults | fields))


def live(**fields: Any) -> Finding:
    ends = {"transaction_start_timestamp": NOW, "transaction_timeout_ms": 600_000, "blocked_until": NOW + 600_000}
    return finding(
        **{"verdict": "not_hanging", "reason": "live", "coordinator_state": "Ongoing", "attention": None}
        | ends
        | fields
    )


def audit(*findings: Finding, **fields: Any) -> Audit:
    return Audit(as_of=NOW, read=READ, findings=findings, **fields)


def test_all_partitions_of_an_id_are_one_block_and_the_most_urgent_comes_first() -> None:
    findings = [live(partition=p, transactional_id="b", blocked_since=NOW - p) for p in (2, 1)]
    found = answer(audit(*findings, finding()), ORDERS, REACH)
    assert [(one.cause, one.transactional_id, len(one.waits)) for one in found.blockers] == [
        ("hanging", "pay", 1),
        ("live", "b", 2),
    ]
    assert found.blockers[1].until == NOW + 600_000
    assert (found.outcome.found, found.outcome.hanging, found.outcome.complete) == (True, 1, True)


def test_commands_carry_what_the_verdict_depended_on() -> None:
    hanging, alive = answer(audit(finding(), live(transactional_id="it's")), ORDERS, REACH).blockers
    options = "--bootstrap-server b:9092 --command-config my.properties --max-transaction-timeout 60"
    assert hanging.command == f"kafkawire txn abort {options} --topic orders --partition 0 --start-offset 17"
    assert alive.command == f"kafkawire txn force-terminate {options} --transactional-id 'it'\"'\"'s'"


def test_what_may_have_been_committed_has_no_command_to_abort_it() -> None:
    lost = finding(action="none before its marker in the other replica was looked at: where that is no COMMIT, abort")
    (blocker,) = answer(audit(lost), ORDERS, REACH).blockers
    assert (blocker.cause, blocker.command) == ("hanging", None)
    assert "its marker in another replica shows whether it was committed" in blocker.action


def test_what_passes_by_itself_is_no_finding_and_what_needs_attention_is() -> None:
    assert not answer(audit(live()), ORDERS, REACH).outcome.found
    assert answer(audit(live(attention="blocked")), ORDERS, REACH).outcome.found
    stuck = finding(verdict="not_hanging", reason="stuck_prepare", coordinator_state="PrepareCommit", attention="stuck")
    (blocker,) = answer(audit(stuck), ORDERS, REACH).blockers
    assert (blocker.cause, blocker.who) == ("stuck", "coordinator")
    assert "COMMIT is decided" in blocker.action
    assert "never abort" in blocker.action
    assert "abort --" not in (blocker.command or "")


def test_offset_of_a_group_waits_for_the_transaction_that_has_it() -> None:
    own = ("__consumer_offsets", 3)
    view = GroupView(
        group="g", partitions=frozenset({("orders", 0), ("orders", 1)}), own=own, held={7: frozenset({("orders", 1)})}
    )
    of_offsets = live(topic=own[0], partition=own[1])
    other = live(topic=own[0], partition=own[1], producer_id=8, transactional_id="other")
    elsewhere = live(topic="elsewhere", producer_id=9)
    found = answer(audit(of_offsets, other, elsewhere), Subject(group="g"), REACH, group=view)
    (blocker,) = found.blockers
    assert [(one.what, one.topic, one.partition, one.group) for one in blocker.waits] == [("offset", "orders", 1, "g")]
    unexplained = replace(view, held={}, unexplained=frozenset({("orders", 1)}), gaps=("not found",))
    found = answer(audit(), Subject(group="g"), REACH, group=unexplained)
    assert [(one.cause, one.command) for one in found.blockers] == [
        (
            "unstable_offset",
            "kafkawire why --bootstrap-server b:9092 --command-config my.properties --max-transaction-timeout 60 "
            "--topic __consumer_offsets --partition 3",
        )
    ]
    assert not found.outcome.complete


def test_partition_without_a_leader_and_one_that_is_not_read() -> None:
    lost = Unread(topic="orders", partition=1, reason="it has no leader")
    denied = Unread(topic="orders", partition=2, broker_id=4, reason="TOPIC_AUTHORIZATION_FAILED")
    gaps = replace(READ, complete=False, gaps=("orders-1 was not read: it has no leader",))
    found = answer(replace(audit(unread=(lost, denied)), read=gaps), ORDERS, REACH)
    assert [(one.cause, one.attention, one.who) for one in found.blockers] == [
        ("no_leader", "no_leader", "broker"),
        ("unreadable", None, "you"),
    ]
    assert (found.outcome.found, found.outcome.complete) == (True, False)


def test_damage_is_one_block_a_partition_and_of_the_subject_only() -> None:
    places = [
        DamageRow(file=f"/d/orders-0/{n}.log", topic="orders", partition=0, position=n, reason="crc") for n in (1, 2)
    ]
    other = DamageRow(file="/d/else-0/1.log", topic="else", partition=0, position=1, reason="crc")
    harmless = DamageRow(
        file="/d/orders-1/1.log", topic="orders", partition=1, position=1, reason="tail", harmless=True
    )
    found = answer(audit(damage=(*places, other, harmless)), ORDERS, REACH)
    assert [(one.cause, one.commands) for one in found.blockers] == [
        ("damage", ("kafkawire dump /d/orders-0/1.log", "kafkawire dump /d/orders-0/2.log"))
    ]
    assert answer(audit(damage=(other, harmless)), ORDERS, REACH).blockers == ()


def test_tier_that_lacks_a_segment() -> None:
    broken = Violation(
        check="tier_copy_finished", place="orders-0", what="a copy was begun", topic="orders", partition=0, offset=5
    )
    unrelated = Violation(check="lso", place="orders-0", what="another", topic="orders", partition=0)
    (blocker,) = answer(audit(violations=(broken, unrelated)), ORDERS, REACH).blockers
    assert (blocker.cause, blocker.waits[0].offset) == ("tier_lag", 5)


def test_nothing_blocks_only_where_all_premises_hold() -> None:
    assert nothing_blocks(answer(audit(), ORDERS, REACH))
    unmet = replace(READ, premises=(Premise(name="reach", holds=False, what="hidden", needs="a right"),))
    assert not nothing_blocks(answer(replace(audit(), read=unmet), ORDERS, REACH))
    gaps = replace(READ, complete=False, gaps=("something",))
    assert not nothing_blocks(answer(replace(audit(), read=gaps), ORDERS, REACH))
    assert not nothing_blocks(answer(audit(live()), ORDERS, REACH))


def test_cleaner_that_is_held_is_part_of_the_block() -> None:
    held = OffsetRange(start_offset=2, end_offset=900, records=890, bytes=11_800_000)
    impact = Impact(
        held=held, released=held, compaction=HeldCompaction(held_offset=2, bytes=11_500_000, freed_bytes=11_400_000)
    )
    (blocker,) = answer(
        audit(live(topic="__consumer_offsets", impact=impact)), Subject(topic="__consumer_offsets"), REACH
    ).blockers
    assert [one.what for one in blocker.waits] == ["records", "compaction"]
    text = " ".join(" ".join(block(blocker, 1, NOW)).split())
    assert "cleaner held at offset 2; 11.5 MB in closed segments, about 11.4 MB to free" in text


@pytest.mark.parametrize("length", [1, 30, 200])
@pytest.mark.parametrize("partitions", [1, 12])
def test_a_block_has_at_most_eight_lines_of_80_columns(length: int, partitions: int) -> None:
    name = "n" * length
    findings = [finding(partition=p, transactional_id=name) for p in range(partitions)]
    for one in answer(audit(*findings, live(transactional_id=f"{name}2")), ORDERS, REACH).blockers:
        lines = block(one, 1, NOW)
        assert len(lines) <= LINES
        assert all(len(line) <= WIDTH or length > 60 for line in lines)
        assert one.command is not None


def test_group_is_behind_by_what_it_can_read() -> None:
    def lag(partition: int, least: int, most: int, **fields: Any) -> Lag:
        count = LagCount(least=least, most=most, bytes_least=10, bytes_most=10, exact=least == most)
        return Lag(group="g", topic="orders", partition=partition, committed_offset=4, read_committed=count, **fields)

    view = GroupView(group="g", partitions=frozenset({("orders", 0), ("orders", 1)}))
    exact = answer(audit(), Subject(group="g"), REACH, group=view, lags=[lag(0, 3, 3, age_ms=60_000), lag(1, 2, 2)])
    assert list(behind(exact)) == [
        "The consumer is behind by 5 records (20 bytes) that it can read now, the oldest 1 min old, in 2 partitions."
    ]
    rough = answer(audit(), Subject(group="g"), REACH, group=view, lags=[lag(0, 3, 9), lag(1, 2, 2, lost_offsets=7)])
    assert list(behind(rough)) == [
        "The consumer is behind by 5 to 11 records that it can read now, in 2 partitions.",
        "orders-1: 7 offsets from 4 on are deleted, unread.",
    ]
    problem = answer(audit(), Subject(group="g"), REACH, group=view, lags=[lag(0, 3, 3, problems=("torn",))])
    assert problem.outcome.missing == ("orders-0: torn",)
    assert Wait(what="records", topic="t", partition=0).now


def test_of_an_id_only_its_own_partitions_block() -> None:
    """What is damaged or not read elsewhere keeps the answer from being complete, and blocks nothing."""
    subject = Subject(transactional_id="pay")
    gaps = replace(READ, complete=False, gaps=("two partitions were not read",))
    lost = tuple(Unread(topic=topic, partition=1, reason="it has no leader") for topic in ("orders", "else"))
    torn = DamageRow(file="/d/else-0/1.log", topic="else", partition=0, position=1, reason="crc")
    facts = replace(audit(live(), live(transactional_id="other"), unread=lost, damage=(torn,)), read=gaps)
    found = answer(facts, subject, REACH)
    assert [(one.cause, one.transactional_id) for one in found.blockers] == [("live", "pay")]
    assert not found.outcome.complete
    known = answer(facts, subject, REACH, places={("orders", 0), ("orders", 1)})
    assert [(one.cause, one.waits[0].topic) for one in known.blockers] == [("no_leader", "orders"), ("live", "orders")]

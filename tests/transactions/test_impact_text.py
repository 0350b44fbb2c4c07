"""The sentences about an impact, as the command line and the report print them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kafkawire.rows import Finding, GroupLag, HeldCompaction, Impact, OffsetRange, TransactionData, TransactionRecord
from kafkawire.transactions.impact.impact_text import sentences, shown_records

HELD = OffsetRange(start_offset=64, end_offset=4571, records=4500, bytes=1_234_567)
FINDING = Finding(
    verdict="hanging", reason="transaction_ended", topic="orders", partition=3, producer_id=1, producer_epoch=0,
    blocked=True,
)  # fmt: skip


def sentences_of(**fields: Any) -> list[str]:
    return sentences(replace(FINDING, impact=Impact(**{"held": HELD, "released": HELD, **fields})))


def test_no_impact_no_sentence() -> None:
    assert sentences(FINDING) == []


def test_says_what_is_held_back_and_what_an_abort_hides() -> None:
    shown = TransactionRecord(offset=64, timestamp=0, key="k", value_base64="/w==")
    data = TransactionData(first_offset=64, last_offset=70, records=3, bytes=300, shown=(shown,))
    assert sentences_of(data=data, retention="not_held") == [
        "Held back from read_committed consumers: 4507 offsets from 64 to 4570, 4500 records, 1.2 MB.",
        "An abort hides: 3 records, in offsets 64 to 70 (300 bytes).",
        "Retention is not held: it deletes old segments up to the high watermark, whether it was read or not.",
    ]


def test_records_are_apart() -> None:
    records = (
        TransactionRecord(offset=64, timestamp=0, key="k", value_base64="/w=="),
        TransactionRecord(offset=65, timestamp=0, value="v"),
    )
    data = TransactionData(records=2, shown=records)
    found = replace(FINDING, impact=Impact(held=HELD, released=HELD, data=data))
    assert list(shown_records(found)) == ["Record 64: key k, value base64 /w==", "Record 65: key None, value v"]
    assert not any("Record" in text for text in sentences(found))
    assert list(shown_records(FINDING)) == []


def test_an_estimate_is_marked() -> None:
    data = TransactionData(first_offset=64, last_offset=64, records=1, bytes=80, estimated=True)
    held = replace(HELD, estimated=True)
    assert sentences_of(held=held, released=held, data=data) == [
        "Held back from read_committed consumers: 4507 offsets from 64 to 4570, about 4500 records, about 1.2 MB "
        "(estimated).",
        "An abort hides: at least 1 record, in offsets 64 to 64 (80 bytes).",
    ]


def test_another_open_transaction_limits_what_is_released() -> None:
    first = replace(HELD, end_offset=65, records=1, bytes=80)
    assert sentences_of(released=first)[1] == (
        "Ending it alone releases 1 offset from 64 to 64, 1 record, 80 bytes: the next open transaction begins there."
    )
    nothing = replace(HELD, end_offset=64, records=0, bytes=0)
    assert sentences_of(released=nothing)[1] == "Ending it alone releases nothing: an earlier transaction is open."


def test_names_the_groups_that_wait_first() -> None:
    waits = GroupLag(group="shipments", committed_offset=64, waits=True, committed_lag=0, lag=4507)
    comes = GroupLag(group="billing", committed_offset=60, waits=False, committed_lag=4, lag=4511)
    assert sentences_of(groups=(waits, comes))[1:] == [
        "Groups that are at the last stable offset, and wait if they read committed: 'shipments' (4507 offsets behind "
        "the log).",
        "Groups that are coming to it: 'billing' (4 before it).",
    ]
    assert sentences_of(groups=())[1:] == ["No group with committed offsets waits there."]


def test_names_how_far_compaction_is_held_and_what_is_not_known() -> None:
    held = HeldCompaction(cleaned_offset=60, held_offset=64, bytes=2_000_000, freed_bytes=1_500_000)
    assert sentences_of(compaction=held, retention="held", unknown=("the weather",))[1:] == [
        "Compaction is held at offset 64 (it has come to 60); 2.0 MB behind are in closed segments, of which it would "
        "free about 1.5 MB (estimated).",
        "Retention of local segments is held: tiered storage copies none beyond the last stable offset, and only what "
        "is copied is deleted.",
        "Not known: the weather.",
    ]

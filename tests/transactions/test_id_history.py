"""One partition of `__transaction_state`, read once: what ids use and have decided, and whether anything is missing."""

from __future__ import annotations

from typing import Any

from kafkawire.testing.coordinator_machine import TransactionMetadata
from kafkawire.transactions.auditing.id_history import PlainIdHistory
from kafkawire.transactions.checks.check_names import ID_CHECKS
from kafkawire.transactions.coordinator.coordinator_log import IdFacts, UnreadableRecord
from kafkawire.transactions.coordinator.id_columns import columns_of
from kafkawire.transactions.facts import Place, ProducerIdUse, Registration

PLACE = Place("logs", "__transaction_state", 0)


def record(offset: int, name: str, state: str | None, epoch: int = 0, **more: Any) -> Registration:
    given: dict[str, Any] = {"producer_id": 7, "timeout_ms": 1, "started": offset, "updated": offset} | more
    value = None if state is None else TransactionMetadata(epoch=epoch, state=state, **given).record()
    return Registration(place=PLACE, offset=offset, timestamp=1000 + offset, transactional_id=name, value=value)


def history(*found: Registration | UnreadableRecord) -> IdFacts:
    plain = PlainIdHistory(PLACE)
    for one in found:
        plain.take(one if isinstance(one, UnreadableRecord) else columns_of(one))
    return plain.facts()


PART = frozenset({("orders", 0)})
COMMITTED = [
    record(0, "a", "Empty", started=-1),
    record(1, "a", "Ongoing", started=1, partitions=PART),
    record(2, "a", "PrepareCommit", started=1, partitions=PART),
    record(3, "a", "CompleteCommit", started=1),
]


def test_reduces_the_records_of_a_transaction() -> None:
    found = history(*COMMITTED)
    assert (found.settled, found.intact, found.unreadable) == (1, True, None)
    assert found.uses == (ProducerIdUse(PLACE, 7, "a", 0, 1000),)
    assert found.prepared == ()
    assert [(one.offset, one.outcome, one.until) for one in found.decisions] == [(2, "COMMIT", 1003)]
    owner = found.owners.get(7)
    assert owner is not None
    assert (owner.newest.offset, owner.current) == (3, True)
    assert {answer.check for answer in found.answers} == set(ID_CHECKS)
    assert not any(answer.violated for answer in found.answers)


def test_lists_ids_in_a_prepare_state() -> None:
    found = history(*COMMITTED[:3], record(3, "b", "PrepareAbort", producer_id=8), record(4, "b", None))
    assert ([one.transactional_id for one in found.prepared], found.settled) == (["a"], 0)


def test_an_expired_id_is_not_counted_and_keeps_its_producer_id() -> None:
    found = history(*COMMITTED, record(4, "a", None), record(5, "a", "Empty", producer_id=9))
    assert found.settled == 1
    assert [(use.producer_id, use.offset) for use in found.uses] == [(7, 0), (9, 5)]
    assert history(*COMMITTED, record(4, "a", None)).settled == 0


def test_an_unreadable_record_counts_as_missing() -> None:
    found = history(*COMMITTED, UnreadableRecord(4, "bytes that are none"))
    assert (found.intact, found.unreadable) == (False, UnreadableRecord(4, "bytes that are none"))


def test_missing_first_records_make_the_log_incomplete() -> None:
    assert not history(*COMMITTED[1:]).intact


def test_reports_a_broken_rule() -> None:
    found = history(*COMMITTED[:2], record(2, "a", "CompleteCommit", started=1))
    assert [answer.check for answer in found.answers if answer.violated] == ["legal_transition"]

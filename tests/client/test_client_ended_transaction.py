"""How a transaction ended that is not open any more."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.client.diagnosis import ended_transaction
from kafkawire.client.diagnosis.ended_transaction import EndedTransaction, how_it_ended
from kafkawire.messages import FetchRequest
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker
from kafkawire.transactions.verdict.abort_rules import TransactionSpec
from tests.client.answers import admin, run
from tests.client.partition_script import END, START, PartitionBroker

LENGTH = len(PartitionBroker().log.read(START))  # of the one batch of data


def marker(producer_id: int = 7, epoch: int = 3) -> WritableTxnMarker:
    return WritableTxnMarker(producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=5)


def ask(broker: PartitionBroker, *questions: dict[str, Any]) -> list[EndedTransaction | None]:
    """What became of each transaction that is named."""
    found: list[EndedTransaction | None] = []

    async def scenario() -> None:
        async with broker.running(), admin(broker.address) as client:
            for named in questions:
                found.append(await how_it_ended(client.cluster, TransactionSpec(topic="orders", partition=0, **named)))

    run(scenario)
    return found


@pytest.mark.parametrize("name", ["ABORT", "COMMIT"])
def test_the_first_marker_behind_the_start_has_ended_it(name: str) -> None:
    broker = PartitionBroker()
    broker.log.append_marker(marker(8), "COMMIT")
    broker.log.append_marker(marker(), name)
    broker.log.append_marker(marker(), "COMMIT")
    (done,) = ask(broker, {"start_offset": START})
    assert done is not None
    assert (done.marker, done.marker_offset, done.start_offset) == (name, END + 1, START)
    assert (done.producer_id, done.producer_epoch, done.coordinator_epoch) == (7, 3, 5)
    assert (done.last_stable_offset, done.high_watermark) == (END + 3, END + 3)


def test_a_marker_of_another_that_cannot_be_read_is_passed() -> None:
    broker = PartitionBroker()
    broker.log.append_unreadable_marker()
    broker.log.append_marker(marker())
    found, other = ask(broker, {"start_offset": START}, {"start_offset": END})
    assert found is not None
    assert (found.marker, found.marker_offset) == ("ABORT", END + 1)
    assert other is None


def test_a_marker_far_behind_the_start_is_found_by_the_time_of_its_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without reading all that was written in between."""
    broker = PartitionBroker()
    broker.log.append_marker(marker())
    monkeypatch.setattr(ended_transaction, "_NEAR", 1)
    read = broker.log.read
    monkeypatch.setattr(broker.log, "read", lambda offset: read(offset)[: LENGTH if offset == START else None])
    (done,) = ask(broker, {"start_offset": START})
    assert done is not None
    assert (done.marker, done.marker_offset) == ("ABORT", END)
    fetches = [one for one in broker.requests if isinstance(one, FetchRequest)]
    assert [one.topics[0].partitions[0].fetch_offset for one in fetches] == [START, START, END]


def test_named_by_its_producer_the_epoch_has_to_be_the_same() -> None:
    broker = PartitionBroker()
    broker.log.append_marker(marker())
    each = [
        {"producer_id": i, "producer_epoch": epoch, "coordinator_epoch": 5} for i, epoch in ((7, 3), (7, 2), (9, 3))
    ]
    found, *others = ask(broker, *each)
    assert found is not None
    assert (found.marker_offset, found.start_offset) == (END, None)
    assert others == [None, None]


def test_what_is_open_or_no_transaction_has_not_ended() -> None:
    assert ask(PartitionBroker(), {"start_offset": START}, {"start_offset": END}) == [None, None]
    broker = PartitionBroker()
    broker.log.append_marker(marker())
    inside, itself, behind = ({"start_offset": offset} for offset in (START + 1, END, END + 1))
    assert ask(broker, inside, itself, behind) == [None, None, None]

"""`bounded_repr`: messages as text, however large they are."""

from __future__ import annotations

from kafkawire.messages import MetadataResponse, ProduceRequest, ProducerSnapshot
from kafkawire.wire.bounded_repr import LIMIT, VALUE_LIMIT, bounded_repr

Broker = MetadataResponse.MetadataResponseBroker


def test_short_messages_are_source_text() -> None:
    value = MetadataResponse(brokers=(Broker(node_id=1, host="a\n"),), controller_id=7)
    assert repr(value) == "MetadataResponse(brokers=(MetadataResponseBroker(node_id=1, host='a\\n'),), controller_id=7)"


def test_defaults_are_left_out_by_value() -> None:
    text = "orders" * 200
    cut = ProduceRequest(transactional_id=text[:6], timeout_ms=int("0"))
    assert repr(cut) == "ProduceRequest(transactional_id='orders')"


def test_long_values_are_cut_and_counted() -> None:
    data = ProduceRequest.PartitionProduceData(records=b"x" * 10_000_000)
    assert repr(data) == f"PartitionProduceData(records={b'x' * VALUE_LIMIT!r}... 9999000 more)"
    view = ProduceRequest.PartitionProduceData(records=memoryview(b"xyz"))  # type: ignore[arg-type]
    assert repr(view) == "PartitionProduceData(records=memoryview(b'xyz'))"
    topic = ProduceRequest.TopicProduceData(name="é" * 2000)
    assert repr(topic) == f"TopicProduceData(name='{'é' * VALUE_LIMIT}'... 1000 more)"


def test_a_message_of_many_megabytes_has_a_short_text() -> None:
    large = MetadataResponse(brokers=tuple(Broker(node_id=number, host="host" * 20) for number in range(100_000)))
    assert len(large.encode(9)) > 8_000_000
    text = repr(large)
    assert len(text) < LIMIT + 200
    assert text.endswith(" more))")
    numbers = ProducerSnapshot(producer_entries=(ProducerSnapshot.ProducerEntry(),) * 1_000_000)
    assert len(bounded_repr(numbers)) < LIMIT + 200


def test_fields_behind_the_limit_are_left_out() -> None:
    value = MetadataResponse(brokers=tuple(Broker(host="h" * 900) for _ in range(100)), cluster_id="c", controller_id=3)
    assert repr(value).endswith(" more), ...)")

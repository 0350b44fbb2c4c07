"""`bounded_repr` and `indented_repr`: messages as text, however large they are."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given, settings

from kafkawire.messages import HeartbeatRequest, MetadataResponse, ProduceRequest, ProducerSnapshot, metadata_response
from kafkawire.testing.comparison import same
from kafkawire.testing.strategies import messages
from kafkawire.wire.bounded_repr import LIMIT, VALUE_LIMIT, bounded_repr, indented_repr
from kafkawire.wire.values import TaggedField

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


# In lines, for IPython and Jupyter ------------------------------------------------------------------------------------


class Printer:
    """What IPython gives to `_repr_pretty_`, as far as it is used."""

    def __init__(self) -> None:
        self.shown = ""

    def text(self, text: str) -> None:
        self.shown += text


def pretty(value: Any) -> str:
    printer = Printer()
    value._repr_pretty_(printer, False)
    return printer.shown


def test_nested_messages_have_a_field_and_an_element_a_line() -> None:
    part = MetadataResponse.MetadataResponsePartition
    topic = MetadataResponse.MetadataResponseTopic(
        name="orders\x1b[2J", partitions=tuple(part(partition_index=number, leader_id=1) for number in range(3))
    )
    value = MetadataResponse(brokers=(Broker(node_id=1, host="a"),), topics=(topic,), controller_id=1)
    assert (
        pretty(value)
        == """\
MetadataResponse(
    brokers=(MetadataResponseBroker(node_id=1, host='a'),),
    controller_id=1,
    topics=(
        MetadataResponseTopic(
            name='orders\\x1b[2J',
            partitions=(
                MetadataResponsePartition(leader_id=1),
                MetadataResponsePartition(partition_index=1, leader_id=1),
                MetadataResponsePartition(partition_index=2, leader_id=1),
            ),
        ),
    ),
)"""
    )
    assert pretty(HeartbeatRequest(group_id="g")) == "HeartbeatRequest(group_id='g')"


@settings(max_examples=50)
@given(messages(MetadataResponse, 9))
def test_lines_are_source_text_where_nothing_is_cut(value: MetadataResponse) -> None:
    text = indented_repr(value)
    if " more" not in text:
        assert same(eval(text, {**vars(metadata_response), "TaggedField": TaggedField, "UUID": UUID}), value)


def test_lines_of_a_large_message_are_few() -> None:
    large = MetadataResponse(brokers=tuple(Broker(node_id=number, host="host" * 20) for number in range(100_000)))
    text = indented_repr(large)
    assert len(text) < LIMIT + 500
    assert "more" in text.splitlines()[-3]
    data = ProduceRequest.PartitionProduceData(records=b"x" * 10_000_000)
    assert len(indented_repr(data)) < VALUE_LIMIT + 200
    numbers = ProducerSnapshot(producer_entries=(ProducerSnapshot.ProducerEntry(),) * 1_000_000)
    assert len(indented_repr(numbers)) < LIMIT + 500

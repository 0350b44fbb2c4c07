"""The topics, transactional ids and producer ids that messages name."""

from __future__ import annotations

from kafkawire import records
from kafkawire.capture import NamedEntities
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    ProduceRequest,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker
from tests.capture.wiretap import produce


def test_adds_entities_of_the_version_only() -> None:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="t", producer_id=5, topics=(AddPartitionsToTxnTopic(name="orders", partitions=(0,)),)
    )
    found = NamedEntities().add(AddPartitionsToTxnRequest(transactions=(transaction,)), 5)
    # Producer id 0 is the default of V3AndBelowProducerId.
    assert (found.topics, found.transactional_ids, found.producer_ids) == ({"orders"}, {"t"}, {5})
    batch = records.build([records.Record(b"k", b"v")], producer_id=9, producer_epoch=0, base_sequence=0)
    assert NamedEntities().add(produce(-1, batch + b"garbage"), 9).producer_ids == {9}
    assert NamedEntities().add(WriteTxnMarkersRequest(markers=(WritableTxnMarker(producer_id=3),)), 1).producer_ids == {
        3
    }
    assert NamedEntities().add(ApiVersionsRequest(), 3) == NamedEntities()


def test_accepts_a_partition_without_records() -> None:
    topic = TopicProduceData(name="t", partition_data=(PartitionProduceData(records=None),))
    assert NamedEntities().add(ProduceRequest(topic_data=(topic,)), 9).topics == {"t"}

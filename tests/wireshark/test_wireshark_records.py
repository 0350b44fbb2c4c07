"""Records of internal topics, and control records, in the tree."""

from __future__ import annotations

from pathlib import Path

from kafkawire import records
from kafkawire.messages import ProduceRequest, TransactionLogKey, TransactionLogValue
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from tests.capture.wiretap import Talk, ethernet, pcap
from tests.wireshark import tshark


@tshark.needs_tshark
def test_a_coordinators_record(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    key = TransactionLogKey(transactional_id="orders-service").encode_prefixed(version=0)
    value = TransactionLogValue(producer_id=7, producer_epoch=1, transaction_status=2).encode_prefixed(version=1)
    record = records.Record(key, value, (records.Header("h\0", None),), timestamp=-5_000_000_000_000_000)
    partition = PartitionProduceData(index=0, records=records.build([record]))
    topic = TopicProduceData(name="__transaction_state", partition_data=(partition,))
    talk = Talk().request(ProduceRequest(acks=-1, topic_data=(topic,)), version=9, correlation_id=1)
    path = tmp_path / "state.pcap"
    path.write_bytes(pcap(map(ethernet, talk.packets)))
    shown = tshark.run(plugin, path, "-V", "-O", "kafkawire", "-Y", "kafkawire.transaction_log_value.producer_id == 7")
    assert "TransactionalId: orders-service" in shown
    assert "TransactionStatus: PrepareCommit (2)" in shown
    assert "Timestamp: -5000000000000000\n" in shown
    assert "Malformed" not in shown

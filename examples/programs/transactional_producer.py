"""A transaction by requests alone: python transactional_producer.py HOST:PORT TOPIC VALUE..."""

import asyncio
import sys
import time

from kafkawire import records
from kafkawire.client import Cluster, Config
from kafkawire.messages import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest


async def produce(cluster: Cluster, transactional_id: str, topic: str, values: list[bytes]) -> None:
    """Writes the values to partition 0 of the topic in one transaction, and commits it."""
    mine = {"transactional_id": transactional_id}
    begun = await cluster.ask(
        InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), **mine
    )
    assert not begun.error_code, begun
    place = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=(0,))
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=(place,),
    )
    await cluster.ask(added, **mine, at_most=3)
    batch = records.build(
        [records.Record(value=value) for value in values],
        timestamp=time.time_ns() // 1_000_000,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    data = ProduceRequest.TopicProduceData(
        name=topic, partition_data=(ProduceRequest.PartitionProduceData(records=batch),)
    )
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=(data,))
    written = await cluster.ask(request, topic=topic, partition=0, at_most=11)
    assert not written.responses[0].partition_responses[0].error_code, written
    ended = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        committed=True,
    )
    assert not (await cluster.ask(ended, **mine, at_most=4)).error_code


async def main(bootstrap: str, topic: str, *values: str) -> None:
    async with Cluster(Config.of(bootstrap)) as cluster:
        await produce(cluster, "example", topic, [value.encode() for value in values])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""Batches as client libraries build them, of every magic and codec that a library has.

`NAME.json.gz` of each library has them in base64. kafka-python and aiokafka are asked for batches by their builders;
librdkafka sends them to a broker in memory, which keeps the bytes of the Produce requests.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

from kafkawire import messages, versions
from kafkawire.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kafkawire.testing import MockBroker

from . import run
from .client_captures.environments import Commands, python

NAME = "client-batches"
#: What commands end with where they are given no broker, no topic and no records.
_NO_WORDS = ("", "", "0")
#: The highest version of Produce and Fetch of a broker to which librdkafka sends batches of a magic.
_OFFERED = {0: 1, 1: 2, 2: None}
_LIMITED = (messages.ProduceRequest.spec.api_key or 0, messages.FetchRequest.spec.api_key or 0)
_CODECS = ("python-snappy", "lz4", "xxhash", "zstandard")

BUILDERS = {
    "kafka-python-1.4.7": python("batches.py", "kafka-python==1.4.7", *_CODECS),
    "kafka-python-2.2.15": python("batches.py", "kafka-python==2.2.15", *_CODECS),
    "kafka-python-3.0.12": python("batches.py", "kafka-python==3.0.12", *_CODECS),
    "aiokafka-0.14.0": python("batches.py"),
}
SENDERS = {
    "librdkafka-2.0.2": python("batches.py", "confluent-kafka==2.0.2"),
    "librdkafka-2.16.1": python("batches.py"),
}


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes the file of each library in `folder`."""
    for name, commands in BUILDERS.items():
        _write(folder, name, _output(name, commands, name.rpartition("-")[0]).split())
    for name, commands in SENDERS.items():
        _write(folder, name, _sent(name, commands))


def _write(folder: Path, name: str, batches: list[str]) -> None:
    (folder / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(batches).encode(), mtime=0))


def _output(name: str, commands: Commands, *words: str) -> str:
    (command,) = commands("", "", 0)
    return run([*command[: -len(_NO_WORDS)], *words], name)


def _sent(name: str, commands: Commands) -> list[str]:
    """What a library sends in Produce requests, of any version."""
    found: list[str] = []
    with MockBroker(topics={"batches": 1}) as broker:

        def metadata(request: messages.MetadataRequest) -> messages.MetadataResponse:
            host, port = broker.address.split(":")
            node = MetadataResponseBroker(node_id=0, host=host, port=int(port))
            partition = MetadataResponsePartition(leader_id=0, replica_nodes=(0,), isr_nodes=(0,))
            topic = MetadataResponseTopic(name="batches", partitions=(partition,))
            return messages.MetadataResponse(brokers=(node,), controller_id=0, topics=(topic,))

        def produce(request: messages.ProduceRequest) -> messages.ProduceResponse:
            for topic in request.topic_data:
                for partition in topic.partition_data:
                    found.append(base64.b64encode(bytes(partition.records or b"")).decode())
            answered = PartitionProduceResponse(index=0, base_offset=len(found) * 1000)
            return messages.ProduceResponse(
                responses=(TopicProduceResponse(name="batches", partition_responses=(answered,)),)
            )

        def api_versions(_: messages.ApiVersionsRequest) -> messages.ApiVersionsResponse:
            return versions.to_response(broker.versions | limited)

        limited: dict[int, range] = {}
        broker.on(messages.ApiVersionsRequest, api_versions)
        broker.on(messages.MetadataRequest, metadata)
        broker.on(messages.ProduceRequest, produce)
        for magic, highest in _OFFERED.items():
            limited = {} if highest is None else dict.fromkeys(_LIMITED, range(highest + 1))
            _output(name, commands, "librdkafka", broker.address, str(magic))
    return found

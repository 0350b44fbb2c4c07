"""Examples of messages for the reference: from the capture and the log directories in `examples/`, which brokers wrote.

Messages that do not occur there have an example with every field at its default.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kafkawire import capture, logdir
from kafkawire.codegen.reference import Example
from kafkawire.records import internal_topics
from kafkawire.wire.json_form import to_json
from kafkawire.wire.message import Message

CAPTURE = Path("examples/capture/transactions.pcap")
LOGS = Path("examples/kafka-logs/one-node")
#: Bytes of an example that a reader follows to its end; of those the largest is taken.
READABLE = 200


def recorded(root: Path) -> dict[str, Example]:
    """Name of a message -> its best example: of the newest version, and of those the largest readable one."""
    best: dict[str, tuple[tuple[int, bool, int], Example]] = {}
    for message, version, origin in (*_exchanged(root), *_stored(root)):
        data = message.encode(version)
        rank = version, len(data) <= READABLE, len(data) if len(data) <= READABLE else -len(data)
        if message.spec.name not in best or best[message.spec.name][0] < rank:
            best[message.spec.name] = rank, Example(version, data, to_json(message, version), origin)
    return {name: example for name, (_, example) in best.items()}


def _exchanged(root: Path) -> Iterator[tuple[Message, int, str]]:
    for exchange in capture.read(root / CAPTURE, keep=True).matched():
        row = exchange.row
        for message, packet in ((exchange.request, row.packet), (exchange.response, row.response_packet)):
            if message is not None and exchange.version in message.spec.valid_versions:
                yield message, exchange.version, f"From packet {packet} of {CAPTURE.as_posix()}."


def _stored(root: Path) -> Iterator[tuple[Message, int, str]]:
    for partition in logdir.open(str(root / LOGS)).partitions:
        for batch in partition:
            for record in batch.records if partition.topic in internal_topics.INTERNAL_TOPICS else ():
                key, value = record.key, record.value
                found = (
                    internal_topics.decode_key(partition.topic, key),
                    internal_topics.decode_value(partition.topic, key, value),
                )
                for part in found:
                    if part is not None and part.message is not None and not part.secret:
                        where = f"{partition.topic}-{partition.partition}, offset {record.offset}, in {LOGS.as_posix()}"
                        yield part.message, part.version or 0, f"From {where}."

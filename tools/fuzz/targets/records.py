"""Record batches, control records, and the keys and values of the internal topics."""

from __future__ import annotations

import random
from collections.abc import Iterator

from kafkawire import records
from kafkawire.cli.formatting import json_bytes
from kafkawire.messages import REGISTRY
from kafkawire.records import CODECS, Control, Header, Record
from kafkawire.records.control import control_of
from kafkawire.records.internal_topics import (
    COORDINATOR_TOPICS,
    FRAMED_TOPICS,
    INTERNAL_TOPICS,
    decode_key,
    decode_value,
    decoded,
)
from kafkawire.wire.write import uvarint
from tools.fuzz import inputs, seed_vectors
from tools.fuzz.target import FuzzTarget
from tools.recordings.archive import unpacked

_MAX_BYTES = 1 << 20


def check_records(data: bytes) -> None:
    """Checksums count in one run of two."""
    from tests.records.test_records_columns import agree

    agree(data, check_crc=False, max_batch_bytes=_MAX_BYTES)
    agree(data, max_batch_bytes=_MAX_BYTES)


def batches() -> Iterator[bytes]:
    """Batches of every codec, markers, an empty one, and bytes that are none."""
    rng = random.Random(1)
    listed = [Record(b"key", b"value" * 3, (Header("h", b"x"),), timestamp=1), Record(None, None)]
    for codec in CODECS:
        built = records.build(listed, codec=codec)
        yield built
        yield built + records.build(listed[1:], base_offset=2, codec=codec)
    yield records.build_marker("ABORT", offset=1, timestamp=2, coordinator_epoch=5, producer_id=3, producer_epoch=4)
    yield records.build(
        [], base_offset=4, last_offset=6, producer_id=3, producer_epoch=4, transactional=True, control=True
    )
    yield records.build([Record(rng.randbytes(70), rng.randbytes(200))])
    yield bytes(100)


def message_sets() -> Iterator[bytes]:
    """The first messages of segments of magic 0 and 1, which brokers of 2.8 wrote."""
    for path in sorted(unpacked("kafka-2.8.2").glob("data/*/*.log")):
        data = path.read_bytes()
        if data:
            yield data[: 12 + int.from_bytes(data[8:12], "big")][:1024]


def _records() -> Iterator[bytes]:
    yield from batches()
    yield from message_sets()


# Internal topics ------------------------------------------------------------------------------------------------------

_TOPICS = sorted(INTERNAL_TOPICS)


def check_internal(data: bytes) -> None:
    """Parts: which topic (by its first byte), key, value; a part that is not there is null."""
    topic, key, value = _three(data)
    found = decoded(topic, key, value)
    assert json_bytes(found)
    assert json_bytes(decoded(topic, key, value, show_secrets=True))
    for part, raw in ((decode_key(topic, key), key), (decode_value(topic, key, value), value)):
        assert part is None or (part.message is None) == (part.problem is not None), part
        if part is not None and part.message is not None:
            assert raw is not None
            assert part.name
    control = control_of(Record(key, value))
    assert isinstance(control, Control)
    assert control.type is not None or control.problem


def _three(data: bytes) -> tuple[str, bytes | None, bytes | None]:
    parts: list[bytes | None] = list(inputs.parts_of(data, 3))
    parts += [None] * (3 - len(parts))
    return inputs.pick(_TOPICS, parts[0] or b""), parts[1], parts[2]


def _internal() -> Iterator[bytes]:
    topic_of = {family: topic for topic, family in (COORDINATOR_TOPICS | FRAMED_TOPICS).items()}
    for name, version, data, _ in seed_vectors.messages(200):
        entry = REGISTRY.entry(name)
        topic = topic_of.get(entry.family)
        if topic is None or entry.api_key is None:
            continue
        number = bytes([_TOPICS.index(topic)])
        key = entry.api_key.to_bytes(2, "big")
        if topic in FRAMED_TOPICS:
            yield inputs.joined([number, b"", uvarint(1) + uvarint(entry.api_key) + uvarint(version) + data])
        elif entry.kind == "coordinator-key":
            yield inputs.joined([number, key + data])
        else:
            yield inputs.joined([number, key, version.to_bytes(2, "big") + data])
    for kind in range(8):
        yield inputs.joined([b"\0", b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\5"])


# ----------------------------------------------------------------------------------------------------------------------

TARGETS = (
    FuzzTarget(
        name="records",
        reads="record batches and message sets, checksums right or not: objects, columns of objects, native engine",
        holds="every engine gives the same headers, records, damage and places",
        check=check_records,
        seeds=_records,
    ),
    FuzzTarget(
        name="internal",
        reads="keys and values of internal topics, and control records",
        holds="nothing is raised: a message, or a sentence with the problem; both are JSON",
        check=check_internal,
        seeds=_internal,
        form=inputs.PARTS,
    ),
)

"""Sound batches: of Kafka's Java, of client libraries, and of recorded logs and captures."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from kafkawire import capture
from kafkawire.records import CODECS, Batch, Header, Record, read
from tools.conformance.batches.describing import COMBINATIONS, STATES, for_magic, question
from tools.oracle import Oracle
from tools.recordings.archive import ARCHIVES, SUFFIX, unpacked
from tools.recordings.client_batches import NAME as CLIENT_BATCHES

#: Kinds of sources, as the page names them.
JAVA, RECORDED_LOGS, RECORDED_CAPTURES = "Kafka's Java", "recorded logs", "recorded Produce requests"

_TEXTS = ("", "a", "orders", "x" * 63, "x" * 64, "é" * 40, "𝄞", "\0")
_TIMES = (-1, 0, 1, 1_700_000_000_000, 1 << 62)


class Sound(NamedTuple):
    """A batch, and who wrote it."""

    source: str
    data: bytes


def by_java(oracle: Oracle, rounds: int) -> Iterator[Sound]:
    """Batches that Kafka's Java writes: every magic, codec and state of a header, `rounds` of each."""
    questions = []
    for seed in range(rounds):
        for magic, codec, state in COMBINATIONS:
            random = Random(f"batch {magic} {codec} {state} {seed}")
            base_offset = random.choice((0, 20, 1 << 40)) if magic == 2 else random.choice((0, 20, 1 << 30))
            listed = _records(random, magic, base_offset)
            if magic < 2 and codec == "none":
                listed = listed[:1]  # each message is a batch
            options = STATES[state] | {"last_offset": base_offset + 400} if state == "shortened" else STATES[state]
            questions.append(
                question(
                    for_magic(magic, listed), {"magic": magic, "codec": codec, "base_offset": base_offset} | options
                )
            )
    for answer in oracle.ask(questions):
        if "bytes" not in answer:
            raise ValueError(f"Java does not write a batch: {answer}")
        yield Sound(JAVA, bytes.fromhex(answer["bytes"]))


def _records(random: Random, magic: int, base_offset: int) -> list[Record]:
    """Up to 70 records with nulls, gaps between their offsets, and times that are far apart."""
    count = random.choice((1, 1, 2, 3, 5, 70))
    far = random.random() < 0.1
    made = []
    offset = base_offset
    for _ in range(count):
        time = random.choice(_TIMES) if far and magic == 2 else 1_700_000_000_000 + random.randrange(1 << 16)
        headers = tuple(Header(random.choice(_TEXTS), _bytes(random)) for _ in range(random.choice((0, 0, 1, 3))))
        made.append(Record(_bytes(random), _bytes(random), headers, offset, time))
        offset += 1 if random.random() < 0.9 else random.randrange(1, 5)
    return made


def _bytes(random: Random) -> bytes | None:
    size = random.choice((None, 0, 1, 20, 20, 63, 64, 300))
    if size is None:
        return None
    return random.randbytes(size) if random.random() < 0.3 else (b"a value, much alike " * (size // 20 + 1))[:size]


def recorded_logs() -> Iterator[Sound]:
    """Each batch once that brokers of 2.8, 3.9 and 4.4 keep: of librdkafka, kafka-python and Java clients, of all
    magics and codecs, and what brokers and compaction wrote."""
    seen: set[bytes] = set()
    for archive in sorted(ARCHIVES.glob(f"*{SUFFIX}")):
        for log in sorted(unpacked(archive.name.removesuffix(SUFFIX)).rglob("*.log")):
            for item in read(log.read_bytes()):
                if isinstance(item, Batch) and (data := bytes(item.data)) not in seen:
                    seen.add(data)
                    yield Sound(RECORDED_LOGS, data)


def recorded_captures() -> Iterator[Sound]:
    """The batches of Produce requests in captures of 15 clients."""
    for path in sorted(unpacked("client-captures").glob("*.pcap")):
        for exchange in capture.read(path, body=True):
            if exchange.api == "Produce":
                yield from (Sound(RECORDED_CAPTURES, data) for data in _produced(exchange.request or {}))


def _produced(request: dict[str, Any]) -> Iterator[bytes]:
    for topic in request.get("topicData", []):
        for partition in topic["partitionData"]:
            yield from _batches(base64.b64decode(partition["records"] or ""))


def _batches(data: bytes) -> Iterator[bytes]:
    for item in read(data, check_offsets=False):
        if not isinstance(item, Batch):
            raise ValueError(f"a client wrote {item}")
        yield bytes(item.data)


def by_libraries() -> Iterator[Sound]:
    """What librdkafka, kafka-python and aiokafka wrote, of each magic and codec that they have (recorded)."""
    for path in sorted(unpacked(CLIENT_BATCHES).glob("*.json.gz")):
        for records in json.loads(gzip.decompress(path.read_bytes())):
            for data in _batches(base64.b64decode(records)):
                yield Sound(path.name.removesuffix(".json.gz"), data)


def kind_of(data: bytes) -> tuple[int, str]:
    """The magic and the codec of a sound batch."""
    magic = data[16]
    return magic, CODECS[data[22 if magic == 2 else 17] & 7]

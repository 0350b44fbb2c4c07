"""Changed bytes: what Kafka's classes accept, we accept and read alike, but for a few differences that are meant."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections import Counter
from typing import Any

import crc32c

from kafkawire.records import build
from tests.records.java_batches import COMBINATIONS, RECORDS, STATES, for_magic, java_one, read_one
from tools.oracle import Oracle

MUTATIONS = 3000

#: Why we refuse what Java reads.
REFUSED = {
    "bad_header": "offsets below 0, or so high or so far apart that they overflow",
    "expected a whole message, found": "Java drops the rest of a wrapper after a message that is cut off",
    "compressed with": "bytes behind the last chunk of snappy, which Java does not look at",
    "expected a message of magic 0 or 1": "Java takes any magic in a wrapper for 1",
}


def with_checksum(data: bytearray) -> bytes:
    if len(data) > 61 and data[16] == 2:
        data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    elif len(data) > 17 and data[16] < 2:
        data[12:16] = zlib.crc32(bytes(data[16:])).to_bytes(4, "big")
    return bytes(data)


def mutated(data: bytearray, chance: random.Random) -> bytes:
    kind = chance.random()
    if kind < 0.1:
        del data[chance.randrange(len(data)) :]
    elif kind < 0.2:
        place = chance.randrange(len(data))
        data[place:place] = chance.randbytes(chance.randint(1, 4))
        struct.pack_into(">i", data, 8, len(data) - 12)
    else:
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(data))
            flipped = data[place] ^ (1 << chance.randrange(8))
            data[place] = chance.choice([flipped, chance.randrange(256), 0, 1, 127, 128, 255])
    return with_checksum(data) if chance.random() < 0.85 else bytes(data)


def comparable(batch: dict[str, Any]) -> dict[str, Any]:
    """What must be alike when both read a batch."""
    batch = dict(batch)
    base_offset = batch["base_offset"]
    if batch["base_sequence"] < 0:
        del batch["last_sequence"]  # Java counts on from any negative number but -1
    if batch["magic"] < 2 and batch["codec"] != "none":
        # A wrapper's offset is under no checksum, those of magic 0 in it are: we believe these, Java the wrapper's.
        del batch["last_offset"], batch["base_offset"]
    for record in batch["records"]:
        if batch["magic"] == 2 and record["offset"] < base_offset:
            del record["sequence"]  # Java's sum overflows
        for header in record["headers"]:  # Java cannot keep bytes that are no UTF-8
            header[0] = re.sub("[\udc80-\udcff\ufffd]+", "?", header[0])
    return batch


def test_mutated_batches(java: Oracle) -> None:
    chance = random.Random(20)
    whole = []
    for magic, codec, state in COMBINATIONS:
        listed = for_magic(magic, RECORDS)
        if magic < 2 and codec == "none":
            listed = listed[:1]  # each message is a batch
        whole.append(build(listed, magic=magic, codec=codec, base_offset=20, **STATES[state]))
    changed = [mutated(bytearray(chance.choice(whole)), chance) for _ in range(MUTATIONS)]
    seen: Counter[str] = Counter()
    for data, answer in zip(changed, java.ask({"op": "batches.read", "bytes": d.hex()} for d in changed), strict=True):
        theirs, ours = java_one(answer), read_one(data)
        if isinstance(theirs, dict) and isinstance(ours, dict):
            assert comparable(ours) == comparable(theirs), data.hex()
            seen["read"] += 1
        elif isinstance(theirs, dict):
            reasons = [reason for reason in REFUSED if reason in str(ours)]
            assert reasons, (ours, data.hex())
            seen[reasons[0]] += 1
        else:
            # Nothing that Java refuses is read. (Deflate that refers to before its beginning is zeros for us; the
            # checksum behind it has the last word.)
            assert isinstance(ours, str) or "invalid distance too far back" in theirs, (theirs, data.hex())
            seen["refused"] += 1
    assert seen["read"] > MUTATIONS // 10
    assert seen["refused"] > MUTATIONS // 2
    assert seen.total() - seen["read"] - seen["refused"] < MUTATIONS // 50

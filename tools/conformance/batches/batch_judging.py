"""Reads batches with Kafka's Java, with our objects and with our columns, and compares what they hold.

`REFUSALS` and `FIELDS` are the tables of intended differences: the docs are written from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from kafkawire.records import record
from tools.conformance.batches.describing import java_one, read_one
from tools.conformance.verdict import Verdict
from tools.oracle import Oracle

#: How both took a batch.
SAME, REFUSED = "same records", "refused by both"
#: Most bytes of a batch here, decompressed: what a changed byte claims is not tried out.
LIMIT = 64 << 20


class Meant(NamedTuple):
    """A difference that is meant.

    Attributes:
        name: in the table of outcomes.
        why: a sentence for the docs.
        ours: what our refusal has in it; empty where both read the batch, and one of its fields differs.
    """

    name: str
    why: str
    ours: str = ""


#: What Java reads and we refuse.
REFUSALS = (
    Meant(
        "last offset delta or count below 0",
        "No broker takes such a batch (`LogValidator`), so that no log has it.",
        "bad_header",
    ),
    Meant(
        "a message that is cut off in a wrapper",
        "Java drops the rest of the wrapper without a word.",
        "expected a whole message, found",
    ),
    Meant(
        "bytes after the last block of snappy",
        "Java does not look at one to three of them; they may be a block that was cut off.",
        "a xerial snappy block's length is cut off",
    ),
    Meant(
        "reserved bits in the header of gzip",
        "RFC 1952 asks for an error; Java passes over them.",
        "unknown header flags set",
    ),
    Meant(
        "another magic than 0 and 1 in a wrapper",
        "Java reads a message of any other magic as one of magic 1.",
        "expected a message of magic 0 or 1",
    ),
)
LAST_SEQUENCE = Meant(
    "a base sequence below -1",
    "Java counts on from it; for us -1 and every other negative number mean that there is none.",
)
WRAPPER_OFFSETS = Meant(
    "a wrapper whose offset is not that of its last message",
    "All producers write 0 there; it is under no checksum. Our batch ends at that of its last message, Java's at the "
    "wrapper's. The offsets of the records are alike.",
)
SEQUENCE = Meant(
    "an offset delta below 0",
    "Java's sum of the sequence number overflows (`DefaultRecordBatch.incrementSequence`); ours goes round at 2^31.",
)
HEADER_KEY = Meant(
    "a header's key that is no UTF-8",
    "Java replaces its bytes by U+FFFD; we keep them (as surrogate escapes).",
)
#: What both read, each differently in one field.
FIELDS = (LAST_SEQUENCE, WRAPPER_OFFSETS, SEQUENCE, HEADER_KEY)


def judge(oracle: Oracle, batches: Iterable[bytes]) -> Iterator[Verdict]:
    """Reads each of `batches` on all sides."""
    listed = list(batches)
    answers = oracle.ask({"op": "batches.read", "bytes": data.hex()} for data in listed)
    for data, answer in zip(listed, answers, strict=True):
        ours = _read(data)
        yield _engines(data, ours) or _judge(data, ours, java_one(answer))


def _read(data: bytes) -> dict[str, Any] | str:
    """As in Produce, where offsets may be any."""
    return read_one(data, check_offsets=False, max_batch_bytes=LIMIT)


def _verdict(data: bytes, kind: str = "", wrong: str | None = None) -> Verdict:
    return Verdict(kind, kind, wrong, data)


def _judge(data: bytes, ours: dict[str, Any] | str, theirs: dict[str, Any] | str) -> Verdict:
    if isinstance(theirs, str):
        return _verdict(data, REFUSED, None if isinstance(ours, str) else f"only Java refuses: {theirs}")
    if isinstance(ours, str):
        names = [each.name for each in REFUSALS if each.ours in ours]
        return _verdict(data, names[0]) if names else _verdict(data, wrong=f"only we refuse: {ours}")
    if ours == theirs:
        return _verdict(data, SAME)
    kind = SAME
    for meant, alike in _ALIKE:
        before = ours != theirs
        ours, theirs = alike(ours, ours), alike(theirs, ours)
        if before and ours == theirs:
            return _verdict(data, meant.name if kind == SAME else kind)
    names = [name for name in ours if ours[name] != theirs.get(name)]
    differences = (f"{n}: ours {ours[n]!r:.200}, Java's {theirs.get(n)!r:.200}" for n in names)
    return _verdict(data, wrong="; ".join(differences))


# What is made alike, in turn ------------------------------------------------------------------------------------------


def _without(*names: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda batch: {name: value for name, value in batch.items() if name not in names}


def _last_sequence(batch: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    return _without("last_sequence")(batch) if ours["base_sequence"] < -1 else batch


def _wrapper(batch: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    if ours["magic"] == 2 or ours["codec"] == "none":
        return batch
    return _without("last_offset", "base_offset")(batch)


def _sequences(batch: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    if ours["magic"] < 2:
        return batch
    base = ours["base_offset"]
    kept = [_without("sequence")(r) if r["offset"] < base else r for r in batch["records"]]
    return batch | {"records": kept}


def _header_keys(batch: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    def replaced(record: dict[str, Any]) -> dict[str, Any]:
        headers = [[re.sub("[\udc80-\udcff�]+", "?", key), value] for key, value in record["headers"]]
        return record | {"headers": headers}

    return batch | {"records": [replaced(record) for record in batch["records"]]}


_ALIKE = (
    (LAST_SEQUENCE, _last_sequence),
    (WRAPPER_OFFSETS, _wrapper),
    (SEQUENCE, _sequences),
    (HEADER_KEY, _header_keys),
)


# Our readers ----------------------------------------------------------------------------------------------------------


def _engines(data: bytes, ours: dict[str, Any] | str) -> Verdict | None:
    """A verdict where our readers differ: objects natively and in Python, and the columns of both, of what a log may
    have."""
    from tests.records.test_records_columns import agree

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "_READER", None)
        if (in_python := _read(data)) != ours:
            return _verdict(data, wrong=f"the native reader has {ours!r:.300}, that in Python {in_python!r:.300}")
    try:
        agree(data, max_batch_bytes=LIMIT)
    except AssertionError as error:
        return _verdict(data, wrong=f"columns differ from objects: {error!s:.600}")
    return None

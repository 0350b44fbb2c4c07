"""Segments that brokers of three releases wrote: every record as librdkafka's consumer read it, in all magics."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kafkawire.records import Batch, read
from tools.recordings.archive import LOG_DIRECTORIES, unpacked


def expected(folder: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((unpacked(folder) / "expected.json").read_text())["records"]
    return found


def batches(folder: str, place: str) -> list[Batch]:
    found = []
    for segment in sorted((unpacked(folder) / "data" / place).glob("*.log")):
        for item in read(segment.read_bytes()):
            assert isinstance(item, Batch), item
            found.append(item)
    return found


PLACES = [(folder, place) for folder in LOG_DIRECTORIES for place in expected(folder)]


@pytest.mark.parametrize(("folder", "place"), PLACES)
def test_records_are_those_that_a_consumer_read(folder: str, place: str) -> None:
    got = []
    for batch in batches(folder, place):
        listed = list(batch.records)
        assert len(listed) == batch.record_count
        assert batch.base_offset <= listed[0].offset <= listed[-1].offset <= batch.last_offset
        if batch.magic < 2:
            assert (listed[0].offset, listed[-1].offset) == (batch.base_offset, batch.last_offset)
        if not batch.is_control:  # consumers do not show markers
            got += [
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "timestamp_type": batch.timestamp_type,
                    "key": None if record.key is None else record.key.decode(),
                    "value": None if record.value is None else record.value.decode(),
                }
                for record in listed
            ]
    assert got == expected(folder)[place]


def test_every_magic_and_codec_is_among_them() -> None:
    found = Counter((b.magic, b.codec) for folder, place in PLACES for b in batches(folder, place))
    old = {(magic, codec) for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")}
    assert found.keys() >= old | {(2, codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
    assert [b.magic for b in batches("kafka-2.8.2", "upgraded-0")] == sorted(
        b.magic for b in batches("kafka-2.8.2", "upgraded-0")
    )


def test_compacted_wrappers_have_gaps() -> None:
    wrapper = batches("kafka-2.8.2", "compacted-0")[0]
    offsets = [record.offset for record in wrapper.records]
    assert offsets[-1] - offsets[0] > len(offsets) - 1

"""Writing magic 0 and 1: the very bytes, and what the formats have no place for."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.errors import EncodeError
from kafkawire.records import Batch, Header, Record, build, read
from kafkawire.records.legacy import LEGACY_CODECS, contents
from tests.records.test_records_legacy import message


def test_messages_that_stand_alone() -> None:
    listed = [Record(b"k", b"v", offset=3, timestamp=50), Record(None, None, offset=7, timestamp=-1)]
    assert build(listed, magic=1) == message(1, 3, b"k", b"v", timestamp=50) + message(1, 7, None, None, timestamp=-1)
    stamped = message(1, 3, b"k", b"v", timestamp=9, attributes=8) + message(
        1, 7, None, None, timestamp=9, attributes=8
    )
    assert build(listed, magic=1, append_time=9) == stamped
    bare = [Record(b"k", b"v", offset=3), Record(None, b"", offset=4)]
    assert build(bare, magic=0) == message(0, 3, b"k", b"v") + message(0, 4, None, b"")


@pytest.mark.parametrize(("magic", "codec"), [(0, "gzip"), (1, "snappy"), (0, "lz4"), (1, "lz4")])
def test_a_wrapper(magic: int, codec: str) -> None:
    times = (70, 90, 80) if magic else (-1, -1, -1)
    listed = [Record(b"k", b"%d" % i, offset=20 + 2 * i, timestamp=times[i]) for i in range(3)]
    data = build(listed, magic=magic, codec=codec, base_offset=20)
    assert int.from_bytes(data[:8], "big") == 24, "the offset is that of the last message"
    (batch,) = read(data)
    assert isinstance(batch, Batch)
    assert (batch.magic, batch.codec, batch.max_timestamp) == (magic, codec, max(times))
    assert list(batch.records) == listed


@pytest.mark.parametrize("codec", LEGACY_CODECS[1:])
@pytest.mark.parametrize(("magic", "inside"), [(0, [12, 15]), (1, [2, 5])])
def test_the_offsets_inside_count_from_the_batchs_base(magic: int, inside: list[int], codec: str) -> None:
    data = build([Record(offset=12), Record(offset=15)], magic=magic, codec=codec, base_offset=10)
    (batch,) = read(data)
    assert [record.offset for record in batch.records] == [12, 15]
    payload = contents(memoryview(data), position=0, limit=1000).payload
    assert payload == b"".join(message(magic, offset, None, None, timestamp=-1) for offset in inside)


@pytest.mark.parametrize(
    ("records", "options", "path"),
    [
        ([Record()], {"magic": 1, "codec": "zstd"}, "codec"),
        ([], {"magic": 1}, "records"),
        ([Record()], {"magic": 0, "append_time": 5}, "append_time"),
        ([Record(), Record(headers=(Header("h"),))], {"magic": 1}, "records[1].headers"),
        ([Record(timestamp=5)], {"magic": 0}, "records[0].timestamp"),
        ([Record(), Record(timestamp=-2)], {"magic": 1}, "records[1].timestamp"),
        ([Record(timestamp=1 << 63)], {"magic": 1}, "records[0]"),
        ([Record(offset=1 << 63)], {"magic": 1}, "records[0]"),
        ([Record(offset=1 << 63)], {"magic": 0, "codec": "gzip"}, "records[0]"),
        ([Record()], {"magic": 1, "producer_id": 4}, "producer_id"),
        ([Record()], {"magic": 1, "producer_epoch": 0}, "producer_epoch"),
        ([Record()], {"magic": 0, "base_sequence": 0}, "base_sequence"),
        ([Record()], {"magic": 0, "partition_leader_epoch": 0}, "partition_leader_epoch"),
        ([Record()], {"magic": 1, "transactional": True}, "transactional"),
        ([Record()], {"magic": 1, "control": True}, "control"),
        ([Record()], {"magic": 1, "delete_horizon": 0}, "delete_horizon"),
        ([Record()], {"magic": 1, "base_timestamp": 0}, "base_timestamp"),
        ([Record()], {"magic": 1, "last_offset": 1}, "last_offset"),
        ([], {"magic": 1, "last_offset": 1}, "last_offset"),
        ([Record()], {"magic": 3}, "magic"),
        ([Record()], {"magic": -1}, "magic"),
    ],
)
def test_rejects_what_the_format_cannot_carry(records: list[Record], options: dict[str, Any], path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        build(records, **options)
    assert caught.value.path == path


def test_a_last_offset_that_is_the_last_is_fine() -> None:
    assert build([Record(), Record()], magic=1, last_offset=1) == build([Record(), Record()], magic=1)

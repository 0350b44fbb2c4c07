"""Records of a batch: what is malformed, and where; both readers, the native one and Python's."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import RecordError
from kafkawire.records import Record
from tests.records.record_bytes import payload_batch


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ("ffffffff0f 000000010100", "length"),  # a length of -2147483648
        ("7e 00 00 00 01 01 00", "a length of 63"),  # longer than the batch
        ("0c 00 00 00 7e 01 00", "a length of 63"),  # a key longer than the record
        ("0c 00 00 00 01 01 7e", "63"),  # more headers than bytes
        ("0c 00 00 00 01 01 01", "-1"),  # a negative header count
        ("10 00 00 00 01 01 02 01 01", "null"),  # a header key of null
        ("0e 00 00 00 01 01 00 00", "fields of 6"),  # bytes behind the headers
        ("16 00 00 ffffffffffff 01 01 00", "a longer one"),  # a varint of 6 bytes
        ("0c 00 00 00 01 01 80", "the end"),
        ("0c 00 00 00 01 01 00 0c 00 00 00 01 01 00", "7 more bytes"),  # two records, one counted
    ],
)
def test_rejects_malformed_records(payload: str, found: str) -> None:
    batch = payload_batch(bytes.fromhex(payload))
    with pytest.raises(RecordError) as caught:
        list(batch.records)
    assert found in caught.value.found
    assert caught.value.path.startswith("records[")
    assert caught.value.offset >= 61


@pytest.mark.parametrize(
    ("payload", "timestamp", "offset"),
    [
        ("0c 00 01 00 01 01 00", -1, 0),  # a byte each
        ("0c 00 7e 7e 01 01 00", 63, 63),
        ("0c 00 00 7f 01 01 00", 0, -64),
        ("10 00 8101 8001 01 01 00", -65, 64),  # two bytes each
        ("18 00 80808001 80808001 01 01 00", 1 << 20, 1 << 20),
    ],
)
def test_deltas(payload: str, timestamp: int, offset: int) -> None:
    """What the batch counts from is -1 for timestamps and 0 for offsets here."""
    batch = payload_batch(bytes.fromhex(payload))
    (record,) = batch.records
    assert (record.timestamp, record.offset, record.sequence) == (timestamp - 1, offset, -1)


def test_records_before_a_malformed_one_are_read() -> None:
    batch = payload_batch(bytes.fromhex("0c0000000101000c000000010102"), count=2)
    got: list[Record] = []
    with pytest.raises(RecordError) as caught:
        got.extend(batch.records)
    assert caught.value.path == "records[1]"
    assert next(batch.records).offset == 0


@given(st.binary(max_size=120), st.integers(0, 20), st.integers(0, 7))
def test_any_payload_raises_nothing_else(payload: bytes, count: int, codec: int) -> None:
    batch = payload_batch(payload, count, codec)
    with suppress(RecordError):
        assert len(list(batch.records)) == count

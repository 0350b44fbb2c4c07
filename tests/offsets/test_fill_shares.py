"""Which groups fill a partition of `__consumer_offsets`."""

from __future__ import annotations

from kafkawire import records
from kafkawire.messages import OffsetCommitKey
from kafkawire.offsets.fill_shares import FillShares
from kafkawire.records import Batch, Record, build


def batch_of(*groups: str, base: int = 0, broken: bool = False) -> Batch:
    keys = [b"\0\1" + OffsetCommitKey(group=group, topic="orders", partition=0).encode(0) for group in groups]
    data = bytearray(build([Record(key=key, value=b"12345") for key in keys], base_offset=base))
    if broken:
        data[61] = 0x7F  # the length of the first record
    (found,) = records.read(bytes(data), check_crc=False)
    assert isinstance(found, Batch)
    return found


def test_shares_are_by_bytes_and_keys_are_told_apart() -> None:
    shares = FillShares()
    shares.add(batch_of("a", "a", "b"))
    assert [(one.group, one.records, one.keys) for one in shares.rows()] == [("a", 2, 1), ("b", 1, 1)]
    assert shares.doubt is None


def test_batches_that_cannot_be_read_are_named_with_the_reason() -> None:
    shares = FillShares()
    shares.add(batch_of("a"))
    for base in (17, 18):
        shares.add(batch_of("b", base=base, broken=True))
    assert shares.unread == 2
    assert shares.rows()[-1].group is None
    assert shares.doubt is not None
    assert shares.doubt.startswith("the batch at offset 17 could not be read: ")
    assert shares.doubt.endswith(", and 1 more batches")

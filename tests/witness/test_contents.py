"""The checksum of a batch's records, computed from its header."""

from __future__ import annotations

import crc32c
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.records import Batch, Record, build, columns, read
from kafkawire.records.header import HEADER
from kafkawire.witness.contents import NOT_COMPARABLE, contents, mixed, record_checksums

BATCHES = st.lists(
    st.builds(
        build,
        st.lists(
            st.builds(
                Record, key=st.binary(max_size=9), value=st.binary(max_size=300), timestamp=st.integers(0, 2**40)
            ),
            min_size=1,
            max_size=4,
        ),
        producer_id=st.integers(0, 2**62),
        producer_epoch=st.integers(0, 2**15 - 1),
        base_sequence=st.integers(0, 2**31 - 1),
        codec=st.sampled_from(["none", "gzip", "zstd"]),
    ),
    min_size=1,
    max_size=5,
)


def scanned(data: bytes) -> columns.Batches:
    (found,) = columns.batches(data, check_crc=False)
    assert isinstance(found, columns.Batches)
    return found


@given(BATCHES)
def test_checksums_are_those_of_the_records(listed: list[bytes]) -> None:
    found = scanned(b"".join(listed))
    checksums = record_checksums(np.frombuffer(found.data, np.uint8), found.start, found.size, found.crc)
    assert checksums.tolist() == [crc32c.crc32c(data[HEADER.size :]) for data in listed]


@given(st.integers(0, 2**20))
def test_checksums_of_any_length(size: int) -> None:
    data = build([Record(value=bytes(size))])
    found = scanned(data)
    checksums = record_checksums(np.frombuffer(found.data, np.uint8), found.start, found.size, found.crc)
    assert checksums.tolist() == [crc32c.crc32c(data[HEADER.size :])]


def test_the_producer_and_the_brokers_timestamp_change_nothing() -> None:
    records = [Record(b"k", b"v", timestamp=7)]
    one = build(records, producer_id=1, producer_epoch=2, base_sequence=3)
    other = build(records, producer_id=9, producer_epoch=8, base_sequence=7)
    stamped = build(records, append_time=99)
    for changed in (other, stamped):
        assert scanned(changed).crc.tolist() != scanned(one).crc.tolist()
        a, b = (
            record_checksums(np.frombuffer(each.data, np.uint8), each.start, each.size, each.crc)
            for each in (scanned(one), scanned(changed))
        )
        assert a.tolist() == b.tolist()


def test_what_cannot_be_compared_has_no_content() -> None:
    (batch,) = read(build([Record(b"k", b"v")]))
    assert isinstance(batch, Batch)
    ones = np.ones(2, np.int64)
    found = contents(ones.astype(np.uint32), ones, ones, ones, np.array([True, False]))
    assert found[0] != NOT_COMPARABLE == found[1]


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), unique=True))
def test_mixed_numbers_differ(pairs: list[tuple[int, int]]) -> None:
    columns_ = np.array(pairs, np.int64).reshape(-1, 2)
    assert len(set(mixed(columns_[:, 0], columns_[:, 1]).tolist())) == len(pairs)

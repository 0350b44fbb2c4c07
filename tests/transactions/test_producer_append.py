"""Control batches that are no markers: each with its problem, and nothing raises."""

from __future__ import annotations

from kafkawire.records import Batch, Record, build, read
from kafkawire.transactions import Append, append_of
from tests.audit_logs import NOON


def control(*, transactional: bool = True, broken: bool = False) -> Append:
    listed = [Record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\5", timestamp=NOON)]
    data = bytearray(build(listed, base_offset=4, producer_id=7, producer_epoch=2, control=True,
                           transactional=transactional))  # fmt: skip
    if broken:
        data[61] = 0xFF  # the record's length
    (batch,) = read(bytes(data), check_crc=False)
    assert isinstance(batch, Batch)
    append = append_of(batch)
    assert append is not None
    return append


def test_reads_a_marker() -> None:
    append = control()
    assert (append.control, append.coordinator_epoch, append.problem) == ("COMMIT", 5, None)


def test_a_control_batch_outside_of_transactions_ends_none() -> None:
    append = control(transactional=False)
    assert (append.control, append.problem) == ("MALFORMED", "a marker without the transactional bit")


def test_an_unreadable_control_record_is_malformed() -> None:
    append = control(broken=True)
    assert (append.control, append.coordinator_epoch) == ("MALFORMED", None)
    assert append.problem

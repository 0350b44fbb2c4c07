"""Damage is a value, and raises an error where it is used as a batch."""

from __future__ import annotations

import pytest

from kafkawire.errors import RecordError
from kafkawire.records import read
from tests.records.record_bytes import FIRST


def test_asking_damage_for_records_raises_it() -> None:
    (damage,) = read(FIRST[:-1])
    with pytest.raises(RecordError, match="at byte 0: expected a record batch, found truncated") as caught:
        list(damage.records)
    assert caught.value.offset == 0
    with pytest.raises(RecordError):
        _ = damage.control
    assert len({damage, *read(FIRST[:-1])}) == 1, "values are compared, and do not change"

"""The invented ids that show whether a coordinator has loaded a partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.client.diagnosis.coordinator_loading import id_of_partition
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id


@pytest.mark.parametrize("count", [1, 2, 3, 50, 961, 5000])
def test_every_partition_has_an_id(count: int) -> None:
    assert [partition_of_id(id_of_partition(one, count), count) for one in range(count)] == list(range(count))


@given(st.data())
def test_makes_an_id_of_each_partition(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 31**5))
    partition = data.draw(st.integers(0, count - 1))
    assert partition_of_id(id_of_partition(partition, count), count) == partition
    assert id_of_partition(partition, count).isascii()

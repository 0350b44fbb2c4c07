"""Names beside numbers and ids in the JSON of messages."""

from __future__ import annotations

from uuid import UUID

from kafkawire.messages import ShareSnapshotKey, ShareUpdateValue
from kafkawire.messages.share_update_value import StateBatch
from kafkawire.records import decoded

ID = UUID(int=7)


def record() -> tuple[bytes, bytes]:
    key = ShareSnapshotKey("workers", ID, 3)
    value = ShareUpdateValue(state_batches=tuple(StateBatch(n, n, state, 1) for n, state in enumerate((0, 2, 3, 4, 9))))
    return b"\x00\x01" + key.encode(0), b"\x00\x00" + value.encode(0)


def test_delivery_states_have_names_and_topics_too() -> None:
    shown = decoded("__share_group_state", *record(), topic_names={"AAAAAAAAAAAAAAAAAAAABw": "orders"}.get)
    assert shown is not None
    states = [(one["deliveryState"], one["deliveryStateName"]) for one in shown["value"]["data"]["stateBatches"]]
    assert states == [(0, "available"), (2, "acknowledged"), (3, "archiving"), (4, "archived"), (9, "unknown_9")]
    assert shown["key"]["data"] == {
        "groupId": "workers", "topicId": "AAAAAAAAAAAAAAAAAAAABw", "topicName": "orders", "partition": 3
    }  # fmt: skip


def test_an_id_without_a_known_name_stays_alone() -> None:
    shown = decoded("__share_group_state", *record(), topic_names={}.get)
    assert shown is not None
    assert "topicName" not in shown["key"]["data"]

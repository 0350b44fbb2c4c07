"""The history of a group: an assignment that cannot be read is an event, and no partition seems to move."""

from __future__ import annotations

from kafkawire.messages import ConsumerProtocolAssignment, GroupMetadataKey, GroupMetadataValue
from kafkawire.messages.consumer_protocol_assignment import TopicPartition
from kafkawire.messages.group_metadata_value import MemberMetadata
from kafkawire.offsets.subject_history import SubjectHistory
from kafkawire.records import Batch, Record, build, read

#: The type of a group's key.
KEY = b"\0\2"
WHOLE = ConsumerProtocolAssignment(assigned_partitions=(TopicPartition("orders", (0, 1)),)).encode_prefixed(version=3)


def events(protocol_type: str, *assignments: bytes) -> list[str]:
    """Of the group g with one member, generation after generation."""
    history, found = SubjectHistory("__consumer_offsets", 0, "g"), []
    for number, assignment in enumerate(assignments):
        member = MemberMetadata(member_id="m", client_id="c", client_host="/h", assignment=assignment)
        value = GroupMetadataValue(protocol_type=protocol_type, generation=number, members=(member,))
        record = Record(KEY + GroupMetadataKey(group="g").encode(version=0), value.encode_prefixed(version=3))
        for batch in read(build([record], base_offset=number)):
            assert isinstance(batch, Batch)
            found += [one.what for one in history.take(batch)]
    return found


def test_an_assignment_that_cannot_be_read_is_named_and_moves_nothing() -> None:
    first, moved, unread = events("consumer", WHOLE, WHOLE[:9])
    assert first == "generation 0: 'c' at h joined (m)"
    assert moved == "generation 0: 2 partitions moved: orders-0, orders-1"
    assert unread.startswith("generation 1: the assignment of m cannot be read: ConsumerProtocolAssignment")


def test_members_of_other_protocols_have_no_partitions() -> None:
    assert events("connect", WHOLE[:9]) == ["generation 0: 'c' at h joined (m)"]

"""What copies of `__consumer_offsets` show of a group: its offsets, those in open transactions, and what its members
are assigned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from kafkawire.errors import DecodeError
from kafkawire.logdir.transaction_states import COMMITTED, NONE, OPEN, UNKNOWN
from kafkawire.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerProtocolAssignment,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.offsets.group_records import GroupLog, GroupRecord, group_of, mentions
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.records.control import read_prefixed
from kafkawire.transactions.blockers import GroupView, Place
from kafkawire.transactions.coordinator_rules import partition_of_id

CONSUMER_OFFSETS = "__consumer_offsets"


def group_view(replicas: LeadingReplicas, group: str) -> GroupView | None:
    """A group as copies show it; None where no record of it is here and everything that may hold one was read.

    Args:
        replicas: of the log directories of one cluster.
        group: its id.
    """
    count = replicas.count_of(CONSUMER_OFFSETS)
    here = replicas.numbers(CONSUMER_OFFSETS)
    numbers = here if count is None else [partition_of_id(group, count)]
    gaps: list[str] = []
    fold = _Fold(group, topic_names(replicas))
    own: Place | None = None if count is None else (CONSUMER_OFFSETS, numbers[0])
    for number in numbers:
        leading = replicas.of(CONSUMER_OFFSETS, number)
        if leading is None:
            gaps.append(f"{CONSUMER_OFFSETS}-{number}, which keeps the offsets of group {group!r}, is not here")
            continue
        log = GroupLog(leading.partition)
        found = fold.found
        for record in log.records(mentions(group)):
            if group_of(record.key) == group:
                fold.take(record)
        if fold.found > found:
            own = (CONSUMER_OFFSETS, number)
        if leading.doubt is not None and (fold.found > found or count is not None):
            gaps.append(leading.doubt)
        gaps += log.problems
    if count is None and not fold.found:
        gaps.append(
            f"no copy of {CONSUMER_OFFSETS} that is here names group {group!r}, and how many partitions it has is not "
            "known (no __cluster_metadata)"
        )
    if not fold.found and not gaps:
        return None
    gaps += fold.gaps
    return GroupView(
        group=group,
        committed=fold.committed,
        partitions=frozenset((*fold.committed, *fold.assigned, *fold.pending_places)),
        held={producer: frozenset(places) for producer, places in fold.pending.items() if places},
        unexplained=frozenset(fold.unknown),
        own=own,
        gaps=tuple(dict.fromkeys(gaps)),
    )


def topic_names(replicas: LeadingReplicas) -> dict[UUID, str]:
    """The names of the topics that are here, by id."""
    found: dict[UUID, str] = {}
    for one in replicas.directory.partitions:
        if not one.state and one.topic_id is not None:
            found[one.topic_id] = one.topic
    return found


class _Fold:
    """The state of a group after each of its records."""

    def __init__(self, group: str, names: dict[UUID, str]) -> None:
        self.found = 0
        self.committed: dict[Place, int] = {}
        self.pending: dict[int, set[Place]] = {}
        self.unknown: set[Place] = set()
        self.gaps: list[str] = []
        self._group, self._names = group, names
        self._members: dict[str, set[Place]] = {}

    @property
    def assigned(self) -> set[Place]:
        return {place for places in self._members.values() for place in places}

    @property
    def pending_places(self) -> set[Place]:
        return {place for places in self.pending.values() for place in places} | self.unknown

    def take(self, record: GroupRecord) -> None:
        self.found += 1
        key, value = record.key, record.value
        if record.problem is not None:
            self.gaps.append(f"the record at offset {record.offset} of group {self._group!r}: {record.problem}")
        elif isinstance(key, OffsetCommitKey):
            self._offset(record, (key.topic, key.partition))
        elif isinstance(key, GroupMetadataKey):
            self._members = {"": set()}
            if isinstance(value, GroupMetadataValue):
                self._members = {"": set(self._classic(value, record.offset))}
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._members.pop(key.member_id, None)
            if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
                self._members[key.member_id] = set(self._consumer(value))

    def _offset(self, record: GroupRecord, place: Place) -> None:
        value = record.value
        if record.state in (NONE, COMMITTED):
            self.unknown.discard(place)
            if isinstance(value, OffsetCommitValue):
                self.committed[place] = value.offset
            else:
                self.committed.pop(place, None)
        elif record.state == OPEN:
            self.pending.setdefault(record.producer_id, set()).add(place)
        elif record.state == UNKNOWN:
            self.unknown.add(place)
            self.gaps.append(
                f"whether the offset of group {self._group!r} in {place[0]}-{place[1]} was committed at offset "
                f"{record.offset} is not known"
            )

    def _classic(self, value: GroupMetadataValue, offset: int) -> Iterator[Place]:
        if value.protocol_type != "consumer":
            return
        for member in value.members:
            if not member.assignment:
                continue
            try:
                assignment = read_prefixed(ConsumerProtocolAssignment, member.assignment)
            except DecodeError as error:
                self.gaps.append(f"member {member.member_id!r} of group {self._group!r} at offset {offset}: {error}")
                continue
            yield from ((one.topic, number) for one in assignment.assigned_partitions for number in one.partitions)

    def _consumer(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Iterable[Place]:
        for one in value.assigned_partitions:
            name = self._names.get(one.topic_id)
            if name is None:
                self.gaps.append(f"a topic of group {self._group!r} is not here: its id is {one.topic_id}")
                continue
            yield from ((name, number) for number in one.partitions)

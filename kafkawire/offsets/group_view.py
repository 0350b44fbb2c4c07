"""`group_view`: a group by copies of `__consumer_offsets`: its offsets, those in open transactions, and the partitions
that its members are assigned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from kafkawire import messages
from kafkawire.errors import DecodeError
from kafkawire.logdir.transaction_states import COMMITTED, NONE, OPEN, UNKNOWN
from kafkawire.offsets.group_records import GroupRecord, assigned, group_logs, group_of, mentions
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.transactions.blocking.blockers import GroupView, Place
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id

CONSUMER_OFFSETS = "__consumer_offsets"


def group_view(replicas: LeadingReplicas, group: str) -> GroupView | None:
    """A group as copies show it; None where no record of it is here and everything that may hold one was read.
    `replicas`: of the log directories of one cluster."""
    count = replicas.count_of(CONSUMER_OFFSETS)
    here = replicas.numbers(CONSUMER_OFFSETS)
    numbers = here if count is None else [partition_of_id(group, count)]
    gaps: list[str] = []
    fold = _Fold(group, replicas.names)
    own: Place | None = None if count is None else (CONSUMER_OFFSETS, numbers[0])
    missing = f", which keeps the offsets of group {group!r}, is not here"
    for leading, log in group_logs(replicas, CONSUMER_OFFSETS, numbers, gaps, missing):
        found = fold.found
        for record in log.records(mentions(group)):
            if group_of(record.key) == group:
                fold.take(record)
        if fold.found > found:
            own = (CONSUMER_OFFSETS, leading.partition.partition)
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
    return fold.view(own, gaps)


def group_views(replicas: LeadingReplicas) -> tuple[list[GroupView], list[str]]:
    """Every group that has offsets or assigned partitions, as `group_view` shows it, sorted by name; and why there may
    be more, a sentence each. Each partition of `__consumer_offsets` is read once. `replicas`: of the log directories of
    one cluster."""
    count = replicas.count_of(CONSUMER_OFFSETS)
    names, folds, found_in = replicas.names, dict[str, _Fold](), dict[str, list[int]]()
    doubts, problems, gaps = dict[int, str](), dict[int, list[str]](), list[str]()
    misplaced: dict[str, None] = {}
    if count is None:
        gaps.append(f"how many partitions {CONSUMER_OFFSETS} has is not known (no __cluster_metadata)")
    numbers = replicas.numbers(CONSUMER_OFFSETS) if count is None else range(count)
    missing = ", which keeps offsets of groups, is not here"
    for leading, log in group_logs(replicas, CONSUMER_OFFSETS, numbers, gaps, missing):
        number = log.partition.partition
        for record in log.records():
            name = group_of(record.key)
            if name is None:
                continue
            fold = folds.get(name)
            if fold is None:
                if count is not None and (right := partition_of_id(name, count)) != number:
                    misplaced[f"{CONSUMER_OFFSETS}-{number} has records of a group of -{right}"] = None
                    continue
                fold, found_in[name] = folds.setdefault(name, _Fold(name, names)), []
            fold.take(record)
            if number not in found_in[name]:
                found_in[name].append(number)
            if record.value is None and fold.empty:
                # Logs name more groups than there are: those that have ended.
                del folds[name], found_in[name]
        problems[number] = list(log.problems)
        if leading.doubt is not None:
            doubts[number] = leading.doubt
            gaps.append(leading.doubt)
        gaps += log.problems
    views = []
    for name, fold in sorted(folds.items()):
        if fold.empty:
            continue
        here = found_in[name]
        of_partitions: list[str] = []
        for number in problems if count is None else here:
            if number in here and number in doubts:
                of_partitions.append(doubts[number])
            of_partitions += problems[number]
        views.append(fold.view((CONSUMER_OFFSETS, here[-1]), of_partitions))
    return views, list(dict.fromkeys((*gaps, *misplaced)))


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

    @property
    def empty(self) -> bool:
        """Whether the group has no offset, member or assignment left."""
        return not (self.committed or self.assigned or self.pending_places or self.gaps)

    def view(self, own: Place | None, gaps: Iterable[str]) -> GroupView:
        """The group now. `own`: where its offsets are kept. `gaps`: what could not be read there."""
        return GroupView(
            group=self._group,
            committed=self.committed,
            partitions=frozenset((*self.committed, *self.assigned, *self.pending_places)),
            held={producer: frozenset(places) for producer, places in self.pending.items() if places},
            unexplained=frozenset(self.unknown),
            own=own,
            gaps=tuple(dict.fromkeys((*gaps, *self.gaps))),
            doubt=None if self.assigned else f"where group {self._group!r} waits is not certain: it has no members now",
        )

    def take(self, record: GroupRecord) -> None:
        self.found += 1
        key, value = record.key, record.value
        if record.problem is not None:
            self.gaps.append(f"the record at offset {record.offset} of group {self._group!r}: {record.problem}")
        elif isinstance(key, messages.OffsetCommitKey):
            self._offset(record, (key.topic, key.partition))
        elif isinstance(key, messages.GroupMetadataKey):
            self._members = {"": set()}
            if isinstance(value, messages.GroupMetadataValue):
                self._members = {"": set(self._classic(value, record.offset))}
        elif isinstance(key, messages.ConsumerGroupCurrentMemberAssignmentKey):
            self._members.pop(key.member_id, None)
            if isinstance(value, messages.ConsumerGroupCurrentMemberAssignmentValue):
                self._members[key.member_id] = set(self._consumer(value))

    def _offset(self, record: GroupRecord, place: Place) -> None:
        value = record.value
        if record.state in (NONE, COMMITTED):
            self.unknown.discard(place)
            if isinstance(value, messages.OffsetCommitValue):
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

    def _classic(self, value: messages.GroupMetadataValue, offset: int) -> Iterator[Place]:
        for member in value.members:
            try:
                yield from assigned(value, member)
            except DecodeError as error:
                self.gaps.append(f"member {member.member_id!r} of group {self._group!r} at offset {offset}: {error}")

    def _consumer(self, value: messages.ConsumerGroupCurrentMemberAssignmentValue) -> Iterable[Place]:
        for one in value.assigned_partitions:
            name = self._names.get(one.topic_id)
            if name is None:
                self.gaps.append(f"a topic of group {self._group!r} is not here: its id is {one.topic_id}")
                continue
            yield from ((name, number) for number in one.partitions)

"""`ConsumerGroup`: the members of a group under the protocol of KIP-848, and how partitions go from one to another.

A change of members, subscriptions or partitions raises the group's epoch and gives a new target assignment. Each member
is brought to its target by its own heartbeats (Kafka's `CurrentAssignmentBuilder`): it revokes first, then it gets what
no other member holds any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heapreplace
from uuid import UUID

from kafkawire.kafka_errors import CODES
from kafkawire.testing.state.memory import ENTRY
from kafkawire.testing.state.stored_offsets import GroupOffsets

UNKNOWN_MEMBER_ID = CODES["UNKNOWN_MEMBER_ID"]
FENCED_MEMBER_EPOCH = CODES["FENCED_MEMBER_EPOCH"]
STALE_MEMBER_EPOCH = CODES["STALE_MEMBER_EPOCH"]

SESSION_MS, HEARTBEAT_MS = 45_000, 500
JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2  # member epochs of requests

STABLE, UNREVOKED, UNRELEASED = "Stable", "UnrevokedPartitions", "UnreleasedPartitions"

#: A partition: topic id and number.
Place = tuple[UUID, int]
Places = frozenset[Place]
NONE: Places = frozenset()


class ConsumerMember:
    """A member of a group.

    Attributes:
        instance_id: its `group.instance.id`. `rack`, `client_id`, `host`: as it gave them.
        topics: names that it subscribes to. `assignor`: of its preference; None: any.
        epoch, former: its epoch, and the one before; LEAVE_FOR_NOW: a static member that comes back.
        assigned: what it may read. `revoking`: what it has to give back first. `target`: what it is to have.
        seen_ms: its last request. `until_ms`: when it must have given back; 0: nothing to give back.
    """

    def __init__(self, member_id: str, instance_id: str | None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack: str | None = None
        self.client_id = self.host = ""
        self.topics: frozenset[str] = frozenset()
        self.assignor: str | None = None
        self.epoch = self.former = 0
        self.state = STABLE
        self.assigned = self.revoking = self.target = NONE
        self.rebalance_ms = self.seen_ms = self.until_ms = 0

    @property
    def held(self) -> Places:
        """What no other member may get yet."""
        return self.assigned | self.revoking


class ConsumerGroup(GroupOffsets):
    """See the module.

    Attributes:
        epoch, assignment_epoch: of the group, and of its targets. `assignor`: the name of that in use.
        members: by member id. `counts`: topic -> its id and its number of partitions, of those that are assigned.
    """

    def __init__(self, former: GroupOffsets | None = None) -> None:
        super().__init__(former)
        self.epoch = self.assignment_epoch = 0
        self.assignor = next(iter(ASSIGNORS))
        self.members: dict[str, ConsumerMember] = {}
        self.counts: dict[str, tuple[UUID, int]] = {}

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def size(self) -> int:
        return super().size + sum(
            ENTRY * (1 + len(each.topics) + len(each.held) + len(each.target))
            + len(member_id)
            + sum(map(len, each.topics))
            for member_id, each in self.members.items()
        )

    @property
    def state(self) -> str:
        """The name of the state, as in Kafka's `ConsumerGroupState`."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        done = all(each.state == STABLE and each.epoch == self.assignment_epoch for each in self.members.values())
        return "Stable" if done else "Reconciling"

    # Members ----------------------------------------------------------------------------------------------------------

    def static(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with a `group.instance.id`."""
        return next((m for m in self.members.values() if m.instance_id == instance_id is not None), None)

    def check(self, member_id: str, epoch: int, owned: Places | None) -> int:
        """The error code for a heartbeat of a member, 0 for none.

        Args:
            member_id, epoch: of the request.
            owned: the partitions that it says to have; None: it does not say.
        """
        member = self.members.get(member_id)
        if member is None:
            return UNKNOWN_MEMBER_ID
        # The answer that had the present epoch may have been lost.
        retried = epoch == member.former and owned is not None and owned <= member.assigned
        return 0 if epoch == member.epoch or retried else FENCED_MEMBER_EPOCH

    def check_commit(self, member_id: str, generation: int, now_ms: int) -> int:
        if generation < 0 and not member_id:
            return UNKNOWN_MEMBER_ID if self.members else 0
        return self.check_fetch(member_id, generation)

    def check_fetch(self, member_id: str, epoch: int) -> int:
        if epoch < 0:
            return 0
        member = self.members.get(member_id)
        if member is None:
            return UNKNOWN_MEMBER_ID
        return 0 if epoch == member.epoch else STALE_MEMBER_EPOCH

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member comes back under another id, and has what the old one had."""
        del self.members[old.member_id]
        new.assigned, new.target, new.topics, new.assignor = old.assigned, old.target, old.topics, old.assignor
        self.members[new.member_id] = new

    def changed(self) -> None:
        """Members, subscriptions or partitions have changed: the next targets have a new epoch."""
        self.epoch = self.assignment_epoch + 1

    def remove(self, member_id: str) -> None:
        """A member leaves, or is fenced."""
        del self.members[member_id]
        self.changed()

    def expire(self, now_ms: int) -> None:
        """Remove the members whose session has ended, and those that have not given back in time."""
        for member in list(self.members.values()):
            if now_ms - member.seen_ms > SESSION_MS or 0 < member.until_ms <= now_ms:
                self.remove(member.member_id)

    # Assignments ------------------------------------------------------------------------------------------------------

    def assign(self, counts: Mapping[str, tuple[UUID, int]]) -> None:
        """New targets, where something has changed since the last ones.

        Args:
            counts: name of a topic that is subscribed to -> its id and its number of partitions.
        """
        if counts != self.counts:
            self.counts = dict(counts)
            self.changed()
        if self.epoch == self.assignment_epoch:
            return
        wishes = [each.assignor for each in self.members.values() if each.assignor is not None]
        self.assignor = max(wishes, key=wishes.count) if wishes else next(iter(ASSIGNORS))
        targets = ASSIGNORS[self.assignor](
            {member_id: each.topics for member_id, each in self.members.items()},
            self.counts,
            {member_id: each.target for member_id, each in self.members.items()},
        )
        for member_id, target in targets.items():
            self.members[member_id].target = frozenset(target)
        self.assignment_epoch = self.epoch

    def reconcile(self, member: ConsumerMember, owned: Places | None, now_ms: int) -> None:
        """Bring a member nearer to its target.

        Args:
            member: the one that sent a heartbeat.
            owned: the partitions that it says to have; None: as before.
            now_ms: the broker's clock, epoch milliseconds.
        """
        if member.state == UNREVOKED and (owned is None or owned & member.revoking):
            return
        if member.state == STABLE and member.epoch == self.assignment_epoch:
            return
        kept = member.assigned & member.target
        revoking = member.assigned - kept
        taken = NONE.union(*(each.held for each in self.members.values() if each is not member))
        if revoking and (owned is None or owned & revoking):
            member.state, member.assigned, member.revoking = UNREVOKED, kept, revoking
            member.until_ms = now_ms + member.rebalance_ms
            return
        member.assigned, member.revoking, member.until_ms = kept | (member.target - taken), NONE, 0
        member.state = STABLE if member.assigned == member.target else UNRELEASED
        member.former, member.epoch = member.epoch, self.assignment_epoch


# Assignors ------------------------------------------------------------------------------------------------------------

Topics = Mapping[str, tuple[UUID, int]]
#: Member id -> the topics that it subscribes to.
Subscriptions = Mapping[str, frozenset[str]]
Assignor = Callable[[Subscriptions, Topics, Mapping[str, Places]], dict[str, set[Place]]]


def _uniform(
    members: Mapping[str, frozenset[str]], topics: Topics, before: Mapping[str, Places]
) -> dict[str, set[Place]]:
    """Assigns as many partitions to each of the members that subscribe to the same topics; a member keeps what it has
    if it can."""
    total, extra = divmod(sum(count for _, count in topics.values()), max(1, len(members)))
    ids = {topic_id: (name, count) for name, (topic_id, count) in topics.items()}
    targets: dict[str, set[Place]] = {}
    for member_id in sorted(members, key=lambda each: (-len(before[each]), each)):
        known = (place for place in sorted(before[member_id]) if place[0] in ids and place[1] < ids[place[0]][1])
        kept = [place for place in known if ids[place[0]][0] in members[member_id]]
        quota = total + (extra > 0)
        targets[member_id] = set(kept[:quota])
        extra -= len(targets[member_id]) > total
    taken: set[Place] = set().union(*targets.values())
    for name, (topic_id, count) in topics.items():
        heap = [(len(targets[member_id]), member_id) for member_id in members if name in members[member_id]]
        heapify(heap)
        for place in ((topic_id, number) for number in range(count)):
            if heap and place not in taken:
                load, member_id = heap[0]
                targets[member_id].add(place)
                heapreplace(heap, (load + 1, member_id))
    return targets


def _range(
    members: Mapping[str, frozenset[str]], topics: Topics, before: Mapping[str, Places]
) -> dict[str, set[Place]]:
    """Assigns a run of partitions of each topic to each of its members, in order of their ids."""
    targets: dict[str, set[Place]] = {member_id: set() for member_id in members}
    for name, (topic_id, count) in topics.items():
        listed = sorted(member_id for member_id in members if name in members[member_id])
        for at, member_id in enumerate(listed):
            first, end = (count * each // len(listed) for each in (at, at + 1))
            targets[member_id].update((topic_id, number) for number in range(first, end))
    return targets


#: The assignors by name; the first is the default (group.consumer.assignors).
ASSIGNORS: dict[str, Assignor] = {"uniform": _uniform, "range": _range}

"""`Group`: the members of a consumer group under the classic protocol.

The states are those of Kafka's `ClassicGroup`. `expire` does what Kafka's timers do; handlers call it before they look
at a group. A static member (`group.instance.id`) that comes back causes a rebalance here; Kafka spares it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.kafka_errors import CODES
from kafkawire.testing.state.memory import ENTRY
from kafkawire.testing.state.stored_offsets import GroupOffsets

ILLEGAL_GENERATION = CODES["ILLEGAL_GENERATION"]
INCONSISTENT_GROUP_PROTOCOL = CODES["INCONSISTENT_GROUP_PROTOCOL"]
UNKNOWN_MEMBER_ID = CODES["UNKNOWN_MEMBER_ID"]
REBALANCE_IN_PROGRESS = CODES["REBALANCE_IN_PROGRESS"]

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"


class Member:
    """A member of a group.

    Attributes:
        instance_id: its `group.instance.id`. `protocols`: name -> metadata, in the order of its preference.
        session_ms, rebalance_ms: its timeouts. `seen_ms`: its last request, epoch milliseconds.
        joining: it has sent the JoinGroup of the rebalance. `assignment`: from the leader, in this generation.
    """

    def __init__(self, member_id: str, instance_id: str | None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.protocols: dict[str, bytes] = {}
        self.session_ms = self.rebalance_ms = self.seen_ms = 0
        self.joining = False
        self.assignment = b""


class Group(GroupOffsets):
    """See the module.

    Attributes:
        state: of Kafka's `ClassicGroupState`. `generation`: 0 before the first one.
        protocol_type, protocol: what the members have in common, and what was chosen.
        leader: member id. `members`: by member id.
        announced: member ids that were given out and have not joined yet, with the end of their session.
        roster: member id -> member at the beginning of this generation.
        deadline_ms: when a rebalance continues without the members that have not joined.
    """

    def __init__(self, former: GroupOffsets | None = None) -> None:
        super().__init__(former)
        self.state = EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader = ""
        self.members: dict[str, Member] = {}
        self.announced: dict[str, int] = {}
        self.roster: dict[str, Member] = {}
        self.deadline_ms = 0

    @property
    def count(self) -> int:
        return len(self.members) + len(self.announced)

    @property
    def size(self) -> int:
        members = self.members | self.roster
        protocols = (protocol for member in members.values() for protocol in member.protocols.items())
        return (
            super().size
            + sum(ENTRY + len(member_id) for member_id in (*self.announced, *members))
            + sum(ENTRY + len(name) + len(data) for name, data in protocols)
            + sum(len(member.assignment) for member in members.values())
        )

    # Members ----------------------------------------------------------------------------------------------------------

    def join(
        self, member: Member, protocol_type: str, protocols: Mapping[str, bytes], session_ms: int, rebalance_ms: int
    ) -> int:
        """A member, known or new, sends JoinGroup. Returns the error code, 0 for none.

        Args:
            member: the member.
            protocol_type: `consumer`, `connect`, ...
            protocols: name -> metadata, in the order of its preference.
            session_ms, rebalance_ms: its timeouts.
        """
        others = [other for other in self.members.values() if other is not member]
        common = set(protocols).intersection(*(other.protocols for other in others))
        if not protocol_type or not common or (others and protocol_type != self.protocol_type):
            return INCONSISTENT_GROUP_PROTOCOL
        unchanged = member.member_id in self.members and member.protocols == dict(protocols)
        member.protocols = dict(protocols)
        member.session_ms, member.rebalance_ms = session_ms, rebalance_ms
        self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if unchanged and (self.state == COMPLETING or (self.state == STABLE and member.member_id != self.leader)):
            return 0  # a retry: the answer of this generation was lost
        member.joining = True
        self.rebalance(member.seen_ms)
        return 0

    def rebalance(self, now_ms: int) -> None:
        """Begin a rebalance, or go on with it: it completes as soon as all members have joined."""
        if self.state != PREPARING:
            self.state = PREPARING
            self.deadline_ms = now_ms + max((member.rebalance_ms for member in self.members.values()), default=0)
        if not self.members:
            self.state = EMPTY
            self.generation += 1
            self.protocol_type = self.protocol = None
            self.leader = ""
        elif all(member.joining for member in self.members.values()):
            self._complete(now_ms)

    def _complete(self, now_ms: int) -> None:
        self.generation += 1
        self.state = COMPLETING
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        common = set.intersection(*(set(member.protocols) for member in self.members.values()))
        votes = [next(name for name in member.protocols if name in common) for member in self.members.values()]
        self.protocol = max(votes, key=votes.count)
        self.roster = dict(self.members)
        for member in self.members.values():
            member.joining = False
            member.assignment = b""
            member.seen_ms = now_ms

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """The leader sends SyncGroup."""
        for member_id, member in self.members.items():
            member.assignment = assignments.get(member_id, b"")
        self.state = STABLE

    def remove(self, member_id: str, now_ms: int) -> None:
        """A member leaves."""
        del self.members[member_id]
        self.rebalance(now_ms)

    def expire(self, now_ms: int) -> None:
        """Remove the members whose session has ended, and those that have not joined a rebalance in time."""
        self.announced = {member_id: until for member_id, until in self.announced.items() if now_ms <= until}
        overdue = self.state == PREPARING and now_ms >= self.deadline_ms
        gone = [
            member.member_id
            for member in self.members.values()
            if not member.joining and (overdue or now_ms - member.seen_ms > member.session_ms)
        ]
        for member_id in gone:
            del self.members[member_id]
        if gone:
            self.rebalance(now_ms)

    def check(self, member_id: str, generation: int, now_ms: int) -> int:
        """The error code for a request of a member, 0 for none; the request keeps its session alive.

        Args:
            member_id, generation: of the request.
            now_ms: the broker's clock, epoch milliseconds.
        """
        member = self.members.get(member_id)
        if member is None:
            return UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return ILLEGAL_GENERATION
        member.seen_ms = now_ms
        return 0

    def check_commit(self, member_id: str, generation: int, now_ms: int) -> int:
        if generation < 0 and not member_id:
            return UNKNOWN_MEMBER_ID if self.members else 0
        error = self.check(member_id, generation, now_ms)
        return error or (REBALANCE_IN_PROGRESS if self.state == COMPLETING else 0)

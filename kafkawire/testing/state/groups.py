"""`Groups`: the groups of a mock broker by name, of both protocols, within its memory."""

from __future__ import annotations

from typing import TypeVar

from kafkawire.kafka_errors import CODES
from kafkawire.testing.state.call import MAX_ENTRIES, POLICY_VIOLATION, Call
from kafkawire.testing.state.consumer_group import ConsumerGroup
from kafkawire.testing.state.group import INCONSISTENT_GROUP_PROTOCOL, Group
from kafkawire.testing.state.memory import GROUP, Memory
from kafkawire.testing.state.stored_offsets import GroupOffsets

GROUP_ID_NOT_FOUND = CODES["GROUP_ID_NOT_FOUND"]
MAX_MEMBERS = 1000

G = TypeVar("G", bound=GroupOffsets)
#: The answer to a group that has members of the other protocol, by the class that was asked for.
_OTHER = {Group: INCONSISTENT_GROUP_PROTOCOL, ConsumerGroup: GROUP_ID_NOT_FOUND}


class Groups(dict[str, GroupOffsets]):
    """See the module.

    Args:
        memory: of the broker.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory

    def of(self, name: str, call: Call, kind: type[G], *, create: bool = False) -> G | int | None:
        """A group after its timers; None where there is none; an error code where the request is to fail.

        Args:
            name: of the group.
            call: the request.
            kind: `Group` or `ConsumerGroup`. A group without members changes its kind.
            create: where there is none.
        """
        if call.error:
            return call.error
        found = self.get(name)
        if found is not None:
            found.expire(call.now_ms)
            if isinstance(found, kind):
                return found
            if found.count or not create:
                return _OTHER[kind] if found.count else None
        elif not create:
            return None
        elif len(self) >= MAX_ENTRIES or not self._memory.has_room(GROUP + len(name)):
            return POLICY_VIOLATION
        group = self[name] = kind(found)
        return group

    def account(self, name: str) -> None:
        """After the members or offsets of a group have changed."""
        self._memory.keep(("group", name), self[name].size + len(name))

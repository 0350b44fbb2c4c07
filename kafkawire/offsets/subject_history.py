"""The story of one group or transactional id, from its coordinator's records: what each of them changed. Pure: from
batches to rows, with names instead of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kafkawire import messages
from kafkawire.errors import DecodeError, RecordError
from kafkawire.offsets.group_records import assigned, group_of
from kafkawire.records import Batch, Record, TopicNames
from kafkawire.records.internal_topics import decode_key, decode_value
from kafkawire.records.named_values import DELIVERY_STATES
from kafkawire.rows import HistoryEvent
from kafkawire.transactions.coordinator.coordinator_rules import NEVER, partitions_of, state_name
from kafkawire.transactions.formatting import count, duration, some
from kafkawire.wire.json_form import uuid_text

_NAMED, _RUNS = 4, 12
Place = tuple[str, int]


class SubjectHistory:
    """Takes the batches of one partition of a coordinator's topic, in order.

    Args:
        topic, partition: the partition. `name`: of the group or transactional id.
        topic_names: the name of a topic by its id, where it is known.

    Attributes:
        found: number of its records.
    """

    def __init__(self, topic: str, partition: int, name: str, topic_names: TopicNames | None = None) -> None:
        self.found = 0
        self._topic_names = topic_names
        self._starts: dict[str, int] = {}
        self._topic, self._partition, self._name = topic, partition, name
        self._bytes = name.encode("utf-8", "surrogateescape")
        self._offsets: dict[Place, int] = {}
        self._members: dict[str, frozenset[Place]] = {}
        self._id: messages.TransactionLogValue | None = None
        self._writers: set[int] = set()

    def take(self, batch: Batch) -> Iterator[HistoryEvent]:
        """What a batch changed of it; a record that cannot be read is an event, too."""
        try:
            if batch.is_control:
                control = batch.control
                if batch.producer_id in self._writers and control is not None:
                    self._writers.discard(batch.producer_id)
                    what = f"{control.name} of producer {batch.producer_id}, with the offsets in its transaction"
                    yield self._event(batch.base_offset, batch.max_timestamp, what)
                return
            for record in batch.records:
                if self._bytes in bytes(record.key or b""):
                    for what in self._of_record(batch, record):
                        yield self._event(record.offset, record.timestamp, what)
        except RecordError as error:
            yield self._event(batch.base_offset, batch.max_timestamp, f"cannot be read: {error}", damaged=True)

    def _event(self, offset: int, timestamp: int, what: str, *, damaged: bool = False) -> HistoryEvent:
        return HistoryEvent(
            topic=self._topic, partition=self._partition, offset=offset, timestamp=timestamp, what=what, damaged=damaged
        )

    def _of_record(self, batch: Batch, record: Record) -> Iterator[str]:
        data = bytes(record.key or b"")
        key = decode_key(self._topic, data)
        if key is None or key.message is None:
            return
        message = key.message
        own = message.transactional_id if isinstance(message, messages.TransactionLogKey) else group_of(message)
        if own != self._name:
            return
        self.found += 1
        value = None if record.value is None else decode_value(self._topic, data, bytes(record.value))
        if value is not None and value.message is None:
            yield f"cannot be read: {value.problem}"
            return
        new = None if value is None else value.message
        if isinstance(message, messages.TransactionLogKey):
            yield from self._of_id(new)
        elif isinstance(message, messages.OffsetCommitKey):
            yield from self._of_offset(batch, (message.topic, message.partition), new)
        elif isinstance(message, messages.GroupMetadataKey):
            yield from self._of_group(new)
        elif isinstance(message, (messages.ShareSnapshotKey, messages.ShareUpdateKey)):
            yield self._of_share(message, new)
        else:
            yield _other(message, new)

    # A transactional id ----------------------------------------------------------------------------------------------

    def _of_id(self, new: messages.TransactionLogValue | None) -> Iterator[str]:
        old, self._id = self._id, new
        if new is None:
            yield "expired: the coordinator has forgotten the id (transactional.id.expiration.ms)"
            return
        state = state_name(new.transaction_status)
        who = f"producer {new.producer_id}, epoch {new.producer_epoch}"
        if old is None:
            yield f"first seen here: {state}, {who}"
        elif new.producer_id != old.producer_id:
            yield f"producer {new.producer_id} took over from producer {old.producer_id} (its epochs are used up)"
        elif new.producer_epoch != old.producer_epoch and state in ("Empty", "PrepareEpochFence"):
            yield f"epoch {new.producer_epoch} fenced epoch {old.producer_epoch}: a new instance of the producer began"
        elif new.producer_epoch != old.producer_epoch:
            fenced = state == "PrepareAbort" and state_name(old.transaction_status) == "Ongoing"
            why = "the coordinator or a new instance fenced it" if fenced else "each transaction ends so in version 2"
            yield f"epoch {old.producer_epoch} became {new.producer_epoch} ({why})"
        before = "" if old is None else state_name(old.transaction_status)
        places = partitions_of(new)
        known = partitions_of(old) if old is not None and before == "Ongoing" else frozenset()
        if state == "Ongoing" and places - known:
            limit = new.transaction_timeout_ms
            timeout = "no timeout: two-phase commit" if limit == NEVER else f"timeout {duration(limit)}"
            verb = "added" if before == "Ongoing" else f"a transaction began ({timeout}) with"
            yield f"{verb} {_names(places - known)}"
        elif state == "PrepareCommit":
            yield f"COMMIT is decided, for {_names(places)}"
        elif state == "PrepareAbort":
            yield f"ABORT is decided, for {_names(places)}"
        elif state in ("CompleteCommit", "CompleteAbort"):
            yield f"{'committed' if state == 'CompleteCommit' else 'aborted'}: all markers are written"
        elif state not in (before, "Ongoing", "Empty"):
            yield state

    # A group ---------------------------------------------------------------------------------------------------------

    def _of_offset(self, batch: Batch, place: Place, new: messages.OffsetCommitValue | None) -> Iterator[str]:
        name, old = f"{place[0]}-{place[1]}", self._offsets.get(place)
        if new is None:
            self._offsets.pop(place, None)
            was = "its offset" if old is None else f"offset {old}"
            yield f"{was} of {name} removed (expired, deleted, or its topic was)"
        elif batch.transactional and batch.producer_id >= 0:
            self._writers.add(batch.producer_id)
            yield f"offset {new.offset} of {name} in a transaction of producer {batch.producer_id}"
        else:
            self._offsets[place] = new.offset
            back = "" if old is None or new.offset >= old else f", back from {old}"
            yield f"offset {new.offset} of {name} committed{back}"

    def _of_share(
        self,
        key: messages.ShareSnapshotKey | messages.ShareUpdateKey,
        new: messages.ShareSnapshotValue | messages.ShareUpdateValue | None,
    ) -> str:
        """What a share group has finished with in a partition: a whole state (snapshot), or what changed of it."""
        topic = uuid_text(key.topic_id)
        name = f"{(self._topic_names and self._topic_names(topic)) or topic}-{key.partition}"
        old = self._starts.pop(name, None)
        if new is None:
            return f"the state of {name} was removed"
        start = new.start_offset
        if start < 0 and isinstance(new, messages.ShareUpdateValue):  # it has not changed
            start = -1 if old is None else old
        self._starts[name] = start
        moved = "no offset yet" if start < 0 else f"starts at offset {start}"
        moved = f"still {moved}" if start == old else moved
        kind = ", its whole state" if isinstance(new, messages.ShareSnapshotValue) else ""
        runs = [
            f"{one.first_offset}{'' if one.last_offset == one.first_offset else f'-{one.last_offset}'} "
            f"{DELIVERY_STATES.get(one.delivery_state, one.delivery_state)}"
            f"{f' (delivery {one.delivery_count})' if one.delivery_count > 1 else ''}"
            for one in new.state_batches
        ]
        return f"{name}{kind}: {moved}" + (f"; {some(runs, _RUNS)}" if runs else "")

    def _of_group(self, new: messages.GroupMetadataValue | None) -> Iterator[str]:
        old = self._members
        if new is None:
            self._members = {}
            yield "the group was removed"
            return
        self._members, unread = {}, []
        for one in new.members:
            try:
                self._members[one.member_id] = frozenset(assigned(new, one))
            except DecodeError as error:
                self._members[one.member_id] = old.get(one.member_id, frozenset())
                unread.append(f"the assignment of {one.member_id} cannot be read: {error}")
        clients = {one.member_id: f"{one.client_id!r} at {one.client_host.lstrip('/')}" for one in new.members}
        head = f"generation {new.generation}"
        yield from (f"{head}: {why}" for why in unread)
        for member in sorted(self._members.keys() - old.keys()):
            yield f"{head}: {clients[member]} joined ({member})"
        for member in sorted(old.keys() - self._members.keys()):
            yield f"{head}: member {member} is gone"
        before = {place: member for member, places in old.items() for place in places}
        now = {place: member for member, places in self._members.items() for place in places}
        moved = {place for place in before.keys() | now.keys() if before.get(place) != now.get(place)}
        if moved:
            yield f"{head}: {count(len(moved), 'partition')} moved: {_names(moved)}"
        if not self._members and not old:
            yield f"{head}: it is empty"


def _names(places: Collection[Place]) -> str:
    return some([f"{topic}-{number}" for topic, number in sorted(places)], _NAMED) or "no partition"


def _other(key: Any, value: Any) -> str:
    """A record of another kind: its name, whose it is, and what of it says the most."""
    kind = key.spec.name.removesuffix("Key")
    member = getattr(key, "member_id", None)
    whose = "" if member is None else f" of member {member}"
    place = f" of {key.topic_id}-{key.partition}" if hasattr(key, "topic_id") and hasattr(key, "partition") else ""
    if value is None:
        return f"{kind}{whose}{place} removed"
    told = [
        f"{name} {getattr(value, name)}"
        for name in ("epoch", "member_epoch", "assignment_epoch", "start_offset", "state_epoch", "leader_epoch")
        if hasattr(value, name)
    ]
    return f"{kind}{whose}{place}{': ' if told else ''}{', '.join(told)}"

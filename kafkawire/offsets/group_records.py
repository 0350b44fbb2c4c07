"""The records of groups in copies of `__consumer_offsets` and `__share_group_state`, with the states of their
transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from kafkawire.errors import RecordError
from kafkawire.logdir import Outcomes, Partition, outcomes_of
from kafkawire.logdir.splits import batches_from
from kafkawire.messages import ConsumerProtocolAssignment, GroupMetadataValue
from kafkawire.messages.group_metadata_value import MemberMetadata
from kafkawire.offsets.copied_batches import MissingBefore, lacked
from kafkawire.offsets.leading_replica import Leading, LeadingReplicas
from kafkawire.records import Batch
from kafkawire.records.control import read_prefixed
from kafkawire.records.internal_topics import decode_key, decode_value
from kafkawire.transactions.facts import MissingOffsets
from kafkawire.wire.message import Message


class GroupRecord(NamedTuple):
    """A record of a coordinator.

    Attributes:
        offset, timestamp: of the record. producer_id, producer_epoch: -1 where it is in no transaction.
        state: of its transaction (`transaction_states`). key: its message.
        value: None for a tombstone, and where the value cannot be read: then `problem` says why.
    """

    offset: int
    timestamp: int
    producer_id: int
    state: int
    key: Message
    value: Message | None
    problem: str | None = None
    producer_epoch: int = -1


class _Place(Protocol):
    """An object with a topic and a partition."""

    @property
    def topic(self) -> str | None: ...

    @property
    def partition(self) -> int | None: ...


class GroupLog:
    """A copy of a partition with groups' records. `problems`: what could not be read, or is not here, a sentence
    each."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.outcomes: Outcomes = outcomes_of(partition)
        self.problems: dict[str, None] = dict.fromkeys(lacked(partition, self.outcomes))

    def records(self, wanted: Callable[[bytes], bool] = lambda key: True) -> Iterator[GroupRecord]:
        """The records below the high watermark, in order. `wanted`: whether to decode the record of a key: a quick test
        of its bytes."""
        yield from decoded_records(
            self.partition, self.data_batches(), self.outcomes.high_watermark, self.problems, wanted
        )

    def batches(self, first: int) -> Iterator[Batch]:
        """The batches of data from the one with offset `first` on, up to the high watermark."""
        for batch, _ in self.data_batches(first):
            if batch.base_offset >= self.outcomes.high_watermark:
                return
            if batch.last_offset >= first:
                yield batch

    def data_batches(self, first: int = 0) -> Iterator[tuple[Batch, int]]:
        """The batches of data from the one with offset `first` on, and some before it, with the states of their
        transactions (`transaction_states`)."""
        before = MissingBefore(None if first else self.partition.local_start_offset, self.outcomes.cleaned_to)

        def problem(text: str) -> None:
            before.damaged()
            self.problems[text] = None

        for file, item in batches_from(self.partition.segments, first, problem):
            for start, end in before.take(item):
                self.problems[f"{self.partition.path}: {MissingOffsets(file.path, start, end)}"] = None
            found = item.measured() if isinstance(item, Batch) else item
            if isinstance(found, Batch):
                yield found, self.outcomes.state(found)
                continue
            for index, state in enumerate(self.outcomes.states(found).tolist()):
                batch = found.batch(index)
                if not batch.is_control:
                    yield batch, state


def group_logs(
    replicas: LeadingReplicas, topic: str, numbers: Iterable[int], gaps: list[str], missing: str = ""
) -> Iterator[tuple[Leading, GroupLog]]:
    """The copies of some partitions of a topic.

    Args:
        gaps: gets what cannot be read, a sentence each.
        missing: the end of the sentence on a partition that is not here; empty: there is none.
    """
    for number in numbers:
        leading = replicas.of(topic, number)
        if leading is None:
            gaps += [f"{topic}-{number}{missing}"] if missing else []
            continue
        try:
            log = GroupLog(leading.partition)
        except OSError as error:
            gaps.append(f"{leading.partition.path}: {error.strerror or error}")
            continue
        yield leading, log


def decoded_records(
    place: _Place,
    batches: Iterable[tuple[Batch, int]],
    high: int,
    problems: dict[str, None],
    wanted: Callable[[bytes], bool] = lambda key: True,
) -> Iterator[GroupRecord]:
    """The records of batches of a coordinator's partition, in order.

    Args:
        place: topic and partition. batches: of data, with the states of their transactions.
        high: the high watermark: up to where they are read. problems: gets what cannot be read, a sentence each.
        wanted: see `GroupLog.records`.
    """
    topic = place.topic or ""
    for batch, state in batches:
        if batch.base_offset >= high:
            return
        try:
            for record in batch.records:
                key = record.key
                if record.offset >= high or key is None or not wanted(bytes(key)):
                    continue
                read = decode_key(topic, bytes(key))
                if read is None or read.message is None:
                    why = "null" if read is None else read.problem or "no message"
                    problems[f"{topic}-{place.partition}: the key at offset {record.offset}: {why}"] = None
                    continue
                value = None if record.value is None else decode_value(topic, bytes(key), bytes(record.value))
                problem = None if value is None or value.message is not None else value.problem or "no message"
                yield GroupRecord(
                    offset=record.offset,
                    timestamp=record.timestamp,
                    producer_id=batch.producer_id if batch.transactional else -1,
                    state=state,
                    key=read.message,
                    value=None if value is None else value.message,
                    problem=problem,
                    producer_epoch=batch.producer_epoch if batch.transactional else -1,
                )
        except RecordError as error:
            problems[f"{topic}-{place.partition}: offset {batch.base_offset}: {error}"] = None


def group_of(key: Message) -> str | None:
    """The group that a key belongs to; None for keys of no group."""
    found = getattr(key, "group", None) or getattr(key, "group_id", None)
    return found if isinstance(found, str) else None


def mentions(group: str) -> Callable[[bytes], bool]:
    """Whether the bytes of a key can be of a group."""
    wanted = group.encode("utf-8", "surrogateescape")
    return lambda key: wanted in key


def assigned(group: GroupMetadataValue, member: MemberMetadata) -> Iterable[tuple[str, int]]:
    """The partitions that a member of a group of consumers is assigned; members of other groups, as Kafka Connect's
    workers, have none. Raises DecodeError: its assignment cannot be read."""
    if group.protocol_type != "consumer" or not member.assignment:
        return ()
    found = read_prefixed(ConsumerProtocolAssignment, member.assignment)
    return ((one.topic, number) for one in found.assigned_partitions for number in one.partitions)

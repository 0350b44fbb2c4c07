"""The topics, groups, transactional ids and producer ids that a message names, by the entity types of its schema.

Producer ids in the headers of record batches count too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec

from kafkawire import records
from kafkawire.capture.kafka_fields import kafka_name_of
from kafkawire.capture.topic_names import tells_topic_ids

if TYPE_CHECKING:
    from kafkawire.wire.message import Message, Struct
    from kafkawire.wire.spec import Field


class NamedEntities(msgspec.Struct):
    """Distinct names and ids. `topics` contains names, and topic ids as `uuid.UUID`."""

    topics: set[str | UUID] = msgspec.field(default_factory=set)
    transactional_ids: set[str] = msgspec.field(default_factory=set)
    producer_ids: set[int] = msgspec.field(default_factory=set)
    groups: set[str] = msgspec.field(default_factory=set)

    def add(self, message: Struct, version: int) -> NamedEntities:
        """Adds the entities that a message or nested struct names. Fields of other versions do not count."""
        plan = _plan(type(message))
        for attribute, what, versions in plan.named:
            value = getattr(message, attribute) if version in versions else None
            if value is not None:
                getattr(self, what).update(value if isinstance(value, tuple) else (value,))
        for attribute in plan.batches:
            if (data := getattr(message, attribute)) is not None:
                self._add_batches(data)
        for attribute in plan.nested:
            value = getattr(message, attribute)
            for element in value if isinstance(value, tuple) else (value,):
                if element is not None:
                    self.add(element, version)
        self.producer_ids.discard(-1)
        return self

    def add_values(self, values: Iterable[tuple[int, bytes]]) -> NamedEntities:
        """Adds what the native engine found in a message: what each value names, and its bytes as on the wire."""
        for what, value in values:
            if what == TOPIC:
                self.topics.add(value.decode("utf-8", "surrogateescape"))
            elif what in (TOPIC_ID, NAMED_TOPIC_ID):
                self.topics.add(UUID(bytes=value))
            elif what == TRANSACTIONAL_ID:
                self.transactional_ids.add(value.decode("utf-8", "surrogateescape"))
            elif what in (PRODUCER_ID, PRODUCER):
                self.producer_ids.add(int.from_bytes(value[:8], signed=True))
            elif what == GROUP:
                self.groups.add(value.decode("utf-8", "surrogateescape"))
        self.producer_ids.discard(-1)
        return self

    @property
    def ids(self) -> list[tuple[int, bytes]]:
        """The transactional and producer ids as the native engine finds them in a message."""
        return [
            *((TRANSACTIONAL_ID, each.encode("utf-8", "surrogateescape")) for each in self.transactional_ids),
            *((PRODUCER_ID, each.to_bytes(8, signed=True)) for each in self.producer_ids),
        ]

    def _add_batches(self, data: Any) -> None:
        for item in records.read(data, check_crc=False, check_offsets=False):
            if isinstance(item, records.Batch):
                self.producer_ids.add(item.producer_id)


#: What the native engine finds in messages (`native/src/json/names.rs`).
TOPIC, TOPIC_ID, TRANSACTIONAL_ID, PRODUCER_ID, PRODUCER, NAMED_TOPIC_ID, PRODUCER_EPOCH, GROUP, PARTITION = range(
    1, 10
)


#: Those of spans.
SPAN_NAMES = frozenset((TOPIC, TOPIC_ID, NAMED_TOPIC_ID, GROUP))
#: message -> attributes of its topics, of their partitions, and of a partition's number
PARTITIONS = {
    "ProduceRequest": ("topic_data", "partition_data", "index"),
    "FetchRequest": ("topics", "partitions", "partition"),
    "FetchResponse": ("responses", "partitions", "partition_index"),
    "ListOffsetsRequest": ("topics", "partitions", "partition_index"),
    "OffsetCommitRequest": ("topics", "partitions", "partition_index"),
    "TxnOffsetCommitRequest": ("topics", "partitions", "partition_index"),
    "ShareFetchResponse": ("responses", "partitions", "partition_index"),
    "ShareAcknowledgeRequest": ("topics", "partitions", "partition_index"),
}


def name_codes(cls: type[Message], wanted: Iterable[int], others: Mapping[str, int]) -> list[bytes]:
    """What the fields of a message name that `NamedEntities` finds: of each class of its codec a byte for each field.
    Empty where none does.

    Args:
        cls: the message.
        wanted: the codes that count, the others are 0.
        others: codes of further fields, by their names.
    """
    of_type = {"topicName": TOPIC, "transactionalId": TRANSACTIONAL_ID, "producerId": PRODUCER_ID, "groupId": GROUP}
    codes = {*wanted}
    tells = tells_topic_ids(cls)

    def code(field: Field) -> int:
        found = PRODUCER if field.type == "records" else of_type.get(field.entity_type or "", 0)
        if field.name == "TopicId":
            found = NAMED_TOPIC_ID if tells else TOPIC_ID
        return found if found in codes else others.get(field.name, 0)

    found = [bytes(map(code, struct.spec.fields)) for struct in cls.codec.classes]
    return found if any(map(any, found)) else []


def partition_codes(cls: type[Message]) -> dict[str, int]:
    """The fields of a message that are numbers of partitions, for the native engine."""
    *_, number = PARTITIONS.get(kafka_name_of(cls) or "", ("",))
    fields = (field for struct in cls.codec.classes for field in struct.spec.fields)
    return {field.name: PARTITION for field in fields if field.attribute == number}


class _EntityPlan(NamedTuple):
    """Attributes of a struct: those that name entities (with the kind, and the versions), record batches, and nested
    structs with one of both."""

    named: tuple[tuple[str, str, range], ...]
    batches: tuple[str, ...]
    nested: tuple[str, ...]


#: entity type of the schema -> field of `NamedEntities`
_ENTITIES = {
    "topicName": "topics",
    "transactionalId": "transactional_ids",
    "producerId": "producer_ids",
    "groupId": "groups",
}


@cache
def _plan(cls: type[Struct]) -> _EntityPlan:
    fields = cls.spec.fields
    named = [(f.attribute, _ENTITIES[f.entity_type], f.versions) for f in fields if f.entity_type in _ENTITIES]
    named += [(f.attribute, "topics", f.versions) for f in fields if f.name == "TopicId"]
    batches = tuple(f.attribute for f in fields if f.type == "records")
    nested = tuple(f.attribute for f in fields if f.struct is not None and any(_plan(f.struct)))
    return _EntityPlan(tuple(named), batches, nested)

"""The topics, groups, transactional ids and producer ids that a message names, by the entity types of its schema.

Producer ids in the headers of record batches count too.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec

from kafkawire import records

if TYPE_CHECKING:
    from kafkawire.wire.message import Struct


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

    def _add_batches(self, data: Any) -> None:
        for item in records.read(data, check_crc=False, check_offsets=False):
            if isinstance(item, records.Batch):
                self.producer_ids.add(item.producer_id)


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

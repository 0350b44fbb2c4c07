"""What a message is about: the topics, transactional ids and producer ids that it names, found by the schema's word.

Of record batches, the producer ids in their headers count too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec

from kafkawire import records

if TYPE_CHECKING:
    from kafkawire.wire.message import Struct


class NamedEntities(msgspec.Struct):
    """Names and ids, each once. `topics` holds names, and ids as `uuid.UUID`."""

    topics: set[str | UUID] = msgspec.field(default_factory=set)
    transactional_ids: set[str] = msgspec.field(default_factory=set)
    producer_ids: set[int] = msgspec.field(default_factory=set)

    def add(self, message: Struct, version: int) -> NamedEntities:
        """With what a message, or a struct of one, names in that version: what others have too says nothing in it."""
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
        for item in records.read(data, check_crc=False):
            if isinstance(item, records.Batch):
                self.producer_ids.add(item.producer_id)


class _Plan(NamedTuple):
    """Attributes of a struct: those that name something (what, and in which versions), record batches, structs that
    hold such."""

    named: tuple[tuple[str, str, range], ...]
    batches: tuple[str, ...]
    nested: tuple[str, ...]


#: entity type of the schema -> field of `NamedEntities`
_ENTITIES = {"topicName": "topics", "transactionalId": "transactional_ids", "producerId": "producer_ids"}
_plans: dict[type[Any], _Plan] = {}


def _plan(cls: type[Struct]) -> _Plan:
    plan = _plans.get(cls)
    if plan is None:
        fields = cls.spec.fields
        named = [(f.attribute, _ENTITIES[f.entity_type], f.versions) for f in fields if f.entity_type in _ENTITIES]
        named += [(f.attribute, "topics", f.versions) for f in fields if f.name == "TopicId"]
        batches = tuple(f.attribute for f in fields if f.type == "records")
        nested = tuple(f.attribute for f in fields if f.struct is not None and any(_plan(f.struct)))
        plan = _plans[cls] = _Plan(tuple(named), batches, nested)
    return plan

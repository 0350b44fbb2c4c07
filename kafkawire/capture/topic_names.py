"""`TopicNames`: the names of topics by their ids, from responses that have both (Metadata, CreateTopics, ...).

Requests and responses of later versions name topics by id alone. All views that show a topic resolve its id here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafkawire.capture.kafka_fields import kafka_name, kafka_name_of
from kafkawire.wire.json_form import uuid_text

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

#: Ids that are remembered; of more, those that were learned first are forgotten.
_MOST_TOPICS = 100_000
#: message -> its field with structs that have both the name and the id of a topic
TELLING_TOPICS = {
    "MetadataResponse": "topics",
    "CreateTopicsResponse": "topics",
    "DescribeTopicPartitionsResponse": "topics",
}
_NO_ID = UUID(int=0)


def tells_topic_ids(cls: type[Message]) -> bool:
    """Whether responses of a class have both the names and the ids of topics."""
    return (kafka_name_of(cls) or "") in TELLING_TOPICS


class TopicNames:
    """Learns names from responses."""

    def __init__(self) -> None:
        self._names: OrderedDict[UUID, str] = OrderedDict()

    def learn(self, response: Any) -> bool:
        """Takes the names from a response, if it has names and ids; whether there is a new one.

        Call it for all responses, in their order.
        """
        new = False
        attribute = None if response is None else TELLING_TOPICS.get(kafka_name(response) or "")
        for topic in getattr(response, attribute) if attribute else ():
            new = self.add(topic.topic_id, topic.name) or new
        return new

    def add(self, topic_id: UUID, name: str | None) -> bool:
        """Takes the name of a topic, if there are both; whether it is new."""
        if not name or topic_id == _NO_ID:
            return False
        new = self._names.get(topic_id) != name
        self._names[topic_id] = name
        if len(self._names) > _MOST_TOPICS:
            self._names.popitem(last=False)
        return new

    def ids_of(self, names: frozenset[str]) -> Iterator[UUID]:
        """The ids of topics with these names."""
        return (topic_id for topic_id, name in self._names.items() if name in names)

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of a topic; None where no response had it."""
        return self._names.get(topic_id)

    def shown(self, topic: Any) -> str:
        """The name of a topic in a message, as text: its own, the one that was learned, or its id.

        Args:
            topic: a struct with a `name` or a `topic_id`, or with both.
        """
        name: str = getattr(topic, "name", "")
        topic_id: UUID = getattr(topic, "topic_id", _NO_ID)
        return name or self._names.get(topic_id) or uuid_text(topic_id)

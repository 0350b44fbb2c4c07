"""Names that are added beside numbers and ids in the JSON of messages: names of delivery states, and of topics.

`NAMED` names, for each message, its fields with numbers and the table of each. A new field is one more row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

#: The states of a record in a share group (Kafka's `RecordState`). `acquired` is never stored: a leader keeps it in
#: memory.
DELIVERY_STATES = {0: "available", 1: "acquired", 2: "acknowledged", 3: "archiving", 4: "archived"}

#: message -> JSON path of a field with a number -> the names of numbers
NAMED: dict[str, dict[str, Mapping[int, str]]] = {
    "ShareSnapshotValue": {"stateBatches.deliveryState": DELIVERY_STATES},
    "ShareUpdateValue": {"stateBatches.deliveryState": DELIVERY_STATES},
}

#: Id of a topic, as the JSON form has it -> its name; None where it is not known.
TopicNames = Callable[[str], str | None]


def add_names(name: str, body: dict[str, Any]) -> None:
    """Puts the name of a number beside it, at the field's name and `Name`; `unknown_9` for a number without one.

    Args:
        name: of Kafka's message.
        body: the message in its JSON form; it is changed.
    """
    for parents, field, names in _fields_of(name):
        for place in _objects(body, parents):
            number = place.get(field)
            if isinstance(number, int):
                place[f"{field}Name"] = names.get(number, f"unknown_{number}")


def add_topic_names(body: Any, names: TopicNames) -> None:
    """Puts the names of topics beside their ids (`topicName` beside `topicId`), wherever a message has no name.

    Args:
        body: JSON of a message; it is changed.
        names: what is not known to it stays alone.
    """
    if isinstance(body, list):
        for one in body:
            add_topic_names(one, names)
    elif isinstance(body, dict):
        for one in list(body.values()):
            add_topic_names(one, names)
        id = body.get("topicId")
        if isinstance(id, str) and not {"topicName", "name", "topic"} & body.keys():
            found = names(id)
            if found is not None:
                body["topicName"] = found


def _objects(value: Any, path: list[str]) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for element in value:
            yield from _objects(element, path)
    elif isinstance(value, dict):
        if not path:
            yield value
        elif path[0] in value:
            yield from _objects(value[path[0]], path[1:])


@cache
def _fields_of(name: str) -> tuple[tuple[list[str], str, Mapping[int, str]], ...]:
    paths = ((path.split("."), names) for path, names in NAMED.get(name, {}).items())
    return tuple((parents, field, names) for (*parents, field), names in paths)

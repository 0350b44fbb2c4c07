"""The internal topics: which messages their keys and values hold.

Coordinators write keys that begin with an int16 api key, and values that begin with an int16 version; which message it
is follows from the topic (a family of messages each) and the key. `__cluster_metadata` has no keys: its values begin
with unsigned varints, a frame version, an api key and a version (Kafka's `AbstractApiMessageSerde`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire._lookup import lookup
from kafkawire.errors import DecodeError, UnsupportedVersionError
from kafkawire.wire.json_form import to_json
from kafkawire.wire.read import FAILURES, read_uvarint

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

#: topic -> family of the messages in it
COORDINATOR_TOPICS = {
    "__transaction_state": "transaction",
    "__consumer_offsets": "group",
    "__share_group_state": "share",
}
CLUSTER_METADATA = "__cluster_metadata"
#: The topics whose records `decode_key` and `decode_value` know.
INTERNAL_TOPICS = frozenset({*COORDINATOR_TOPICS, CLUSTER_METADATA})


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """A key or a value of an internal topic.

    Attributes:
        name: the message's name; None where the number in front names none that is known.
        version: the version it was written in; for a key, whose number in front is an api key, the message's only one.
        message: None where it could not be decoded; the bytes are still in the record.
        problem: why not.
    """

    name: str | None = None
    version: int | None = None
    message: Any = None
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """`{"name", "version", "data"}`, data in the message's JSON form; with a `problem` where there is one."""
        data = None if self.message is None else to_json(self.message, self.version or 0, unknown_tags=True)
        shown = {"name": self.name, "version": self.version, "data": data}
        return shown | {"problem": self.problem} if self.problem else shown


def decoded(topic: str | None, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """Both of a record, as JSON: `{"key": ..., "value": ...}`, each None where it holds no message (a null value is a
    tombstone); None for a topic whose records are none."""
    if topic is None or topic not in INTERNAL_TOPICS:
        return None
    found = {"key": decode_key(topic, key), "value": decode_value(topic, key, value)}
    return {name: part.to_json() if part else None for name, part in found.items()}


def decode_key(topic: str, key: bytes | None) -> Decoded | None:
    """What a record's key says; None for a topic whose keys are no messages, and for a null key."""
    family = COORDINATOR_TOPICS.get(topic)
    if family is None or key is None:
        return None
    number = _int16(key)
    found = _lookup(number, "coordinator-key", family)
    if number is None or found is None:
        return Decoded(problem=_unknown("key type", number))
    return _decode(found, key, found.spec.valid_versions[-1], 2)


def decode_value(topic: str, key: bytes | None, value: bytes | None) -> Decoded | None:
    """What a record's value says; None for a topic whose values are no messages, and for a null value (a tombstone)."""
    if value is None:
        return None
    if topic == CLUSTER_METADATA:
        return _decode_metadata(value)
    family = COORDINATOR_TOPICS.get(topic)
    if family is None:
        return None
    version = _int16(value)
    number = None if key is None else _int16(key)
    found = _lookup(number, "coordinator-value", family)
    if found is None or version is None:
        return Decoded(version=version, problem=_unknown("key type", number))
    return _decode(found, value, version, 2)


def _decode_metadata(value: bytes) -> Decoded:
    try:
        frame, position = read_uvarint(value, 0)
        number, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except FAILURES:
        return Decoded(problem="no frame version, api key and version in front")
    if frame != 1:
        return Decoded(problem=f"frame version {frame}; 1 is known")
    found = _lookup(number, "metadata", "metadata")
    if found is None:
        return Decoded(version=version, problem=_unknown("record type", number))
    return _decode(found, value, version, position)


def _decode(message: type[Message], data: bytes, version: int, offset: int) -> Decoded:
    # Bytes behind the message are left alone, as Kafka's own readers leave them.
    name = message.spec.name
    try:
        return Decoded(name, version, message.decode_from(data, version, offset=offset)[0])
    except (DecodeError, UnsupportedVersionError) as error:
        return Decoded(name, version, problem=str(error))


def _lookup(number: int | None, kind: str, family: str) -> type[Message] | None:
    if number is None:
        return None
    try:
        return lookup(api_key=number, kind=kind, family=family)
    except LookupError:
        return None


def _int16(data: bytes) -> int | None:
    return int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else None


def _unknown(what: str, number: int | None) -> str:
    return f"no {what} at its beginning" if number is None else f"unknown {what} {number}"

"""The internal topics: the messages in their keys and values, and functions that decode them.

Coordinators write keys that begin with an int16 api key, and values that begin with an int16 version; which message it
is follows from the topic (a family of messages each) and the key. `__cluster_metadata` and `__remote_log_metadata` have
no keys: their values begin with unsigned varints, a frame version, an api key and a version (Kafka's
`AbstractApiMessageSerde`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkawire._lookup import lookup
from kafkawire.records.decoded_message import Decoded, RecordMessages, decode, int16
from kafkawire.records.named_values import TopicNames
from kafkawire.wire.read import FAILURES, read_uvarint

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

#: topic -> family of the messages in it
COORDINATOR_TOPICS = {
    "__transaction_state": "transaction",
    "__consumer_offsets": "group",
    "__share_group_state": "share",
}
#: Where brokers note what they copy to a tier (KIP-405).
REMOTE_LOG_METADATA = "__remote_log_metadata"
CLUSTER_METADATA = "__cluster_metadata"
#: topic -> family of the messages in its values, which are framed
FRAMED_TOPICS = {CLUSTER_METADATA: "metadata", REMOTE_LOG_METADATA: "storage"}
#: The topics whose records `decode_key` and `decode_value` decode.
INTERNAL_TOPICS = frozenset({*COORDINATOR_TOPICS, *FRAMED_TOPICS})


def decoded(
    topic: str | RecordMessages | None,
    key: bytes | None,
    value: bytes | None,
    *,
    show_secrets: bool = False,
    topic_names: TopicNames | None = None,
) -> dict[str, Any] | None:
    """Key and value of a record, as JSON: `{"key": ..., "value": ...}`.

    Args:
        topic: name of the topic, or the messages in it.
        key, value: bytes of the record; None for null.
        show_secrets: do not redact secrets.
        topic_names: puts names beside the ids of topics.

    Returns:
        Each part is None where it holds no message (a null value is a tombstone). None for a topic whose records are
        no messages.
    """
    found: dict[str, Decoded | None]
    if isinstance(topic, RecordMessages):
        parts = {"key": (topic.key, key), "value": (topic.value, value)}
        found = {name: None if how is None or data is None else how.read(data) for name, (how, data) in parts.items()}
    elif topic in INTERNAL_TOPICS:
        found = {"key": decode_key(topic, key), "value": decode_value(topic, key, value)}
    else:
        return None
    return {
        name: part.to_json(show_secrets=show_secrets, topic_names=topic_names) if part else None
        for name, part in found.items()
    }


def decode_key(topic: str, key: bytes | None) -> Decoded | None:
    """The message in a record's key; None for a topic whose keys are no messages, and for a null key."""
    family = COORDINATOR_TOPICS.get(topic)
    if family is None or key is None:
        return None
    number = int16(key)
    found = _lookup(number, "coordinator-key", family)
    if number is None or found is None:
        return Decoded(problem=_unknown("key type", number))
    return decode(found, key, found.spec.valid_versions[-1], 2)


def decode_value(topic: str, key: bytes | None, value: bytes | None) -> Decoded | None:
    """The message in a record's value; None for a topic whose values are no messages, and for a null value.

    Args:
        topic: name of the topic.
        key: bytes of the record's key, by which coordinators distinguish types of values.
        value: bytes; None for null.
    """
    if value is None:
        return None
    framed = FRAMED_TOPICS.get(topic)
    if framed is not None:
        return _decode_framed(value, framed)
    family = COORDINATOR_TOPICS.get(topic)
    if family is None:
        return None
    version = int16(value)
    number = int16(key)
    found = _lookup(number, "coordinator-value", family)
    if found is None or version is None:
        return Decoded(version=version, problem=_unknown("key type", number))
    return decode(found, value, version, 2)


def _decode_framed(value: bytes, family: str) -> Decoded:
    try:
        frame, position = read_uvarint(value, 0)
        number, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except FAILURES:
        return Decoded(problem="no frame version, api key and version in front")
    if frame != 1:
        return Decoded(problem=f"frame version {frame}; 1 is known")
    found = _lookup(number, "metadata", family)
    if found is None:
        return Decoded(version=version, problem=_unknown("record type", number))
    return decode(found, value, version, position)


@lru_cache(maxsize=256)  # bounded: the numbers are not trusted
def _lookup(number: int | None, kind: str, family: str) -> type[Message] | None:
    if number is None:
        return None
    try:
        return lookup(api_key=number, kind=kind, family=family)
    except LookupError:
        return None


def _unknown(what: str, number: int | None) -> str:
    return f"no {what} at its beginning" if number is None else f"unknown {what} {number}"

"""`Decoded`: a message in a record's key or value, and the functions that read it after the version in front of it.

`RecordMessages` states which messages the keys and values of a topic are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire.errors import DecodeError, UnsupportedVersionError
from kafkawire.messages import REGISTRY
from kafkawire.records.inside_bytes import CONTENTS, add_decoded
from kafkawire.records.named_values import NAMED, TopicNames, add_names, add_topic_names
from kafkawire.records.secrets import hides_secrets, redact
from kafkawire.wire.json_form import to_json

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

#: Fields of GroupMetadataValue's members that Kafka's dump tool shows as messages, in place of their bytes.
_OF_MEMBERS = ("subscription", "assignment")


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """A key or a value of an internal topic, or of a control record.

    Attributes:
        name: the message's name; None where the number in front names none that is known.
        version: the version it was written in; for a key, whose number in front is an api key, the message's only one.
        message: None where it could not be decoded; the bytes are still in the record.
        problem: why it could not be decoded.
    """

    name: str | None = None
    version: int | None = None
    message: Any = None
    problem: str | None = None

    @property
    def secret(self) -> bool:
        """Whether the record contains credentials, tokens or passwords."""
        return self._released and hides_secrets(self.name, self.message)

    @property
    def _released(self) -> bool:
        """Whether the message is Kafka's, and not one of other schemas with its name."""
        entry = REGISTRY.entries.get(self.name or "")
        return entry is not None and (self.message is None or REGISTRY.load(entry) is type(self.message))

    def to_json(self, *, show_secrets: bool = False, topic_names: TopicNames | None = None) -> dict[str, Any]:
        """`{"name", "version", "data"}`, data in the message's JSON form; with a `problem` where there is one.

        The decoded content of bytes is beside them, at the field's name and `Decoded` (`inside_bytes`). In the metadata
        of a consumer group, `subscription` and `assignment` are replaced by the consumer protocol's messages in JSON
        form, as in Kafka's dump tool, if their version is known; otherwise they stay base64. Where they cannot be
        decoded, `problem` has the reason. Names are beside numbers and ids (`named_values`).
        """
        problem = self.problem
        data = None if self.message is None else to_json(self.message, self.version or 0, unknown_tags=True)
        if data is not None:
            if self.name in CONTENTS and self._released:
                add_decoded(self.name, data)
                if self.name == "GroupMetadataValue" and data.get("protocolType") == "consumer":
                    problem = "; ".join(_consumer_protocol(data)) or problem
            if self.name in NAMED and self._released:
                add_names(self.name, data)
            if topic_names is not None:
                add_topic_names(data, topic_names)
            if self.secret and not show_secrets:
                redact(self.name, data)
        shown = {"name": self.name, "version": self.version, "data": data}
        return shown | {"problem": problem} if problem else shown


class MessageFormat(msgspec.Struct, frozen=True, gc=False):
    """How a key or a value holds a message: in one version, or after an int16 with its version (`version` is None)."""

    message: type[Message]
    version: int | None

    def read(self, data: bytes) -> Decoded:
        """The message that all of the bytes are."""
        version = int16(data) if self.version is None else self.version
        if version is None:
            return Decoded(self.message.spec.name, problem="no version at its beginning")
        try:
            found = self.message.decode(data, version, offset=2 if self.version is None else 0)
        except (DecodeError, UnsupportedVersionError) as error:
            return Decoded(self.message.spec.name, version, problem=str(error))
        return Decoded(self.message.spec.name, version, found)


class RecordMessages(msgspec.Struct, frozen=True, gc=False):
    """The messages in a topic's keys and values; None where they are not decoded."""

    key: MessageFormat | None = None
    value: MessageFormat | None = None


def decode(message: type[Message], data: bytes, version: int, offset: int) -> Decoded:
    """The message that begins at `offset`. Bytes after it are ignored, as by Kafka's own readers.

    Args:
        message: its class.
        data: a key or value of a record.
        version: of the message.
        offset: of its first byte in `data`.
    """
    name = message.spec.name
    try:
        return Decoded(name, version, message.decode_from(data, version, offset=offset)[0])
    except (DecodeError, UnsupportedVersionError) as error:
        return Decoded(name, version, problem=str(error))


def int16(data: bytes | None) -> int | None:
    """The number in front; None where there are too few bytes."""
    return int.from_bytes(data[:2], "big", signed=True) if data is not None and len(data) >= 2 else None


def _consumer_protocol(data: dict[str, Any]) -> Iterator[str]:
    """Puts the messages of a group of consumers in place of their bytes; yields why some are not read."""
    for member in data["members"]:
        for field in _OF_MEMBERS:
            found = member.get(f"{field}Decoded")
            if found is None:
                continue  # the member has none
            if problem := found.get("problem"):
                yield f"{field} of member {member['memberId']!r}: {problem}"
            elif found["version"] <= REGISTRY.entries[found["name"]].high:
                member[field] = member.pop(f"{field}Decoded")["data"]

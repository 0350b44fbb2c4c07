"""`Decoded`: a message that was found in a record, and how it is read from the version in front of it."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire._lookup import lookup
from kafkawire.errors import DecodeError, KafkaWireError, UnsupportedVersionError
from kafkawire.records.secrets import hides_secrets, redact
from kafkawire.wire.json_form import to_json

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

#: The embedded protocol of Kafka's own consumers: bytes inside of GroupMetadataValue's members (`ConsumerProtocol`).
_CONSUMER_PROTOCOL = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


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
        return hides_secrets(self.name, self.message)

    def to_json(self, *, show_secrets: bool = False) -> dict[str, Any]:
        """`{"name", "version", "data"}`, data in the message's JSON form; with a `problem` where there is one.

        Of a consumer group's metadata, `subscription` and `assignment` are the consumer protocol's messages in JSON
        form too, where they can be decoded; otherwise they stay base64 (as Kafka's dump tool shows them).
        """
        data = None if self.message is None else to_json(self.message, self.version or 0, unknown_tags=True)
        if data is not None:
            if self.name == "GroupMetadataValue" and data.get("protocolType") == "consumer":
                _consumer_protocol(data)
            if self.secret and not show_secrets:
                redact(self.name, data)
        shown = {"name": self.name, "version": self.version, "data": data}
        return shown | {"problem": self.problem} if self.problem else shown


def decode(message: type[Message], data: bytes, version: int, offset: int) -> Decoded:
    """The message that begins at `offset`. Bytes behind it are ignored, as by Kafka's own readers.

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


def _consumer_protocol(data: dict[str, Any]) -> None:
    for member in data["members"]:
        for field, name in _CONSUMER_PROTOCOL.items():
            raw = b64decode(member[field] or "")
            version = int16(raw)
            if version is None:
                continue
            try:
                found, _ = lookup(name).decode_from(raw, version, offset=2)
            except KafkaWireError:
                continue
            member[field] = to_json(found, version)

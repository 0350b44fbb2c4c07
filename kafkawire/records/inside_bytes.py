"""The content of fields with bytes, and how it is decoded: one table for captures, dumps and all other views of
messages.

`CONTENTS` names, for each message, its fields with bytes and the content of each. `FORMATS` states how a content is
read; further tables have the formats that depend on the protocol type of a group or on its assignor. Another field or
assignor is one more row of a table.

`add_decoded` puts the decoded value beside the bytes, at the field's name and `Decoded`; or the reason why there is
none. The bytes stay. An empty field has nothing beside it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire.errors import DecodeError, UnsupportedVersionError
from kafkawire.records.secrets import REDACTED
from kafkawire.wire.json_form import to_json

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

#: What fields with bytes contain.
SUBSCRIPTION, ASSIGNMENT = "subscription", "assignment"
CONSUMER_SUBSCRIPTION = "consumer's subscription"
SUBSCRIPTION_DATA, ASSIGNMENT_DATA = "user data of a subscription", "user data of an assignment"
CONNECT_ASSIGNMENT, PRINCIPAL, ADDRESS, TEXT = "Connect's assignment", "principal", "IP address", "text"
TELEMETRY, FRAME = "client telemetry", "frame of a message"

#: message -> JSON path of a field with bytes -> its content
CONTENTS: dict[str, dict[str, str]] = {
    "ConnectWorkerState": {"allocation": CONNECT_ASSIGNMENT},
    "ConsumerGroupMemberMetadataValue": {"classicMemberMetadata.supportedProtocols.metadata": CONSUMER_SUBSCRIPTION},
    "ConsumerProtocolAssignment": {"userData": ASSIGNMENT_DATA},
    "ConsumerProtocolSubscription": {"userData": SUBSCRIPTION_DATA},
    "DescribeGroupsResponse": {
        "groups.members.memberMetadata": SUBSCRIPTION,
        "groups.members.memberAssignment": ASSIGNMENT,
    },
    "EnvelopeRequest": {"requestData": FRAME, "requestPrincipal": PRINCIPAL, "clientHostAddress": ADDRESS},
    "EnvelopeResponse": {"responseData": FRAME},
    "GroupMetadataValue": {"members.subscription": SUBSCRIPTION, "members.assignment": ASSIGNMENT},
    "JoinGroupRequest": {"protocols.metadata": SUBSCRIPTION},
    "JoinGroupResponse": {"members.metadata": SUBSCRIPTION},
    "PushTelemetryRequest": {"metrics": TELEMETRY},
    "SaslAuthenticateRequest": {"authBytes": TEXT},
    "SaslAuthenticateResponse": {"authBytes": TEXT},
    "SubscriptionInfoData": {"userEndPoint": TEXT, "clientTags.key": TEXT, "clientTags.value": TEXT},
    "SyncGroupRequest": {"assignments.assignment": ASSIGNMENT},
    "SyncGroupResponse": {"assignment": ASSIGNMENT},
}
#: Fields whose bytes are not decoded: keys, hashes, and data that only a plugin of the broker can read.
PLAIN_BYTES: dict[str, tuple[str, ...]] = {
    "AlterUserScramCredentialsRequest": ("upsertions.salt", "upsertions.saltedPassword"),
    "CreateDelegationTokenResponse": ("hmac",),
    "DescribeDelegationTokenResponse": ("tokens.hmac",),
    "ExpireDelegationTokenRequest": ("hmac",),
    "RemoteLogSegmentMetadataRecord": ("customMetadata",),
    "RemoteLogSegmentMetadataSnapshotRecord": ("customMetadata",),
    "RemoteLogSegmentMetadataUpdateRecord": ("customMetadata",),
    "RenewDelegationTokenRequest": ("hmac",),
    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey"),
}

#: The key, in the object with the bytes or in one around it, that names a group's protocol type.
TYPE_KEY = "protocolType"
#: message -> the key that names the assignor
ASSIGNOR_KEYS = {
    "ConsumerGroupMemberMetadataValue": "name",
    "DescribeGroupsResponse": "protocolData",
    "GroupMetadataValue": "protocol",
    "JoinGroupRequest": "name",
    "JoinGroupResponse": "protocolName",
    "SyncGroupRequest": "protocolName",
    "SyncGroupResponse": "protocolName",
}


class Found(msgspec.Struct, frozen=True, gc=False):
    """The content that was found in bytes.

    Attributes:
        name: of the message, or of another content.
        version: that the bytes were written in; None where they state none.
        data: the message in its JSON form, as far as it was read; or a text.
        problem: why not all of it could be read.
        note: what is no problem, such as bytes that readers pass over.
    """

    name: str | None = None
    version: int | None = None
    data: Any = None
    problem: str | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """`{"name", "version", "data"}`, with a `problem` and a `note` where there is one."""
        shown = {"name": self.name, "version": self.version, "data": self.data}
        more = {"problem": self.problem, "note": self.note}
        return shown | {key: value for key, value in more.items() if value}


class Format(msgspec.Struct, frozen=True, gc=False):
    """How a content is read: data, which emitters of readers in other languages have, too.

    Attributes:
        how: `int16`, a message after its version; `int32`, a message whose first field is its version; `version`, a
            message of `version`; `first`, the first of `formats` that takes all of the bytes; `text`; `address`; or
            `none`, it is not decoded.
        name: of the message, or of the content.
        version: of the message, where the bytes do not state it.
        newer: a version above the highest is read as the highest, as by Java.
        formats: those of `first`.
        why: it is not decoded.
    """

    how: str
    name: str = ""
    version: int = 0
    newer: bool = False
    formats: tuple[Format, ...] = ()
    why: str = ""

    def read(self, data: bytes) -> Found:
        """The content of the bytes."""
        return _READERS[self.how](self, data)


#: Content, bytes as base64, protocol type and assignor -> JSON.
Shown = Callable[[str, str, str | None, str | None], Any]


# Formats -------------------------------------------------------------------------------------------------------------


def _behind_int16(format: Format, data: bytes) -> Found:
    if len(data) < 2:
        return Found(format.name, problem="no version at its beginning")
    return _message(format, data, int.from_bytes(data[:2], "big", signed=True), offset=2)


def _int32_field(format: Format, data: bytes) -> Found:
    if len(data) < 4:
        return Found(format.name, problem="no version at its beginning")
    return _message(format, data, int.from_bytes(data[:4], "big", signed=True), offset=0)


def _of_version(format: Format, data: bytes) -> Found:
    return _message(format, data, format.version, offset=0)


def _first(format: Format, data: bytes) -> Found:
    """The content by the first format that takes all of the bytes; if none does, by the first that reads a whole
    message."""
    found = [each.read(data) for each in format.formats]
    return min(found, key=lambda each: (each.problem is not None, each.note is not None))


def _message(format: Format, data: bytes, version: int, offset: int) -> Found:
    """The message at `offset`. Bytes after it are a note."""
    name = format.name
    cls = _class(name)
    known = cls.spec.valid_versions
    read_as = known[-1] if format.newer and version > known[-1] else version
    notes = [] if read_as == version else [f"version {version} was read as {read_as}, the highest that is known"]
    problem = None
    try:
        message, end = cls.decode_from(data, read_as, offset=offset)
    except UnsupportedVersionError as error:
        return Found(name, version, problem=str(error))
    except DecodeError as error:
        if error.partial is None:
            return Found(name, version, problem=str(error))
        message, problem, end = error.partial, str(error), len(data)
    if end < len(data):
        notes.append(f"{len(data) - end} byte{'s' * (len(data) - end != 1)} left over behind the message")
    shown = to_json(message, read_as, unknown_tags=True)
    return Found(name, version, shown, problem, "; ".join(notes) or None)


def _class(name: str) -> type[Message]:
    from kafkawire import embedded, messages

    registry = embedded.REGISTRY if name in embedded.REGISTRY.entries else messages.REGISTRY
    return registry.load(registry.entries[name])


def _text(_: Format, data: bytes) -> Found:
    try:
        return Found(TEXT, data=data.decode())
    except UnicodeDecodeError as error:
        return Found(TEXT, problem=f"no text: at byte {error.start}: not UTF-8")


def _address(_: Format, data: bytes) -> Found:
    if len(data) not in (4, 16):
        return Found(ADDRESS, problem=f"{len(data)} bytes, where an address has 4 or 16")
    return Found(ADDRESS, data=str(ip_address(data)))


_READERS: dict[str, Callable[[Format, bytes], Found]] = {
    "address": _address,
    "first": _first,
    "int16": _behind_int16,
    "int32": _int32_field,
    "none": lambda format, _: Found(format.name, problem=format.why),
    "text": _text,
    "version": _of_version,
}

_OTLP = (
    "metrics of OpenTelemetry, in protobuf, of which Kafka has no schema; decompressed as compressionType "
    "states they are a MetricsData of opentelemetry-proto"
)
_FRAMED = "the header and the body of a request or response; `kafkawire decode --frame` decodes it"
_CONSUMER = {
    SUBSCRIPTION: Format("int16", "ConsumerProtocolSubscription", newer=True),
    ASSIGNMENT: Format("int16", "ConsumerProtocolAssignment", newer=True),
}
_CONNECT = {
    SUBSCRIPTION: Format("int16", "ConnectWorkerState", newer=True),
    ASSIGNMENT: Format("int16", "ConnectAssignment", newer=True),
}
#: content -> how it is read
FORMATS: dict[str, Format] = {
    ADDRESS: Format("address", ADDRESS),
    CONNECT_ASSIGNMENT: _CONNECT[ASSIGNMENT],
    CONSUMER_SUBSCRIPTION: _CONSUMER[SUBSCRIPTION],
    FRAME: Format("none", FRAME, why=_FRAMED),
    PRINCIPAL: Format("int16", "DefaultPrincipalData"),
    TELEMETRY: Format("none", "MetricsData", why=_OTLP),
    TEXT: Format("text", TEXT),
}
#: content -> protocol type -> how it is read
BY_TYPE: dict[str, dict[str, Format]] = {
    content: {"consumer": _CONSUMER[content], "connect": _CONNECT[content]} for content in (SUBSCRIPTION, ASSIGNMENT)
}
_STICKY_NAME = "StickyAssignorUserData"
#: The assignor sticky. Java writes version 1 and reads 0, too; kafka-python 3 writes a version in front of it.
_STICKY = (Format("version", _STICKY_NAME, 1), Format("version", _STICKY_NAME, 0), Format("int16", _STICKY_NAME))
#: content -> assignor -> how it is read. librdkafka's cooperative-sticky writes the user data of sticky, and gives it
#: back in assignments.
BY_ASSIGNOR: dict[str, dict[str, Format]] = {
    SUBSCRIPTION_DATA: {
        "cooperative-sticky": Format(
            "first", formats=(Format("version", "CooperativeStickyAssignorUserData", 0), *_STICKY)
        ),
        "sticky": Format("first", formats=_STICKY),
        "stream": Format("int32", "SubscriptionInfoData"),
    },
    ASSIGNMENT_DATA: {
        "cooperative-sticky": Format("first", formats=_STICKY),
        "stream": Format("int32", "AssignmentInfo"),
    },
}


# Fields --------------------------------------------------------------------------------------------------------------


def add_decoded(
    name: str,
    body: dict[str, Any],
    *,
    protocol_type: str | None = None,
    assignor: str | None = None,
    shown: Shown | None = None,
) -> None:
    """Puts what is inside of a message's bytes beside them, at the field's name and `Decoded`.

    Args:
        name: of Kafka's message, or of one inside of another.
        body: the message in its JSON form; it is changed. A field that is `[redacted]` stays alone.
        protocol_type, assignor: those of the message around it, where this one does not state them.
        shown: in place of `shown_inside`.
    """
    show = shown or shown_inside
    for parents, field, content in _fields_of(name):
        for place, *around in _objects(body, parents, ()):
            text = place.get(field)
            if not text or text == REDACTED:
                continue
            chain = (place, *around)
            kind = _nearest(chain, TYPE_KEY) or protocol_type
            chosen = _nearest(chain, ASSIGNOR_KEYS.get(name)) or assignor
            place[f"{field}Decoded"] = show(content, text, kind, chosen)


def shown_inside(
    content: str, text: str, protocol_type: str | None = None, assignor: str | None = None
) -> dict[str, Any]:
    """The JSON of what is inside of bytes, and of what is inside of bytes in that.

    Args:
        content, protocol_type, assignor: see `inside`.
        text: the bytes as base64.
    """
    found = inside(content, b64decode(text), protocol_type, assignor)
    if found.name is not None and isinstance(found.data, dict):
        add_decoded(found.name, found.data, protocol_type=protocol_type, assignor=assignor)
    return found.to_json()


def inside(content: str, data: bytes, protocol_type: str | None = None, assignor: str | None = None) -> Found:
    """The content of bytes; malformed ones give a problem, never an exception.

    Where the message does not state the protocol type (JoinGroup responses before version 7, SyncGroup before 5) or
    the assignor, it is the only one that is known whose layout all of the bytes fit, in a version that is known.

    Args:
        content: as in `CONTENTS`.
        data: the bytes.
        protocol_type, assignor: of the group; None where they are not known.
    """
    if content in FORMATS:
        return FORMATS[content].read(data)
    if content in BY_TYPE:
        return _by_name(BY_TYPE[content], protocol_type, "protocol type", content, data)
    return _by_name(BY_ASSIGNOR[content], assignor, "assignor", content, data)


def _by_name(formats: Mapping[str, Format], name: str | None, what: str, content: str, data: bytes) -> Found:
    if name and name in formats:
        return formats[name].read(data)
    if name:
        known = ", ".join(sorted(formats))
        return Found(problem=f"the {content} of {what} {name!r} is not known; of {known} it is")
    unstated = f"the message does not state the {what}"
    found = [each.read(data) for each in formats.values()]
    whole = {each.name: each for each in found if each.problem is None and each.note is None}
    if len(whole) != 1:
        return Found(problem=f"{unstated}, and the bytes fit {'more than one' if whole else 'no'} layout that is known")
    return msgspec.structs.replace(*whole.values(), note=f"{unstated}; the bytes fit this layout alone")


def _objects(value: Any, path: list[str], around: tuple[dict[str, Any], ...]) -> Iterator[tuple[dict[str, Any], ...]]:
    """The objects at a path, each with those around it, from the inside out."""
    if isinstance(value, list):
        for element in value:
            yield from _objects(element, path, around)
    elif isinstance(value, dict):
        if not path:
            yield (value, *around)
        elif path[0] in value:
            yield from _objects(value[path[0]], path[1:], (value, *around))


def _nearest(chain: tuple[dict[str, Any], ...], key: str | None) -> str | None:
    """The text at a key of the innermost object that has it."""
    for each in chain:
        if key in each:
            found: str | None = each[key]
            return found
    return None


@cache
def _fields_of(name: str) -> tuple[tuple[list[str], str, str], ...]:
    """The keys to the objects with bytes, the field, and its content."""
    paths = ((path.split("."), content) for path, content in CONTENTS.get(name, {}).items())
    return tuple((parents, field, content) for (*parents, field), content in paths)

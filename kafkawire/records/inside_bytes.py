"""What is inside of fields with bytes: one table, for captures, dumps and whatever else shows messages.

`CONTENTS` names, for each message, its fields with bytes and the content of each. `FORMATS` states how a content is
read; where it depends on the protocol type of a group or on its assignor, by that name. Rows of the tables are data:
another field or another assignor is one more row.

`add_decoded` puts the decoded value beside the bytes, at the field's name and `Decoded`; or the reason why there is
none. The bytes stay. An empty field has nothing beside it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
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
#: Fields whose bytes are what they are: keys, hashes, and what a plugin of the broker alone can read.
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
_TYPE_KEY = "protocolType"
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
    """What bytes contain.

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


Format = Callable[[bytes], Found]
#: Content, bytes as base64, protocol type and assignor -> JSON.
Shown = Callable[[str, str, str | None, str | None], Any]


# Formats -------------------------------------------------------------------------------------------------------------


def _behind_int16(name: str, data: bytes, *, newer: bool = True) -> Found:
    """A message behind its int16 version. `newer`: a version above the highest is read as the highest, as by Java."""
    if len(data) < 2:
        return Found(name, problem="no version at its beginning")
    version = int.from_bytes(data[:2], "big", signed=True)
    return _message(name, data, version, offset=2, newer=newer)


def _int32_field(name: str, data: bytes) -> Found:
    """A message whose first field is its version, an int32."""
    if len(data) < 4:
        return Found(name, problem="no version at its beginning")
    return _message(name, data, int.from_bytes(data[:4], "big", signed=True), offset=0)


def _of_version(name: str, version: int, data: bytes) -> Found:
    """A message without its version."""
    return _message(name, data, version, offset=0)


def _fitting(formats: tuple[Format, ...], data: bytes) -> Found:
    """What the first format reads that takes all of the bytes; if none does, the first that reads a whole message."""
    return min((read(data) for read in formats), key=lambda found: (found.problem is not None, found.note is not None))


def _message(name: str, data: bytes, version: int, offset: int, *, newer: bool = False) -> Found:
    """The message at `offset`. Bytes behind it are a note."""
    cls = _class(name)
    known = cls.spec.valid_versions
    read_as = known[-1] if newer and version > known[-1] else version
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


def _text(data: bytes) -> Found:
    try:
        return Found(TEXT, data=data.decode())
    except UnicodeDecodeError as error:
        return Found(TEXT, problem=f"no text: at byte {error.start}: not UTF-8")


def _address(data: bytes) -> Found:
    if len(data) not in (4, 16):
        return Found(ADDRESS, problem=f"{len(data)} bytes, where an address has 4 or 16")
    return Found(ADDRESS, data=str(ip_address(data)))


def _not_decoded(name: str, why: str, data: bytes) -> Found:
    return Found(name, problem=why)


_OTLP = "metrics of OpenTelemetry (OTLP, protobuf), compressed as compressionType states, are not decoded"
_FRAMED = "the header and the body of a request or response; `kafkawire decode --frame` decodes it"
_CONSUMER = {
    SUBSCRIPTION: partial(_behind_int16, "ConsumerProtocolSubscription"),
    ASSIGNMENT: partial(_behind_int16, "ConsumerProtocolAssignment"),
}
_CONNECT = {
    SUBSCRIPTION: partial(_behind_int16, "ConnectWorkerState"),
    ASSIGNMENT: partial(_behind_int16, "ConnectAssignment"),
}
#: content -> how it is read
FORMATS: dict[str, Format] = {
    ADDRESS: _address,
    CONNECT_ASSIGNMENT: _CONNECT[ASSIGNMENT],
    CONSUMER_SUBSCRIPTION: _CONSUMER[SUBSCRIPTION],
    FRAME: partial(_not_decoded, FRAME, _FRAMED),
    PRINCIPAL: partial(_behind_int16, "DefaultPrincipalData", newer=False),
    TELEMETRY: partial(_not_decoded, "MetricsData", _OTLP),
    TEXT: _text,
}
#: content -> protocol type -> how it is read
BY_TYPE: dict[str, dict[str, Format]] = {
    content: {"consumer": _CONSUMER[content], "connect": _CONNECT[content]} for content in (SUBSCRIPTION, ASSIGNMENT)
}
#: The assignor sticky. Java writes version 1 and reads 0, too; kafka-python 3 writes a version in front of it.
_STICKY: tuple[Format, ...] = (
    partial(_of_version, "StickyAssignorUserData", 1),
    partial(_of_version, "StickyAssignorUserData", 0),
    partial(_behind_int16, "StickyAssignorUserData", newer=False),
)
#: content -> assignor -> how it is read. librdkafka's cooperative-sticky writes the user data of sticky, and gives it
#: back in assignments.
BY_ASSIGNOR: dict[str, dict[str, Format]] = {
    SUBSCRIPTION_DATA: {
        "cooperative-sticky": partial(
            _fitting, (partial(_of_version, "CooperativeStickyAssignorUserData", 0), *_STICKY)
        ),
        "sticky": partial(_fitting, _STICKY),
        "stream": partial(_int32_field, "SubscriptionInfoData"),
    },
    ASSIGNMENT_DATA: {
        "cooperative-sticky": partial(_fitting, _STICKY),
        "stream": partial(_int32_field, "AssignmentInfo"),
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
            kind = _nearest(chain, _TYPE_KEY) or protocol_type
            chosen = _nearest(chain, ASSIGNOR_KEYS.get(name)) or assignor
            place[f"{field}Decoded"] = show(content, text, kind, chosen)


def shown_inside(
    content: str, text: str, protocol_type: str | None = None, assignor: str | None = None
) -> dict[str, Any]:
    """The JSON of what is inside of bytes, and of what is inside of bytes in that.

    Args:
        content, protocol_type, assignor: as of `inside`.
        text: the bytes as base64.
    """
    found = inside(content, b64decode(text), protocol_type, assignor)
    if found.name is not None and isinstance(found.data, dict):
        add_decoded(found.name, found.data, protocol_type=protocol_type, assignor=assignor)
    return found.to_json()


def inside(content: str, data: bytes, protocol_type: str | None = None, assignor: str | None = None) -> Found:
    """What is inside of bytes: never an exception, whatever they are.

    Where the message does not state the protocol type (JoinGroup responses before version 7, SyncGroup before 5) or
    the assignor, it is the only one that is known whose layout all of the bytes fit, in a version that is known.

    Args:
        content: as in `CONTENTS`.
        data: the bytes.
        protocol_type, assignor: of the group; None where they are not known.
    """
    if content in FORMATS:
        return FORMATS[content](data)
    if content in BY_TYPE:
        return _by_name(BY_TYPE[content], protocol_type, "protocol type", content, data)
    return _by_name(BY_ASSIGNOR[content], assignor, "assignor", content, data)


def _by_name(formats: Mapping[str, Format], name: str | None, what: str, content: str, data: bytes) -> Found:
    if name and name in formats:
        return formats[name](data)
    if name:
        known = ", ".join(sorted(formats))
        return Found(problem=f"the {content} of {what} {name!r} is not known; of {known} it is")
    unstated = f"the message does not state the {what}"
    found = [read(data) for read in formats.values()]
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

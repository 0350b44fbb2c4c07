"""The topics, groups, producers, brokers and endpoints that a message names: found by kind, and rewritten.

A proxy rewrites the endpoints of every response, whatever the message:

    visit.rewrite(response, {visit.ENDPOINT: lambda endpoint: visit.Endpoint("proxy", endpoint.port + 20_000)})

What a field names is known from its schema: from its entity type, from its own name where Kafka's schemas state none
(`_NAMED`, `_NAMED_IN`), and from a ResourceType beside it. Bytes are not looked into: record batches, members'
metadata, enclosed requests. Neither is what only the request explains, such as the key of a FindCoordinatorResponse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

if TYPE_CHECKING:
    from kafkawire.wire.message import Struct

BROKER_ID = "brokerId"
GROUP_ID = "groupId"
PRODUCER_ID = "producerId"
TOPIC_NAME = "topicName"
TRANSACTIONAL_ID = "transactionalId"
#: A host and its port, as one `Endpoint`.
ENDPOINT = "endpoint"

M = TypeVar("M", bound="Struct")
#: Takes a value and returns the one that takes its place. Values are `int`, `str` or `Endpoint`, by kind.
Rewrite = Callable[[Any], Any]


class Endpoint(NamedTuple):
    """Host and port of a broker, as clients are to reach it."""

    host: str
    port: int


class Found(NamedTuple):
    """A value that names something.

    Attributes:
        kind: `TOPIC_NAME` and so on.
        path: place of the value inside the message, `topics[3].name`; of an endpoint, that of the host.
        value: the name or number; an `Endpoint` for that kind. What stands for "none" is not found: null, an empty
            string or host, -1.
    """

    kind: str
    path: str
    value: Any


def find(message: Struct, *kinds: str) -> Iterator[Found]:
    """What a message or a struct names, in the order of its fields.

    Args:
        message: a message, or a struct of one.
        kinds: those to look for; all of them by default.

    Raises:
        ValueError: there is no kind of that name.
    """
    _check_kinds(kinds)
    return _find(message, frozenset(kinds or _KINDS), "")


def rewrite(message: M, rewrites: Mapping[str, Rewrite]) -> M:
    """The message with values replaced; the same object where none differs.

    Args:
        message: a message, or a struct of one.
        rewrites: kind -> function of a value as `find` has it. Each element of an array is one value.
    """
    _check_kinds(rewrites)
    changes: dict[str, Any] = {}
    for site in _sites(type(message)):
        held = getattr(message, site.attribute)
        if site.kind == _NESTED:
            changes[site.attribute] = _each(held, lambda one: rewrite(one, rewrites))
        elif (function := rewrites.get(site.kind_in(message))) is None:
            continue
        elif site.port is None:
            changes[site.attribute] = _each(held, function)
        elif held not in _NONE:
            changes[site.attribute], changes[site.port] = function(Endpoint(held, getattr(message, site.port)))
    changes = {name: new for name, new in changes.items() if not _is_same(getattr(message, name), new)}
    return replace(message, **changes) if changes else message


# Where the values are -------------------------------------------------------------------------------------------------

_KINDS = frozenset({BROKER_ID, GROUP_ID, PRODUCER_ID, TOPIC_NAME, TRANSACTIONAL_ID, ENDPOINT})
#: Not kinds: a field with structs; a field whose kind depends on the ResourceType beside it.
_NESTED, _RESOURCE = "", "resource"
#: Values that name nothing.
_NONE = (None, "", -1)

#: Type and name of a field -> kind, where Kafka's schemas state no entity type: in records, mostly.
_NAMED = {
    ("string", "GroupId"): GROUP_ID,
    ("string", "group"): GROUP_ID,
    ("string", "Topic"): TOPIC_NAME,
    ("string", "topic"): TOPIC_NAME,
    ("string", "TopicName"): TOPIC_NAME,
    ("[]string", "SubscribedTopicNames"): TOPIC_NAME,
    ("[]string", "SourceTopics"): TOPIC_NAME,
    ("[]string", "RepartitionSinkTopics"): TOPIC_NAME,
    ("string", "TransactionalId"): TRANSACTIONAL_ID,
    ("int64", "ProducerId"): PRODUCER_ID,
    ("int64", "PreviousProducerId"): PRODUCER_ID,
    ("int64", "NextProducerId"): PRODUCER_ID,
    ("int32", "BrokerId"): BROKER_ID,
    ("string", "ResourceName"): _RESOURCE,
}
#: Struct and name of a field -> kind, where the field's name alone says too little.
_NAMED_IN = {
    ("ConsumerGroupRegularExpressionValue", "Topics"): TOPIC_NAME,
    ("ConsumerProtocolSubscription", "Topics"): TOPIC_NAME,
    ("LeaderIdAndEpoch", "LeaderId"): BROKER_ID,
    ("QuorumStateData", "LeaderId"): BROKER_ID,
    ("TopicIdPartitionEntry", "Name"): TOPIC_NAME,
    ("TopicInfo", "Name"): TOPIC_NAME,
}
#: ResourceType of configurations and of access control -> kind; the two share no number that is in use here.
_RESOURCES = {2: TOPIC_NAME, 3: GROUP_ID, 5: TRANSACTIONAL_ID, 32: GROUP_ID}
#: Name of a host's field -> that of its port. A host without a port is a client's, or that of an access rule.
_PORTS = {"Host": "Port", "HostName": "Port", "V0Host": "V0Port"}


def _check_kinds(kinds: Iterable[str]) -> None:
    if unknown := set(kinds) - _KINDS:
        raise ValueError(f"no kinds of values: {', '.join(sorted(unknown))}; there are {', '.join(sorted(_KINDS))}")


class _Site(NamedTuple):
    """An attribute with values of a kind; of an endpoint that of the host, and `port`."""

    attribute: str
    kind: str
    port: str | None = None

    def kind_in(self, message: Any) -> str:
        """The kind; empty for a resource of another type."""
        return _RESOURCES.get(message.resource_type, "") if self.kind == _RESOURCE else self.kind


def _sites(cls: type[Any]) -> tuple[_Site, ...]:
    """The attributes of a class that hold values, kept with the class's codec."""
    known: dict[type[Any], tuple[_Site, ...]] = cls.codec.visited
    if cls not in known:
        known[cls] = tuple(_read_sites(cls))
    return known[cls]


def _read_sites(cls: type[Any]) -> Iterator[_Site]:
    attributes = {field.name: field.attribute for field in cls.spec.fields}
    for field in cls.spec.fields:
        port = attributes.get(_PORTS.get(field.name, ""))
        kind = field.entity_type or _NAMED_IN.get((cls.spec.name, field.name)) or _NAMED.get((field.type, field.name))
        if field.struct is not None:
            if _sites(field.struct):
                yield _Site(field.attribute, _NESTED)
        elif field.type == "string" and port is not None:
            yield _Site(field.attribute, ENDPOINT, port)
        elif kind is not None and (kind != _RESOURCE or "ResourceType" in attributes):
            yield _Site(field.attribute, kind)


def _find(message: Any, kinds: frozenset[str], prefix: str) -> Iterator[Found]:
    for site in _sites(type(message)):
        path = prefix + site.attribute
        held = getattr(message, site.attribute)
        if site.kind != _NESTED and site.kind_in(message) not in kinds:
            continue
        for place, one in enumerate(held) if isinstance(held, tuple) else ((None, held),):
            where = path if place is None else f"{path}[{place}]"
            if one in _NONE:
                continue
            if site.kind == _NESTED:
                yield from _find(one, kinds, f"{where}.")
            else:
                named = one if site.port is None else Endpoint(one, getattr(message, site.port))
                yield Found(site.kind_in(message), where, named)


def _each(held: Any, function: Rewrite) -> Any:
    if isinstance(held, tuple):
        return tuple(_each(one, function) for one in held)
    return held if held in _NONE else function(held)


def _is_same(held: Any, new: Any) -> bool:
    if isinstance(held, tuple):
        return len(held) == len(new) and all(map(_is_same, held, new))
    return held is new or (not hasattr(held, "spec") and type(held) is type(new) and bool(held == new))

"""The topics, groups, producers, brokers and endpoints that a message names: found by kind, and rewritten.

A proxy rewrites the endpoints of every response, whatever the message:

    visit.rewrite(response, {visit.ENDPOINT: lambda endpoint: visit.Endpoint("proxy", endpoint.port + 20_000)})

What a field names is known from its schema: from its entity type, from its own name where Kafka's schemas state none
(`_NAMED`, `_NAMED_IN`), and from a ResourceType beside it. Bytes are not looked into: record batches, members'
metadata, enclosed requests. Neither is what only the request explains, such as the key of a FindCoordinatorResponse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

from kafkawire.wire import layout

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


def may_name(message: type[Struct], *kinds: str) -> bool:
    """Whether messages of a class may have values of these kinds, by its schema.

    Args:
        message: the class of a message or a struct.
        kinds: those to look for; all of them by default.
    """
    _check_kinds(kinds)
    return bool(_sites(message, frozenset(kinds or _KINDS)))


def rewrite(message: M, rewrites: Mapping[str, Rewrite]) -> M:
    """The message with values replaced; the same object where none differs.

    Args:
        message: a message, or a struct of one.
        rewrites: kind -> function of a value as `find` has it. Each element of an array is one value.
    """
    _check_kinds(rewrites)
    plan = _plan(type(message), frozenset(rewrites))
    return message if plan is None else plan(message, rewrites)


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
    """An attribute with values of a kind.

    Attributes:
        attribute: of an endpoint that of the host. `port`: that of its port.
        kind: of the values; `_NESTED` for structs, `_RESOURCE` where the value beside it says which.
        kinds: all that the values may be.
        struct: the class of structs. `text`: whether the values are strings.
    """

    attribute: str
    kind: str
    kinds: frozenset[str]
    port: str | None = None
    struct: Any = None
    text: bool = True

    def kind_in(self, message: Any) -> str:
        """The kind; empty for a resource of another type."""
        return _RESOURCES.get(message.resource_type, "") if self.kind == _RESOURCE else self.kind


def _sites(cls: type[Any], kinds: frozenset[str]) -> tuple[_Site, ...]:
    """The attributes of a class with values of these kinds, or with structs that have such; kept with its codec."""
    known: dict[Any, Any] = cls.codec.visited
    key = cls, kinds
    if key not in known:
        known[key] = tuple(site for site in _read_sites(cls, kinds) if not site.kinds.isdisjoint(kinds))
    found: tuple[_Site, ...] = known[key]
    return found


def _read_sites(cls: type[Any], kinds: frozenset[str]) -> Iterator[_Site]:
    attributes = {field.name: field.attribute for field in cls.spec.fields}
    for field in cls.spec.fields:
        port = attributes.get(_PORTS.get(field.name, ""))
        kind = field.entity_type or _NAMED_IN.get((cls.spec.name, field.name)) or _NAMED.get((field.type, field.name))
        if field.struct is not None:
            if _sites(field.struct, kinds):
                yield _Site(field.attribute, _NESTED, kinds, struct=field.struct)
        elif field.type == "string" and port is not None:
            yield _Site(field.attribute, ENDPOINT, frozenset({ENDPOINT}), port)
        elif kind is not None and (kind != _RESOURCE or "ResourceType" in attributes):
            named = frozenset(_RESOURCES.values()) if kind == _RESOURCE else frozenset({kind})
            yield _Site(field.attribute, kind, named, text=field.kind == layout.STRING)


def _find(message: Any, kinds: frozenset[str], prefix: str) -> Iterator[Found]:
    for site in _sites(type(message), kinds):
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


# Rewriting ------------------------------------------------------------------------------------------------------------


def _plan(cls: type[Any], kinds: frozenset[str]) -> Any:
    """The function that rewrites values of these kinds in messages of a class; None where there are none.

    It is compiled once: a proxy rewrites thousands of partitions in a response, and a loop over what a schema says of
    each of them takes ten times as long as a statement for each attribute.
    """
    known: dict[Any, Any] = cls.codec.visited
    key = cls, kinds, "plan"
    if key not in known:
        known[key] = _compiled(cls, kinds) if _sites(cls, kinds) else None
    return known[key]


def _compiled(cls: type[Any], kinds: frozenset[str]) -> Any:
    scope: dict[str, Any] = {
        "Endpoint": Endpoint, "RESOURCES": _RESOURCES, "is_": is_, "replace": replace, "same": _same_values,
    }  # fmt: skip
    lines = ["def plan(message, rewrites):"]
    same, changes = [], []
    for number, site in enumerate(_sites(cls, kinds)):
        old, new, function = f"old_{number}", f"new_{number}", f"function_{number}"
        lines.append(f"{old} = message.{site.attribute}")
        if site.kind == _NESTED:
            scope[function] = _plan(site.struct, kinds)
            each = f"tuple([{function}(one, rewrites) for one in {old}])"
            alone = f"{function}({old}, rewrites)"
            lines.append(f"{new} = {old} if not {old} else {each} if {old}.__class__ is tuple else {alone}")
            same.append(f"({new} is {old} or ({old}.__class__ is tuple and all(map(is_, {new}, {old}))))")
        elif site.port is not None:
            lines.append(f"port_{number} = message.{site.port}")
            lines.append(f"{new}, new_port_{number} = (")
            lines.append(
                f"    rewrites[{site.kind!r}](Endpoint({old}, port_{number})) if {old} else ({old}, port_{number})"
            )
            lines.append(")")
            same.append(f"same({new}, {old}) and same(new_port_{number}, port_{number})")
            changes.append(f"{site.port}=new_port_{number}")
        else:
            if site.kind == _RESOURCE:
                lines.append(f"{function} = rewrites.get(RESOURCES.get(message.resource_type))")
            else:
                lines.append(f"{function} = rewrites[{site.kind!r}]")
            none = "not {}" if site.text else "{} == -1"
            each = f"tuple([one if {none.format('one')} else {function}(one) for one in {old}])"
            alone = f"{old} if {old} is None or {none.format(old)} else {function}({old})"
            if site.kind == _RESOURCE:
                lines.append(f"{new} = {alone} if {function} is not None else {old}")
            else:
                lines.append(f"{new} = {each} if {old}.__class__ is tuple else {alone}")
            same.append(f"({new} is {old} or same({new}, {old}))")
        changes.append(f"{site.attribute}={new}")
    lines.append(f"if {' and '.join(same)}:")
    lines.append("    return message")
    lines.append(f"return replace(message, {', '.join(changes)})")
    exec("\n    ".join(lines), scope)  # attributes are identifiers: the compiler of schemas made them
    return scope["plan"]


def _same_values(new: Any, old: Any) -> bool:
    """Whether values are equal and of the same types: True is no 1."""
    if type(new) is not type(old) or new != old:
        return False
    return not isinstance(new, tuple) or list(map(type, new)) == list(map(type, old))

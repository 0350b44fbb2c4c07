"""Raw schemas -> the model. Every mistake of every schema is found in one go, with file, place and reason.

The rules for messages are those of Kafka's MessageSpec, StructRegistry and ApiMessageTypeGenerator; those for the
fields of a struct are in `rules`, those for the structs of a message in `structs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.codegen.load import RawSchema, located
from kafkawire.codegen.model import MessageModel
from kafkawire.codegen.quoting import quote
from kafkawire.codegen.reading import SchemaNode, nearest
from kafkawire.codegen.rules import class_name, is_class_name
from kafkawire.codegen.structs import resolve_structs
from kafkawire.codegen.versions import ALL_VERSIONS, HIGHEST, VersionRange
from kafkawire.errors import Problem, SchemaError

MESSAGE_KEYS = (
    "name", "aliases", "type", "apiKey", "listeners", "validVersions", "deprecatedVersions", "flexibleVersions",
    "latestVersionUnstable", "about", "fields", "commonStructs",
)  # fmt: skip
KINDS = ("request", "response", "header", "metadata", "data", "coordinator-key", "coordinator-value")
#: Kinds whose messages are identified by their api key.
KEYED_KINDS = ("request", "response", "metadata", "coordinator-key", "coordinator-value")
LISTENERS = ("zkBroker", "broker", "controller")
#: The families of Kafka's messages other than `rpc`.
FAMILIES = ("common", "group", "metadata", "raft", "share", "storage", "transaction")
_SUFFIXES = {"request": "Request", "response": "Response"}


class Resolved(NamedTuple):
    """The messages of a namespace, sorted by name, and what is allowed in their schemas and has no effect."""

    messages: list[MessageModel]
    warnings: list[Problem]


def resolve(raws: Iterable[RawSchema], *, drafts: bool = False) -> list[MessageModel]:
    """The messages of `resolve_with_warnings`."""
    return resolve_with_warnings(raws, drafts=drafts).messages


def resolve_with_warnings(raws: Iterable[RawSchema], *, drafts: bool = False) -> Resolved:
    """The messages of one namespace; SchemaError with every problem of every schema.

    Schemas whose `validVersions` is "none" (messages that Kafka removed) give no message. In a namespace of `drafts`,
    layouts that are never sent, messages of all kinds may lack an apiKey.
    """
    raws = list(raws)
    problems: list[Problem] = []
    warnings: list[Problem] = []
    nodes = [(SchemaNode(raw.data, raw.file, "", problems, warnings), raw.family) for raw in raws]
    messages = [message for node, folder in nodes if (message := _read_message(node, folder, drafts)) is not None]
    _check_namespace(messages)
    if problems:
        raise SchemaError(_by_place(located(raws, problems)))
    return Resolved(
        sorted((message for _, message in messages), key=lambda message: message.name),
        _by_place(located(raws, warnings)),
    )


def family_of(kind: str, folder: str) -> str:
    """The family of a message: the set of messages within which its api key is unique.

    Requests, responses and headers are `rpc`. Records and coordinators' keys and values are those of the topic that
    `folder` is named after, as in `schemas/kafka`; in other folders metadata records are `metadata`, structs `common`,
    and keys and values those of a topic of their own, named as the folder.
    """
    if kind in ("request", "response", "header"):
        return "rpc"
    if folder in FAMILIES or kind.startswith("coordinator-"):
        return folder
    return "metadata" if kind == "metadata" else "common"


def _by_place(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.file)


def _read_message(node: SchemaNode, folder: str, drafts: bool) -> tuple[SchemaNode, MessageModel] | None:
    """The message, of use only if no problem was noted; None for one that was removed."""
    node.check_keys(MESSAGE_KEYS)
    name = class_name(node)
    kind = _read_kind(node)
    valid = _read_valid(node)
    flexible = _read_flexible(node, removed=not valid)
    node.versions("deprecatedVersions")
    suffix = _SUFFIXES.get(kind, "")
    if name and not name.endswith(suffix):
        node.problem(f"the name of a {kind} ends in {suffix}", "name")
    api_key = node.integer("apiKey", HIGHEST)
    if kind in KEYED_KINDS and node.data.get("apiKey") is None and valid and not drafts:
        node.problem(f"a {kind} needs an apiKey")
    root, structs = resolve_structs(node, name, valid or ALL_VERSIONS, flexible)
    if not valid:
        return None
    return node, MessageModel(
        name=name,
        kind=kind,
        family=folder if drafts else family_of(kind, folder),
        valid=valid,
        flexible=flexible & valid,
        root=root,
        structs=structs,
        api_key=api_key,
        listeners=_read_listeners(node, kind),
        latest_version_unstable=_read_unstable(node, kind),
        about=node.text("about") or "",
        aliases=_read_aliases(node),
        source=node.file,
    )


def _read_kind(node: SchemaNode) -> str:
    kind = node.required("type")
    if kind is None or kind in KINDS:
        return kind or ""
    node.problem(f"there is no type of message {quote(kind)}{nearest(kind, KINDS)}", "type")
    return ""


def _read_valid(node: SchemaNode) -> VersionRange:
    if node.data.get("validVersions") is None:
        node.problem("the key 'validVersions' is missing")
    valid = node.versions("validVersions")
    if valid and valid.open_ended:
        node.problem(f"{valid} must have an end", "validVersions")
    return ALL_VERSIONS if valid is None else valid


def _read_flexible(node: SchemaNode, *, removed: bool) -> VersionRange:
    if node.data.get("flexibleVersions") is None and not removed:
        node.problem("the key 'flexibleVersions' is missing ('none' where there are none)")
    flexible = node.versions("flexibleVersions")
    if flexible and not flexible.open_ended:
        node.problem(f"{flexible} must be 'none' or have an open end, as in '{flexible.low}+'", "flexibleVersions")
    return ALL_VERSIONS if flexible is None else flexible


def _read_listeners(node: SchemaNode, kind: str) -> tuple[str, ...]:
    listeners = node.texts("listeners")
    for listener in listeners:
        if listener not in LISTENERS:
            node.problem(f"there is no listener {quote(listener)}{nearest(listener, LISTENERS)}", "listeners")
    if listeners and kind not in ("request", ""):
        node.problem(f"only requests have listeners, not a {kind}", "listeners")
    return listeners


def _read_unstable(node: SchemaNode, kind: str) -> bool:
    unstable = node.flag("latestVersionUnstable")
    if unstable and kind not in ("request", ""):
        node.problem(f"is for requests only, not for a {kind}", "latestVersionUnstable")
    return unstable


def _read_aliases(node: SchemaNode) -> tuple[str, ...]:
    aliases = node.texts("aliases")
    for alias in aliases:
        if not is_class_name(alias):
            node.problem(f"{quote(alias)} will not do as a name: a capital, then letters and digits", "aliases")
    return aliases


def _check_namespace(messages: list[tuple[SchemaNode, MessageModel]]) -> None:
    """One name, one message; and within a family one message of a kind for an api key.

    Names that differ in the case of letters only would be one module where file names know no case.
    """
    names: dict[str, SchemaNode] = {}
    keys: dict[tuple[str, str, int], SchemaNode] = {}
    for node, message in messages:
        if message.name and (other := names.setdefault(message.name.lower(), node)) is not node:
            node.problem(f"{message.name} is the name of {other.file} already", "name")
        if message.api_key is None or not message.kind:
            continue
        if (other := keys.setdefault((message.family, message.kind, message.api_key), node)) is not node:
            node.problem(f"{message.api_key} is the key of the {message.kind} in {other.file} already", "apiKey")
    for node, message in messages:
        for alias in message.aliases:
            if (other := names.setdefault(alias.lower(), node)) is not node:
                node.problem(f"{alias} is the name of {other.file} already", "aliases")

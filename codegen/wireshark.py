"""The Wireshark emitter: messages -> one Lua plugin, the layouts as tables and a hand-written runtime that walks them.

A field's filter is `kafkawire.<message>.<field>` in snake case. A request and its response share `<message>`, so their
fields of one name and type share a filter, whose description has the sentences of all their places. Where types differ,
the later fields have their struct's name in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from kafkawire.codegen import names
from kafkawire.codegen.lower import lower, since
from kafkawire.codegen.model import FieldModel, MessageModel, StructModel
from kafkawire.codegen.quoting import lua_string
from kafkawire.codegen.render import environment
from kafkawire.wire.layout import INT8, INT16, INT64, KIND_NAMES, STRING, UUID, Layout, LayoutTag, Op
from kafkawire.wire.spec import json_name

#: The runtime, in the order of its parts in the plugin.
RUNTIME = tuple(
    f"wireshark_{part}.lua"
    for part in ("fields", "values", "layouts", "unpack", "records", "inside", "frames", "streams")
)

#: What the runtime's own fields begin with.
_RESERVED = frozenset({"batch", "record", "unknown_tag"})

#: What a number means, by the ending of its field's name and its kind; each is a key of `DisplayRules.numbers`.
_MEANINGS = (
    (re.compile("ErrorCode$"), INT16, "error"),
    (re.compile("^(Request)?ApiKey$"), INT16, "api_key"),
    (re.compile("^TransactionStatus$"), INT8, "transaction_state"),
    (re.compile("^IsolationLevel$"), INT8, "isolation_level"),
    (re.compile("^KeyType$"), INT8, "coordinator_type"),
    (re.compile("^PermissionType$"), INT8, "permission"),
    (re.compile("(^|Resource)PatternType(Filter)?$"), INT8, "pattern_type"),
    (re.compile("^Mechanism$"), INT8, "scram_mechanism"),
    (re.compile("^ConfigOperation$"), INT8, "config_operation"),
    (re.compile("^Type$"), INT16, "control_type"),
)
_TIMESTAMP = re.compile("[Tt]imestamp(Ms)?$|^TransactionStartTimeMs$|^LogAppendTimeMs$")

#: Numbers that no table of the schemas names (Kafka's enums of the same names).
_ENUMS: dict[str, dict[int, str]] = {
    "isolation_level": {0: "READ_UNCOMMITTED", 1: "READ_COMMITTED"},
    "coordinator_type": {0: "GROUP", 1: "TRANSACTION", 2: "SHARE"},
    "permission": {0: "UNKNOWN", 1: "ANY", 2: "DENY", 3: "ALLOW"},
    "pattern_type": {0: "UNKNOWN", 1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED"},
    "scram_mechanism": {0: "UNKNOWN", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"},
    "config_operation": {0: "SET", 1: "DELETE", 2: "APPEND", 3: "SUBTRACT"},
}


@dataclass(frozen=True, slots=True)
class DisplayRules:
    """Names and secrets that the plugin shows beyond the schemas.

    Attributes:
        numbers: the names of numbers: `error`, `api_key`, `transaction_state`, `control_type`.
        control_messages: the type in a control record's key -> the message in its value.
        secrets: message -> JSON paths of fields that are not shown.
        configs: message -> JSON paths of configurations, structs with a `name` and a `value`; "" is the message itself.
        secret_words: a configuration with one of them in its name is not shown.
        inside: message -> JSON paths of fields with bytes -> what is in them.
        formats: what is in bytes -> how it is read, as tables of the runtime (`wireshark_inside.lua`).
        protocol_type: the JSON name of fields that state the protocol type of a group.
        assignors: message -> the JSON name of its field that states the assignor of a group.
    """

    numbers: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    control_messages: Mapping[int, str] = field(default_factory=dict)
    secrets: Mapping[str, Iterable[str]] = field(default_factory=dict)
    configs: Mapping[str, Iterable[str]] = field(default_factory=dict)
    secret_words: Iterable[str] = ()
    inside: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    formats: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    protocol_type: str = ""
    assignors: Mapping[str, str] = field(default_factory=dict)


class _Shown(NamedTuple):
    """A field as Wireshark has it. `meaning` names how the runtime shows it beyond its type, or is empty."""

    filter: str
    label: str
    type: str
    meaning: str
    about: str


def render_wireshark(messages: Iterable[MessageModel], rules: DisplayRules) -> str:
    """The source of the plugin for those messages."""
    shown = _Fields(rules)
    rendered = [_message(message, shown) for message in sorted(messages, key=lambda message: message.name)]
    templates = Path(__file__).parent / "templates"
    return (
        environment()
        .get_template("wireshark.lua.jinja")
        .render(
            fields=shown.fields,
            numbers=sorted((_ENUMS | {key: dict(value) for key, value in rules.numbers.items()}).items()),
            control_messages=sorted(rules.control_messages.items()),
            secret_words=list(rules.secret_words),
            inside=[(content, _lua(format)) for content, format in sorted(rules.formats.items())],
            messages=rendered,
            runtime=[(templates / part).read_text("utf-8") for part in RUNTIME],
            quote=lua_string,
        )
    )


def _lua(value: object) -> str:
    """Plain data as Lua: tables of texts, numbers, booleans and tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"[{lua_string(key)}] = {_lua(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "{" + ", ".join(map(_lua, value)) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else lua_string(str(value))


def filter_name(message: MessageModel) -> str:
    """The beginning of the filters of a message's fields: `DescribeProducersResponse` -> `describe_producers.`; those
    of headers with nothing."""
    if message.kind == "header":
        return ""
    paired = message.kind in ("request", "response")
    name = names.snake_case(re.sub("(?<=.)(Request|Response)$", "", message.name) if paired else message.name)
    return f"{name}_." if name in _RESERVED else f"{name}."


class _Fields:
    """All fields of the plugin, each once, in the order in which they are met."""

    def __init__(self, rules: DisplayRules) -> None:
        self.rules = rules
        self.fields: list[_Shown] = []
        self._places: dict[str, int] = {}
        self._counts: set[str] = set()  # filters that the runtime makes, of how many elements an array has

    def place(self, message: MessageModel, struct: StructModel, one: FieldModel, meaning: str) -> int:
        """The number of a field, counted from 1 as Lua does."""
        kind = ("[]" if one.type.array else "") + KIND_NAMES[one.type.kind]
        shown = _Shown("", one.name, kind, meaning, f"{one.type}. {one.about}".rstrip())
        name = names.snake_case(one.name)
        before = filter_name(message)
        filters = (before + name, f"{before}{names.snake_case(struct.name)}.{name}")
        for filter in chain(filters, (f"{filters[1]}_{number}" for number in count(2))):
            place = self._places.get(filter)
            if place is not None and self.fields[place - 1][2:4] == shown[2:4]:
                known = self.fields[place - 1]
                if one.about not in known.about:  # one tooltip, for all places that share the filter
                    self.fields[place - 1] = known._replace(about=f"{known.about} In {struct.name}: {one.about}")
                return place
            if place is None and filter not in self._counts:
                break
        self.fields.append(shown._replace(filter=filter))
        self._places[filter] = len(self.fields)
        self._counts.add(f"{filter}.count")
        return len(self.fields)

    def meaning(self, message: MessageModel, struct: StructModel, one: FieldModel) -> str:
        kind = one.type.kind
        for paths, found in ((self.rules.secrets, "secret"), (self.rules.configs, "config")):
            for path in paths.get(message.name, ()):
                if found == "secret" and leads_to(message, path, struct, one.name):
                    return "secret"
                if found == "config" and one.name in ("Name", "Value") and _struct_at(message, path) == struct.name:
                    return f"config_{one.name.lower()}"
        for path, content in self.rules.inside.get(message.name, {}).items():
            if leads_to(message, path, struct, one.name):
                return f"inside {content}"
        if kind == STRING and message.name in self.rules.inside:
            stated = {self.rules.protocol_type: "protocol_type", self.rules.assignors.get(message.name): "assignor"}
            if (what := stated.get(json_name(one.name))) is not None:
                return what
        for pattern, its_kind, found in _MEANINGS:
            if kind == its_kind and pattern.search(one.name) and (found in self.rules.numbers or found in _ENUMS):
                return found
        if kind == INT64 and _TIMESTAMP.search(one.name):
            return "timestamp"
        if kind == STRING and one.entity_type == "topicName":
            return "topic"
        return "topic_id" if kind == UUID and one.name == "TopicId" else ""


def _struct_at(message: MessageModel, path: str) -> str:
    """The name of the struct that a JSON path leads to; empty where it leads nowhere."""
    struct = message.root
    for step in path.split(".") if path else ():
        name = next((one.type.struct for one in struct.fields if json_name(one.name) == step), None)
        if name is None:
            return ""
        struct = message.struct(name)
    return struct.name


def leads_to(message: MessageModel, path: str, struct: StructModel, name: str) -> bool:
    *parents, last = path.split(".")
    return last == json_name(name) and _struct_at(message, ".".join(parents)) == struct.name


# Messages ------------------------------------------------------------------------------------------------------------


def _message(message: MessageModel, shown: _Fields) -> dict[str, object]:
    """A message as the template writes it down."""
    table = lower(message)
    structs = (*message.structs, message.root)
    places = {
        (number, slot): shown.place(message, struct, one, shown.meaning(message, struct, one))
        for number, struct in reversed(list(enumerate(structs)))  # the outermost first
        for slot, one in enumerate(struct.fields)
    }
    return {
        "name": message.name,
        "kind": message.kind,
        "family": message.family,
        "api_key": "nil" if message.api_key is None else message.api_key,
        "first": message.valid.low,
        "flexible": message.flexible.low if message.flexible else "nil",
        "layouts": [
            _layout(layout, places, f"{structs[layout.struct].name}, version {version}")
            for layout, version in zip(table.layouts, since(table), strict=True)
        ],
        "roots": [root + 1 for root in table.roots],
    }


def _layout(layout: Layout, places: dict[tuple[int, int], int], comment: str) -> dict[str, object]:
    """A layout as a line of text: Lua keeps a text at less cost than tables, and most layouts are never needed."""

    def three(op: Op | LayoutTag) -> str:
        return f"{op.code},{places[layout.struct, op.slot]},{op.arg + 1}"

    parts = (
        "flexible" if layout.flexible else "plain",
        str(max(1, layout.min_size)),
        ";".join(map(three, layout.ops)) or "-",
        ";".join(f"{tag.tag}={three(tag)}" for tag in layout.tags) or "-",
        ";".join(map(str, layout.foreign_tags)) or "-",
    )
    return {"comment": comment, "text": " ".join(parts)}

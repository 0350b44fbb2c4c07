"""Rendering: messages -> the text of Python modules. Templates test no version; what they need is prepared here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from kafkawire import __version__
from kafkawire._interface import INTERFACE
from kafkawire.codegen import names, steps
from kafkawire.codegen.model import EMPTY_STRUCT, FieldModel, MessageModel, StructModel
from kafkawire.codegen.python_source import (
    doc,
    import_text,
    in_import_order,
    range_text,
    reflow,
    version_text,
    wrap,
)
from kafkawire.codegen.quoting import python_string, python_strings
from kafkawire.codegen.versions import VersionRange
from kafkawire.errors import Problem, SchemaError
from kafkawire.wire.abouts import message_title, struct_title
from kafkawire.wire.fields import camel_case
from kafkawire.wire.layout import BOOL, BYTES, FLOAT64, KIND_NAMES, STRING, UUID

#: Kinds whose type in Python determines their type on the wire; others have aliases in `kafkawire.wire.fields`.
_PYTHON_TYPES = {BOOL: "bool", FLOAT64: "float", UUID: "uuid.UUID", STRING: "str", BYTES: "bytes"}
_ZERO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class _FieldText:
    """`annotation` is the type alone, `stated` that with all that is stated of the field."""

    attribute: str
    annotation: str
    stated: str
    default: str
    about: str


@dataclass(frozen=True, slots=True)
class _ClassText:
    name: str
    base: str
    spec_class: str
    spec: str
    docstring: str
    fields: list[_FieldText]


def render_module(message: MessageModel, response: MessageModel | None = None) -> str:
    """The source of the module of one message. `response`: the response of a request, where the package has one."""
    _check_names(message)
    classes = [_class_text(message, struct) for struct in (*message.structs, message.root)]
    planned = steps.codecs(message, [{f.attribute: (f.annotation, f.default) for f in text.fields} for text in classes])
    nested = [names.class_name(struct.name) for struct in message.structs]
    parts = {
        "source": doc(message.source),
        "docstring": _docstring(message),
        "classes": classes,
        "runs": sorted(
            (name, pack) for pack in planned.runs if f"pack_{(name := steps.run_name(pack))}" not in names.RUNTIME
        ),
        "codecs": planned.codecs,
        "structs": ", ".join(nested) + "," * (len(nested) == 1),
        "nested": nested,
        "reexported": [f"{name} as {name}" for name in nested],
        "module": names.module_name(message.name),
        "response": response and {"module": names.module_name(response.name), "name": names.class_name(response.name)},
        "root": names.class_name(message.name),
    }
    template = environment().get_template("module.py.jinja")
    return reflow(template.render(imports=_imports(template.render(imports=[], **parts)), **parts))


def responses(messages: Iterable[MessageModel]) -> dict[str, MessageModel]:
    """Each request's name -> its response: the one of its api key, or of its name where it has none (drafts)."""
    messages = list(messages)
    by_key = {one.api_key: one for one in messages if one.kind == "response" and one.api_key is not None}
    by_name = {one.name: one for one in messages if one.kind == "response" and one.api_key is None}
    found = {
        one.name: by_name.get(re.sub("Request$", "Response", one.name))
        if one.api_key is None
        else by_key.get(one.api_key)
        for one in messages
        if one.kind == "request"
    }
    return {name: response for name, response in found.items() if response is not None}


def render_package(messages: Iterable[MessageModel], docstring: str) -> str:
    """The source of the `__init__` of a package of these modules."""
    ordered = [registry_entry(message) for message in sorted(messages, key=lambda message: message.name)]
    entries = [
        entry
        | {
            "import_line": import_text(f".{entry['module']}", {entry["name"]}, 4),
            "aliases": python_strings(entry["aliases"]) if entry["aliases"] else "",
        }
        for entry in ordered
    ]
    return reflow(
        environment()
        .get_template("package.py.jinja")
        .render(entries=entries, docstring=docstring, compiler=__version__, interface=INTERFACE)
    )


def registry_entry(message: MessageModel) -> dict[str, Any]:
    """The arguments of the message's `Entry` in its package's registry."""
    return {
        "name": names.class_name(message.name),
        "module": names.module_name(message.name),
        "kind": message.kind,
        "family": message.family,
        "api_key": message.api_key,
        "low": message.valid.low,
        "high": message.valid.high,
        "flexible": message.flexible.low if message.flexible else -1,
        "aliases": message.aliases,
    }


def _template(name: str) -> str:
    """A template of this package, which may be in an archive: Spark's workers get the package as one."""
    return files("kafkawire.codegen").joinpath("templates", name).read_text("utf-8")


@cache
def environment() -> Environment:
    """The templates, and what they may call."""
    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(move=_move, range=range_text, shift=_shift)
    return environment


# Classes -------------------------------------------------------------------------------------------------------------


def _class_text(message: MessageModel, struct: StructModel) -> _ClassText:
    is_root = struct is message.root
    about = message.about if is_root else struct.about
    if is_root:
        title = message_title(message.name, str(message.valid), version_text(message.flexible, message.valid))
        spec = f"message({', '.join(_message_parts(message))})"
    else:
        title = struct_title(message.name, str(struct.versions))
        parts = [] if struct.name == names.class_name(struct.name) else [python_string(struct.name)]
        if struct.versions != message.valid:
            parts.append(f'versions="{version_text(struct.versions, message.valid)}"')
        spec = f"struct({', '.join(parts)})" if parts else ""
    return _ClassText(
        name=names.class_name(struct.name),
        base="Message" if is_root else "Struct",
        spec_class="MessageSpec" if is_root else "StructSpec",
        spec=spec,
        docstring=wrap(doc(about) or title, 4),
        fields=[_field_text(message, struct, field) for field in struct.fields],
    )


def _message_parts(message: MessageModel) -> list[str]:
    parts = [python_string(str(message.valid))]
    if message.flexible:
        parts.append(f'flexible="{version_text(message.flexible, message.valid)}"')
    if message.name != names.class_name(message.name):
        parts.append(f"name={python_string(message.name)}")
    parts += [f"kind={python_string(message.kind)}", f"family={python_string(message.family)}"]
    if message.api_key is not None:
        parts.append(f"api_key={message.api_key}")
    if message.listeners:
        parts.append(f"listeners={python_strings(message.listeners)}")
    if message.latest_version_unstable:
        parts.append("latest_version_unstable=True")
    if message.aliases:
        parts.append(f"aliases={python_strings(message.aliases)}")
    parts.append(f"source={python_string(message.source)}")
    return parts


def _field_text(message: MessageModel, struct: StructModel, field: FieldModel) -> _FieldText:
    annotation = _annotation(field)
    parts = _wire_parts(message, struct, field)
    return _FieldText(
        attribute=names.attribute(field.name),
        annotation=annotation,
        stated=f"Annotated[{annotation}, Wire({', '.join(parts)})]" if parts else annotation,
        default=_default(field),
        about=wrap(doc(field.about), 4),
    )


def _wire_parts(message: MessageModel, struct: StructModel, field: FieldModel) -> list[str]:
    """The arguments of `Wire`: the properties that a field's type does not imply."""

    def text(versions: VersionRange) -> str:
        return f'"{version_text(versions, message.valid)}"'

    attribute = names.attribute(field.name)
    parts = []
    if field.versions != struct.versions:
        parts.append(text(field.versions))
    if field.nullable:
        parts.append(f"nullable={text(field.nullable)}")
    if field.tag is not None:
        parts += [f"tagged={text(field.tagged)}", f"tag={field.tag}"]
    if field.flexible != message.flexible & field.versions:
        parts.append(f"flexible={text(field.flexible)}")
    if field.name != camel_case(attribute):
        parts.append(f"name={python_string(field.name)}")
    if field.ignorable:
        parts.append("ignorable=True")
    if field.map_key:
        parts.append("map_key=True")
    if field.aliases:
        parts.append(f"aliases={python_strings(field.aliases)}")
    return parts


def _annotation(field: FieldModel) -> str:
    if field.type.struct:
        text = names.class_name(field.type.struct)
    elif field.entity_type:
        text = field.entity_type[0].upper() + field.entity_type[1:]
    else:
        text = _PYTHON_TYPES.get(field.type.kind) or KIND_NAMES[field.type.kind].capitalize()
    if field.type.array:
        text = f"tuple[{text}, ...]"
    return f"{text} | None" if field.nullable or field.default is None else text


def _default(field: FieldModel) -> str:
    """The source of a field's default."""
    value = field.default
    if value is EMPTY_STRUCT:
        assert field.type.struct is not None
        return f"{names.class_name(field.type.struct)}()"
    if field.type.kind == UUID and isinstance(value, str):
        return "ZERO_UUID" if value == _ZERO_UUID else f'uuid.UUID("{value}")'
    if isinstance(value, str):
        return python_string(value)
    return 'b""' if value == b"" else repr(value)


# Imports -------------------------------------------------------------------------------------------------------------


def _imports(source: str) -> list[str]:
    """The imports of a module's text."""
    used = set[str]()
    for statement in ast.parse(source).body:
        body = statement.body if isinstance(statement, ast.FunctionDef) else []
        inside = [node for line in body for node in ast.walk(line) if isinstance(node, ast.Name)]
        # What a function assigns is its own: fields may be named as functions of the module are.
        own = {node.id for node in inside if isinstance(node.ctx, ast.Store)}
        used |= {node.id for node in inside} - own
        if isinstance(statement, ast.FunctionDef):
            statement.body = []
        used |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    lines = [f"import {module}" for module in ("uuid",) if module in used]
    if "partial" in used:
        lines.append("from functools import partial")
    lines += [import_text("typing", {"TYPE_CHECKING", "Annotated", "ClassVar"} & used), ""]
    lines.append(f"from kafkawire.runtime import {', '.join(in_import_order(names.RUNTIME & used))}")
    return lines


# Text ----------------------------------------------------------------------------------------------------------------


def _docstring(message: MessageModel) -> str:
    key = f", api key {message.api_key}" if message.api_key is not None else ""
    return wrap(doc(f"{message.name}: {message.kind}{key}, {_versions_text(message)}."), 0)


def _versions_text(message: MessageModel) -> str:
    text = f"version{'s' * (message.valid.low != message.valid.high)} {message.valid}"
    if not message.flexible:
        return f"{text}, not flexible"
    if message.flexible.low <= message.valid.low:
        return f"{text}, flexible"
    return f"{text}, flexible from version {message.flexible.low}"


def _move(position: str) -> str:
    """The statement that moves to a position: `p + 4` -> `p += 4`."""
    return position.replace("+", "+=")


def _shift(lines: str, width: int) -> str:
    """Lines, indented by so much more."""
    return "".join(" " * width + line for line in lines.splitlines(keepends=True))


def _check_names(message: MessageModel) -> None:
    """Two schema names that become one Python name would silently make one field of two."""
    problems = []
    for struct in (*message.structs, message.root):
        seen: dict[str, str] = {}
        for field in struct.fields:
            name = names.attribute(field.name)
            if name in seen:
                reason = f"{field.name} and {seen[name]} of {struct.name} both become {name} in Python"
                problems.append(Problem(message.source, "", reason))
            seen[name] = field.name
    classes: dict[str, str] = {}
    for struct in (*message.structs, message.root):
        name = names.class_name(struct.name)
        if name in classes:
            problems.append(Problem(message.source, "", f"{struct.name} and {classes[name]} both become class {name}"))
        classes[name] = struct.name
    if problems:
        raise SchemaError(problems)

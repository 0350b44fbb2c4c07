"""Rendering: messages -> the text of Python modules. Templates test no version; what they need is prepared here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from kafkawire.codegen import names, steps
from kafkawire.codegen.lower import Lowered, lower
from kafkawire.codegen.model import EMPTY_STRUCT, Field, Message, Struct
from kafkawire.codegen.text import (
    call_text,
    doc,
    import_text,
    keyword,
    range_text,
    reflow,
    string,
    strings,
    tuple_text,
    wrap,
)
from kafkawire.codegen.versions import Versions
from kafkawire.errors import Problem, SchemaError
from kafkawire.wire.layout import (
    ARRAY,
    BOOL,
    BYTES,
    COMPACT,
    FLOAT64,
    KIND_MASK,
    KIND_NAMES,
    NULLABLE,
    STRING,
    STRUCT,
    UUID,
    Op,
    Tag,
)

_PYTHON_TYPES = {BOOL: "bool", FLOAT64: "float", UUID: "uuid.UUID", STRING: "str"}
#: The name of each kind's constant in `wire.layout`.
_CONSTANTS = tuple(name.upper() for name in KIND_NAMES)
_ZERO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class _FieldText:
    attribute: str
    annotation: str
    default: str
    comment: str
    about: str
    spec: str


@dataclass(frozen=True, slots=True)
class _ClassText:
    name: str
    base: str
    spec_class: str
    spec_head: str
    docstring: str
    fields: list[_FieldText]


@dataclass(frozen=True, slots=True)
class _LayoutText:
    comment: str
    struct: int
    flexible: bool
    min_size: int
    ops: list[str]
    tags: list[str]
    absent: list[str]
    foreign_tags: list[str]


def render_module(message: Message) -> str:
    """The source of the module of one message."""
    _check_names(message)
    lowered = lower(message)
    classes = [_class_text(message, struct) for struct in lowered.structs]
    defaults = [{slot: field.default for slot, field in enumerate(text.fields)} for text in classes]
    codecs = steps.codecs(lowered, defaults)
    layouts = _layout_texts(lowered)
    text = (
        environment()
        .get_template("module.py.jinja")
        .render(
            source=doc(message.source),
            docstring=_docstring(message),
            imports=_imports(classes, layouts, codecs),
            classes=classes,
            struct_names=[string(name) for name in lowered.table.structs],
            layouts=layouts,
            table={
                "first_version": lowered.table.first_version,
                "roots": [str(root) for root in lowered.table.roots],
            },
            runs=sorted((steps.run_name(pack), pack) for pack in codecs.runs),
            ends={steps.run_name(function.steps[-1].pack) for function in codecs.functions if function.ends_in_run},
            functions=codecs.functions,
            decoders=["None" if root.guarded else f"_decode_{root.name}" for root in codecs.roots],
            encoders=[f"_encode_{root.name}" for root in codecs.roots],
            uuid_kind=UUID,
            root=names.class_name(message.name),
        )
    )
    return reflow(text)


def render_package(messages: Iterable[Message], docstring: str) -> str:
    """The source of the `__init__` of a package of such modules."""
    entries = [
        {
            "cls": names.class_name(message.name),
            "module": names.module_name(message.name),
            "import_line": import_text(f".{names.module_name(message.name)}", {names.class_name(message.name)}, 4),
            "kind": message.kind,
            "family": message.family,
            "api_key": message.api_key,
            "low": message.valid.low,
            "high": message.valid.high,
            "flexible_low": message.flexible.low if message.flexible else -1,
            "aliases": strings(message.aliases) if message.aliases else "",
        }
        for message in sorted(messages, key=lambda message: message.name)
    ]
    return reflow(environment().get_template("package.py.jinja").render(entries=entries, docstring=docstring))


def _template(name: str) -> str:
    """Wherever this package is, in an archive too: Spark's workers get it as one."""
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
    environment.globals["is_not_default"] = _is_not_default
    environment.filters.update(
        fill=tuple_text, run_name=steps.run_name, plus_one=_plus_one, move=_move, packed=_packed, shift=_shift
    )
    return environment


# Classes -------------------------------------------------------------------------------------------------------------


def _class_text(message: Message, struct: Struct) -> _ClassText:
    fields = [_field_text(struct, field) for field in struct.fields]
    is_root = struct is message.root
    head = [f"name={string(struct.name)},"]
    if is_root:
        head += _message_head(message)
    about = message.about if is_root else struct.about
    if about:
        head.append(keyword("about", about, 8) + ",")
    if is_root:
        docstring = about or f"{message.name}, {_versions_text(message)}."
    else:
        used = "" if struct.versions == message.valid else f", {_version_words(struct.versions)}"
        docstring = about or f"A struct of {message.name}{used}."
    return _ClassText(
        name=names.class_name(struct.name),
        base="Message" if is_root else "Struct",
        spec_class="MessageSpec" if is_root else "StructSpec",
        spec_head="\n        ".join(head),
        docstring=wrap(doc(docstring), 4),
        fields=fields,
    )


def _message_head(message: Message) -> list[str]:
    head = [
        f"kind={string(message.kind)},",
        f"family={string(message.family)},",
        f"valid_versions={range_text(message.valid)},",
    ]
    if message.flexible:
        head.append(f"flexible_versions={range_text(message.flexible)},")
    if message.api_key is not None:
        head.append(f"api_key={message.api_key},")
    if message.listeners:
        head.append(f"listeners={strings(message.listeners)},")
    if message.latest_version_unstable:
        head.append("latest_version_unstable=True,")
    if message.aliases:
        head.append(f"aliases={strings(message.aliases)},")
    head.append(f"source={string(message.source)},")
    return head


def _field_text(struct: Struct, field: Field) -> _FieldText:
    default = _default(field)
    comment = "" if field.versions == struct.versions else _version_words(field.versions)
    if field.tag is not None:
        tagged = f"tag {field.tag}"
        if field.tagged != field.versions:
            tagged += f" {_version_words(field.tagged)}"
        comment = f"{comment}, {tagged}" if comment else tagged
    return _FieldText(
        attribute=names.attribute(field.name),
        annotation=_annotation(field),
        default=default,
        comment=comment,
        about=wrap(doc(field.about), 4),
        spec=_field_spec(field, default),
    )


def _field_spec(field: Field, default: str) -> str:
    parts = [
        string(field.name),
        string(names.attribute(field.name)),
        string(str(field.type)),
        range_text(field.versions),
    ]
    if default != "None":
        parts.append(f"default={default}")
    if field.nullable:
        parts.append(f"nullable_versions={range_text(field.nullable)}")
    if field.tag is not None:
        parts += [f"tagged_versions={range_text(field.tagged)}", f"tag={field.tag}"]
    if field.type.struct:
        parts.append(f"struct={names.class_name(field.type.struct)}")
    if field.ignorable:
        parts.append("ignorable=True")
    if field.map_key:
        parts.append("map_key=True")
    if field.entity_type:
        parts.append(f"entity_type={string(field.entity_type)}")
    if field.about:
        parts.append(keyword("about", field.about, 16))
    if field.aliases:
        parts.append(f"aliases={strings(field.aliases)}")
    return call_text("Field", parts, 12)


def _annotation(field: Field) -> str:
    if field.type.struct:
        text = names.class_name(field.type.struct)
    else:
        text = _PYTHON_TYPES.get(field.type.kind) or ("bytes" if field.type.kind >= BYTES else "int")
    if field.type.array:
        text = f"tuple[{text}, ...]"
    return f"{text} | None" if field.nullable or field.default is None else text


def _default(field: Field) -> str:
    """The source of a field's default."""
    value = field.default
    if value is EMPTY_STRUCT:
        assert field.type.struct is not None
        return f"{names.class_name(field.type.struct)}()"
    if field.type.kind == UUID and isinstance(value, str):
        return "ZERO_UUID" if value == _ZERO_UUID else f'uuid.UUID("{value}")'
    if isinstance(value, str):
        return string(value)
    return 'b""' if value == b"" else repr(value)


# Tables --------------------------------------------------------------------------------------------------------------


def _layout_texts(lowered: Lowered) -> list[_LayoutText]:
    texts = []
    for layout, since in zip(lowered.table.layouts, lowered.since, strict=True):
        struct = lowered.structs[layout.struct]
        texts.append(
            _LayoutText(
                comment=f"{names.class_name(struct.name)}, from version {since}",
                struct=layout.struct,
                flexible=layout.flexible,
                min_size=layout.min_size,
                ops=[_op_text(op) for op in layout.ops],
                tags=[_op_text(tag) for tag in layout.tags],
                absent=[str(slot) for slot in layout.absent],
                foreign_tags=[str(tag) for tag in layout.foreign_tags],
            )
        )
    return texts


def _op_text(op: Op | Tag) -> str:
    code = _CONSTANTS[op.code & KIND_MASK]
    for flag, name in ((COMPACT, "COMPACT"), (NULLABLE, "NULLABLE"), (ARRAY, "ARRAY")):
        if op.code & flag:
            code += f" | {name}"
    parts = [code, str(op.slot)]
    if op.code & KIND_MASK == STRUCT:
        parts.append(str(op.arg))
    return f"Tag({op.tag}, {', '.join(parts)})" if isinstance(op, Tag) else f"Op({', '.join(parts)})"


# Imports -------------------------------------------------------------------------------------------------------------


def _imports(classes: list[_ClassText], layouts: list[_LayoutText], codecs: steps.Codecs) -> list[str]:
    source = " ".join(
        [f"{f.annotation} {f.default}" for c in classes for f in c.fields]
        + [op for t in layouts for op in t.ops + t.tags]
    )
    words = set(source.replace("(", " ").replace(")", " ").replace(",", " ").split())
    functions = codecs.functions
    partial = any(len(words) > 1 for f in functions for tag in f.tags for words in (tag[2], tag[3]))
    lines = []
    if partial:
        lines.append("from functools import partial")
    if "uuid.UUID" in source:
        lines.append("import uuid")
    lines = sorted(lines, key=lambda line: not line.startswith("import"))
    lines += ["from typing import ClassVar", ""]

    layout_names = {"Layout", "Op", "Table"} | (words & {*_CONSTANTS, "COMPACT", "NULLABLE", "ARRAY"})
    if any(text.tags for text in layouts):
        layout_names.add("Tag")
    if not any(text.ops for text in layouts):
        layout_names.discard("Op")
    lines.append(import_text("kafkawire.wire.layout", layout_names))
    bases = {"Codec", "Message"} | ({"Struct"} if len(classes) > 1 else set())
    lines.append(import_text("kafkawire.wire.message", bases))
    read_names = set(codecs.read_words) | ({"unpacker"} if codecs.runs else set())
    flexible = [f for f in functions if f.layout.flexible]
    if any(f.tags or f.layout.foreign_tags for f in flexible):
        read_names.add("ReadTags")
    if read_names:
        lines.append(import_text("kafkawire.wire.read", read_names))
    specs = {"MessageSpec"} | ({"StructSpec"} if len(classes) > 1 else set())
    lines.append(import_text("kafkawire.wire.spec", specs | ({"Field"} if any(c.fields for c in classes) else set())))
    if codecs.stride_words:
        lines.append(import_text("kafkawire.wire.strides", codecs.stride_words))
    values = {"Buffer", "TaggedField"} | ({"ZERO_UUID"} & words) | ({"BOOLS"} if codecs.bools else set())
    lines.append(import_text("kafkawire.wire.values", values))
    write_names = {"Append"} | codecs.write_words | ({"packer"} if codecs.runs else set())
    if any(f.tags for f in functions):
        write_names.add("WriteTags")
    if not any(not f.tags and not f.ends_in_run for f in flexible):
        write_names.discard("NO_TAGS")
    lines.append(import_text("kafkawire.wire.write", write_names))
    return lines


# Text ----------------------------------------------------------------------------------------------------------------


def _docstring(message: Message) -> str:
    about = f" {message.about}" if message.about else ""
    key = f", api key {message.api_key}" if message.api_key is not None else ""
    title = f"{message.name} ({message.kind}{key})."
    return f"{wrap(doc(title + about), 0)}\n\n{_versions_text(message, True)}."


def _versions_text(message: Message, capital: bool = False) -> str:
    text = _version_words(message.valid)
    if not message.flexible:
        text += ", not flexible"
    elif message.flexible.low <= message.valid.low:
        text += ", flexible"
    else:
        text += f", flexible from version {message.flexible.low}"
    return text[:1].upper() + text[1:] if capital else text


def _version_words(versions: Versions) -> str:
    if not versions:
        return "in no version"
    if versions.low == versions.high:
        return f"version {versions.low}"
    return f"versions {versions.low}-{versions.high}"


def _is_not_default(attribute: str, default: str) -> str:
    """The condition that is true when a field is not at its default."""
    conditions = {
        "None": f"o.{attribute} is not None",
        # Truth alone would lose an empty string, which is no bool.
        "False": f"BOOLS[o.{attribute}]",
        "True": f"not BOOLS[o.{attribute}]",
    }
    return conditions.get(default, f"o.{attribute} != {default}")


def _packed(targets: Iterable[tuple[str, str, int]]) -> list[str]:
    """The arguments of a run's packer."""
    forms = {BOOL: "BOOLS[o.{}]", UUID: "o.{}.bytes"}
    return [forms.get(kind, "o.{}").format(attribute) for attribute, _, kind in targets]


def _move(position: str) -> str:
    """The statement that moves to a position: `p + 4` -> `p += 4`."""
    return position.replace("+", "+=")


def _shift(lines: str, width: int) -> str:
    """Lines, indented by so much more."""
    return "".join(" " * width + line for line in lines.splitlines(keepends=True))


def _plus_one(position: str) -> str:
    """The position behind a position: `p + 4` -> `p + 5`."""
    return f"p + {int(position.removeprefix('p').removeprefix(' + ') or 0) + 1}"


def _check_names(message: Message) -> None:
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

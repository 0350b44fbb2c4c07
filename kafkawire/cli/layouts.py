"""A message's fields as rows, for `kafkawire schema show`: of all versions, or of one in wire order with sizes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from kafkawire.cli.arguments import version_text
from kafkawire.cli.formatting import printable
from kafkawire.cli.output import CommandRow
from kafkawire.cli.table import TableView
from kafkawire.wire.json_form import uuid_text
from kafkawire.wire.layout import (
    ARRAY,
    COMPACT,
    FIXED_SIZES,
    KIND_MASK,
    NULLABLE,
    STRING,
    STRUCT,
    UUID,
    Layout,
    LayoutTag,
    Op,
)

if TYPE_CHECKING:
    from kafkawire.wire.message import Message, Struct
    from kafkawire.wire.spec import Field

VIEW, VERSION_VIEW = (
    TableView(
        columns=("field", "type", of_versions, "nullable", "tag", "default", "about"),
        primary=("field", "type", of_versions, "about"),
        prose=("about",),
    )
    for of_versions in ("versions", "bytes")
)

_SIZES = "Bytes: n is a length or a count; `4 + 8n` is an int32 and then n values of 8 bytes."
_FLEXIBLE_SIZES = (
    "Bytes: n is a length or a count, v an unsigned varint of n + 1 (1 to 5 bytes); `v + 8n` is that and then n values "
    "of 8 bytes. Each struct ends with the number of its tagged fields (1 byte where there are none), then these, each "
    "behind its tag and its size, two varints."
)


class FieldRow(CommandRow, frozen=True, kw_only=True):
    """A field of a message.

    Attributes:
        field: its place in the JSON form: `topics[].partitions[].errorCode`.
        versions, nullable, tagged: ranges of versions, of the whole message; None where there is none.
        default: what a version without the field decodes to, where that is not the zero of its type.
        bytes: its size on the wire (`schema show --version`).
    """

    field: str
    type: str
    versions: str
    nullable: str | None = None
    tagged: str | None = None
    tag: int | None = None
    default: str | None = None
    ignorable: bool = False
    entity_type: str | None = None
    bytes: str | None = None
    about: str | None = None


def heading(message: type[Message], version: int | None, path: str = "") -> str:
    """The lines above a table of a message's fields, each harmless on a terminal; fewer for a single field. `message`:
    its class. `version`: whose layout is shown; None: all. `path`: the path of the field that is shown; empty: all."""
    spec = message.spec
    key = f", api key {spec.api_key}" if spec.api_key is not None else ""
    flexible = f", flexible: {version_text(spec.flexible_versions)}" if spec.flexible_versions else ", not flexible"
    lines = [
        f"{spec.name}: {spec.kind}{key}, family {spec.family}",
        f"{'Version' if len(spec.valid_versions) == 1 else 'Versions'} {version_text(spec.valid_versions)}{flexible}.",
    ]
    if spec.aliases:
        lines.append(f"Once named {', '.join(spec.aliases)}.")
    paragraphs = [] if path else [spec.about]
    if version is not None:
        lines.append(f"In version {version} at least {message.codec.layout(version).min_size} bytes.")
        paragraphs.append(_FLEXIBLE_SIZES if version in spec.flexible_versions else _SIZES)
    for paragraph in paragraphs:
        lines += textwrap.wrap(paragraph, 100)
    return "\n".join(printable(line) for line in lines)


def all_fields(message: type[Message], path: str = "") -> Iterator[FieldRow]:
    """The fields of all versions in the schema's order, each struct's below its first use.

    A struct that is used again is not listed again: structs that use one another twice double with each level.

    Args:
        message: its class.
        path: a field, `Coordinators.ErrorCode`; only it and what it nests are listed.
    """
    found = _fields_at(message, path)
    return _fields(found[-1:] or message.spec.fields, _above(found), set())


def fields_of_version(message: type[Message], version: int, path: str = "") -> Iterator[FieldRow]:
    """The fields that one version carries, in wire order, tagged ones last, each struct's below its first use.

    Args:
        message: its class.
        version: a valid version of it.
        path: a field; only it and what it nests are listed. A usage error for a field that the version does not carry.
    """
    layout, slot = message.codec.layout(version), None
    found = _fields_at(message, path)
    for field in found:
        if slot is not None:
            (op,) = (op for op in layout.all_ops() if op.slot == slot)
            layout = message.codec.table.layouts[op.arg]
        slot = message.codec.classes[layout.struct].spec.fields.index(field)
        if all(op.slot != slot for op in layout.all_ops()):
            where = f"is not in version {version}, but in {version_text(field.versions)}"
            raise typer.BadParameter(f"{message.spec.name}.{path} {where}")
    return _layout(message, layout, _above(found), set(), slot)


def _fields_at(message: type[Message], path: str) -> list[Field]:
    """The fields from the message down to the one of a path; a usage error with near misses where there is none."""
    struct: type[Struct] | None = message
    found = []
    for name in path.split(".") if path else ():
        field = next((one for one in struct.spec.fields if _plain(name) == _plain(one.name)), None) if struct else None
        if field is None:
            raise typer.BadParameter(f"{message.spec.name} has no field {path!r}; {_near(message, path)}")
        found.append(field)
        struct = field.struct
    return found


def _above(found: list[Field]) -> str:
    """The path with which the row of the last of these fields begins."""
    return "".join(_inside(field, "") for field in found[:-1])


def _plain(name: str) -> str:
    """A field's name without what its spellings differ in: `error_code`, `errorCode`, `ErrorCode`, `Topics[]`."""
    return re.sub(r"[_\[\]]", "", name).lower()


def _near(message: type[Message], path: str) -> str:
    """The paths that the user may have meant: those with the same name elsewhere, then similar ones."""
    from difflib import get_close_matches

    paths = {_plain(row.field): row.field.replace("[]", "") for row in all_fields(message)}
    wanted = _plain(path)
    same = [one for one in paths if one.rpartition(".")[2] == wanted.rpartition(".")[2]]
    similar = get_close_matches(wanted, paths, n=3, cutoff=0.5)
    near = list(dict.fromkeys(same + similar))[:3]
    return f"near: {', '.join(paths[one] for one in near)}" if near else "`schema show` without a field lists all"


def _fields(fields: Iterable[Field], prefix: str, shown: set[type[Struct]]) -> Iterator[FieldRow]:
    for field in fields:
        yield _row(field, prefix)
        if field.struct is not None and field.struct not in shown:
            shown.add(field.struct)
            yield from _fields(field.struct.spec.fields, _inside(field, prefix), shown)


def _layout(
    message: type[Message], layout: Layout, prefix: str, shown: set[int], slot: int | None = None
) -> Iterator[FieldRow]:
    """The fields of a layout; of `slot`, only that one."""
    fields = message.codec.classes[layout.struct].spec.fields
    for op in layout.all_ops():
        if slot not in (None, op.slot):
            continue
        field = fields[op.slot]
        nested = message.codec.table.layouts[op.arg] if op.code & KIND_MASK == STRUCT else None
        yield _row(field, prefix, op, nested)
        if nested is not None and op.arg not in shown:
            shown.add(op.arg)
            yield from _layout(message, nested, _inside(field, prefix), shown)


def _inside(field: Field, prefix: str) -> str:
    return f"{prefix}{field.json_name}{'[]' if field.is_array else ''}."


def _row(field: Field, prefix: str, op: Op | LayoutTag | None = None, nested: Layout | None = None) -> FieldRow:
    return FieldRow(
        field=prefix + field.json_name,
        type=field.type,
        versions=version_text(field.versions),
        nullable=version_text(field.nullable_versions) or None,
        tagged=version_text(field.tagged_versions) or None,
        tag=field.tag if op is None or isinstance(op, LayoutTag) else None,
        default=_default(field),
        ignorable=field.ignorable,
        entity_type=field.entity_type,
        bytes=None if op is None else _size(op.code, nested),
        about=field.about or None,
    )


def _default(field: Field) -> str | None:
    value: Any = field.default
    if value is None:
        return "null"
    if field.struct is not None or not value or (field.kind == UUID and not value.int):
        return None
    return uuid_text(value) if field.kind == UUID else str(value)


def _size(code: int, nested: Layout | None) -> str:
    kind = code & KIND_MASK
    if code & ARRAY:
        item = _fixed(kind, nested)
        return f"{_length(code, 4)} + {f'{item}n' if item is not None else 'n items'}"
    if kind == STRUCT:
        size = _fixed(kind, nested)
        body = str(size) if size is not None else "fields"
        return f"1 + {body}" if code & NULLABLE else body
    return str(FIXED_SIZES[kind]) if kind in FIXED_SIZES else f"{_length(code, 2 if kind == STRING else 4)} + n"


def _length(code: int, plain: int) -> str:
    return "v" if code & COMPACT else str(plain)


def _fixed(kind: int, nested: Layout | None) -> int | None:
    """Bytes of a value whose size never differs, else None."""
    if nested is None:
        return FIXED_SIZES.get(kind)
    plain = all(not op.code & ARRAY and op.code & KIND_MASK in FIXED_SIZES for op in nested.ops)
    return nested.min_size if plain and not nested.flexible else None

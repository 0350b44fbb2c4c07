"""The Kaitai Struct emitter: messages -> one `.ksy` file for each, with the version as a parameter, and files for
frames.

`kaitai-struct-compiler` makes readers of them in a dozen languages. Two files are written by hand: `kaitai_types.ksy`
(lengths, strings and tagged fields) and `kaitai_records.ksy` (record batches).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kafkawire.codegen import names
from kafkawire.codegen.kaitai_text import condition, doc, file_id, member_ids, type_id, unique
from kafkawire.codegen.model import FieldModel, MessageModel, StructModel
from kafkawire.codegen.python_source import version_text
from kafkawire.codegen.quoting import yaml_string
from kafkawire.codegen.render import environment
from kafkawire.codegen.wireshark import leads_to
from kafkawire.printable import printable
from kafkawire.wire.layout import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    STRUCT,
    UINT16,
    UINT32,
    UUID,
)

_FIXED = {BOOL: "u1", INT8: "s1", INT16: "s2", INT32: "s4", INT64: "s8", UINT16: "u2", UINT32: "u4", FLOAT64: "f8"}
_SIZED = {STRING: "kafka_types::text", BYTES: "kafka_types::blob", RECORDS: "kafka_records::field"}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of a `seq`; texts that are empty are left out. `repeat`, `size` and `valid` are expressions."""

    id: str
    type: str = ""
    condition: str = ""
    repeat: str = ""
    size: str = ""
    valid: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class _Type:
    id: str
    entries: list[_Entry]
    about: str


def render_kaitai(
    messages: Iterable[MessageModel], inside: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, str]:
    """The files for those messages: name -> text.

    Args:
        messages: of a namespace, with the headers of requests and responses among them.
        inside: message -> JSON paths of fields with bytes -> a sentence about what is in them.
    """
    ordered = sorted(messages, key=lambda message: message.name)
    templates = Path(__file__).parent / "templates"
    files = {
        f"kafka_{part}.ksy": (templates / f"kaitai_{part}.ksy").read_text("utf-8") for part in ("types", "records")
    }
    for kind in ("request", "response"):
        sent = [message for message in ordered if (message.family, message.kind) == ("rpc", kind)]
        if sent := [message for message in sent if message.api_key is not None]:
            files[f"kafka_{kind}.ksy"] = _frames(kind, sent)
    return files | {
        f"{file_id(message)}.ksy": _KaitaiMessage(message, (inside or {}).get(message.name, {})).render()
        for message in ordered
    }


# Frames --------------------------------------------------------------------------------------------------------------


def _frames(kind: str, messages: list[MessageModel]) -> str:
    shown = [
        {
            "api_key": message.api_key,
            "id": f"{file_id(message)}_frame",
            "header": f"{kind}_header({_header_version(message)})",
            "body": file_id(message),
            "valid": f"version >= {message.valid.low} and version <= {message.valid.high}",
        }
        for message in messages
    ]
    imports = [f"{kind}_header", *(file_id(message) for message in messages)]
    return (
        environment()
        .get_template("kaitai_frames.ksy.jinja")
        .render(kind=kind, messages=shown, imports=imports, quote=yaml_string)
    )


def _header_version(message: MessageModel) -> str:
    """The version of the header before a request or response, as an expression (`kafkawire.frames.headers`)."""
    if message.kind == "response" and message.api_key == 18:  # ApiVersions (KIP-511)
        return "0"
    flexible = condition(message.flexible, message.valid, "version")
    newest = 2 if message.kind == "request" else 1
    if message.kind == "request" and message.api_key == 7:  # ControlledShutdown
        return f"version == 0 ? 0 : {flexible} ? 2 : 1"
    if flexible in ("true", "false"):
        return str(newest if flexible == "true" else newest - 1)
    return f"{flexible} ? {newest} : {newest - 1}"


# Messages ------------------------------------------------------------------------------------------------------------


class _KaitaiMessage:
    """A message on its way to a file."""

    def __init__(self, message: MessageModel, inside: Mapping[str, str]) -> None:
        self.message = message
        self.inside = inside
        self.structs = (*message.structs, message.root)
        self.types: dict[str, str] = {}
        taken = {file_id(message)}
        for struct in message.structs:
            self.types[struct.name] = unique(type_id(struct), taken)
        self.tag_types = {
            struct.name: unique(f"{names.snake_case(struct.name)}_tagged", taken) for struct in self.structs
        }

    def render(self) -> str:
        message = self.message
        types: list[_Type] = []
        for struct in self.structs:
            if struct is not message.root:
                types.append(_Type(self.types[struct.name], list(self.entries(struct)), struct.about))
            if any(field.tagged for field in struct.fields):
                types.append(_Type(self.tag_types[struct.name], list(self.tagged_entries(struct)), ""))
        mixed = bool(message.flexible) and message.flexible != message.valid
        valid, flexible = message.valid, version_text(message.flexible, message.valid)
        return (
            environment()
            .get_template("kaitai_message.ksy.jinja")
            .render(
                id=file_id(message),
                source=printable(message.source),
                title=message.name,
                about=message.about,
                versions=f"{valid.low} to {valid.high}" + ("" if flexible == "none" else f", flexible {flexible}"),
                records=any(field.type.kind == RECORDS for struct in self.structs for field in struct.fields),
                root=list(self.entries(message.root)),
                flexible=condition(message.flexible, message.valid, "version") if mixed else "",
                structs=types,
                quote=yaml_string,
                doc=doc,
            )
        )

    def entries(self, struct: StructModel) -> Iterator[_Entry]:
        """The `seq` of a struct."""
        ids = member_ids(struct)
        taken = set(ids.values())
        for field in struct.fields:
            plain = [version for version in field.versions if version not in field.tagged]
            if plain:
                condition = self.when(plain, struct.versions, struct)
                yield from self.field(
                    struct, field, ids[field.name], plain, "" if condition == "true" else condition, taken
                )
        condition = self.is_flexible(struct, struct.versions)
        if condition == "false":
            return
        condition = "" if condition == "true" else condition
        if any(field.tagged for field in struct.fields):
            count = unique("tagged_fields_count", taken)
            yield _Entry(count, "kafka_types::uvarint", condition, valid="_.value >= 0")
            yield _Entry("tagged_fields", self.tag_types[struct.name], condition, f"{count}.value")
        else:
            yield _Entry("tagged_fields", "kafka_types::tagged_fields", condition)

    def tagged_entries(self, struct: StructModel) -> Iterator[_Entry]:
        """The `seq` of one tagged field of a struct: a field of the schema, or an unknown one."""
        ids = member_ids(struct)
        taken = set(ids.values())
        flexible = self.message.flexible & struct.versions
        known = []
        yield _Entry("tag", "kafka_types::uvarint")
        yield _Entry("len", "kafka_types::uvarint")
        for field in struct.fields:
            if field.tagged:
                condition = f"tag.value == {field.tag}"
                versions = self.when(field.tagged, flexible, None)
                if versions != "true":
                    condition += f" and {versions}"
                known.append(condition)
                yield from self.field(struct, field, ids[field.name], field.tagged, condition, taken, tagged=True)
        unknown = f"not ({' or '.join(f'({one})' if ' and ' in one else one for one in known)})"
        yield _Entry("data", "", unknown, size="len.value", about="The value of a field that the schema does not know.")

    def field(
        self,
        struct: StructModel,
        field: FieldModel,
        id: str,
        versions: Iterable[int],
        condition: str,
        taken: set[str],
        *,
        tagged: bool = False,
    ) -> Iterator[_Entry]:
        """The entries of one field: before arrays and nullable structs there is one of their own."""
        versions = list(versions)
        root = None if tagged else struct
        kind = field.type.kind
        compact = self.when([version for version in versions if version in field.flexible], versions, root)
        if field.flexible == self.message.flexible & field.versions:
            compact = self.is_flexible(root, versions)
        nullable = self.when([version for version in versions if version in field.nullable], versions, root)
        if kind == STRUCT:
            assert field.type.struct is not None
            one = _Entry(id, self.types[field.type.struct], condition)
        elif kind == UUID:
            one = _Entry(id, "", condition, size="16")
        else:
            length = "" if kind in _FIXED else f"({compact}, {'false' if field.type.array else nullable})"
            one = _Entry(id, _FIXED.get(kind) or _SIZED[kind] + length, condition)
        found = [text for path, text in self.inside.items() if leads_to(self.message, path, struct, field.name)]
        about = " ".join((field.about, *found)).strip()
        one = replace(one, about=f"0 is false. {about}".rstrip() if kind == BOOL else about)
        if field.type.array:
            count = unique(f"{id}_count", taken)
            yield _Entry(count, f"kafka_types::length({compact}, {nullable})", condition)
            yield replace(
                one,
                condition=_both(condition, "" if nullable == "false" else f"{count}.value >= 0"),
                repeat=f"{count}.value",
            )
        elif kind == STRUCT and nullable != "false":
            mark = unique(f"{id}_mark", taken)
            present = f"{mark}.present"
            if nullable == "true":
                yield _Entry(mark, f"kafka_types::mark({'true' if tagged else 'false'})", condition)
            else:  # a struct that cannot be null has no mark
                marked = [version for version in versions if version in field.nullable]
                yield _Entry(mark, "kafka_types::mark(false)", self.when(marked, struct.versions, struct))
                bare = [version for version in versions if version not in field.nullable]
                present = f"({self.when(bare, versions, struct)} or {present})"
            yield replace(one, condition=_both(condition, present))
        else:
            yield one

    def when(self, versions: Iterable[int], within: Iterable[int], struct: StructModel | None) -> str:
        """The expression that is true in those versions. `struct`: where it stands."""
        return condition(versions, within, "version" if struct is self.message.root else "_root.version")

    def is_flexible(self, struct: StructModel | None, versions: Iterable[int]) -> str:
        """The expression that is true where a version is flexible, of these versions."""
        condition = self.when([version for version in versions if version in self.message.flexible], versions, struct)
        if condition in ("true", "false"):
            return condition
        return "flexible" if struct is self.message.root else "_root.flexible"


def _both(one: str, other: str) -> str:
    return " and ".join(part for part in (one, other) if part)

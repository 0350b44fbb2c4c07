"""Steps: a struct -> the lines of its decoder and its encoder, as data for the template.

A struct has one decoder and one encoder for all versions: fields that all versions carry are read and written
unconditionally, others under a condition on the version. Neighbouring fixed-size fields of the same versions are fused
into one `struct` call (a run); everything else is one function of `kafkawire.wire` a field. Structs that arrays hold
are read and written by functions that loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from kafkawire.codegen import names
from kafkawire.codegen.lower import lower
from kafkawire.codegen.model import FieldModel, MessageModel, StructModel
from kafkawire.codegen.versions import VersionRange
from kafkawire.wire.layout import BOOL, BYTES, FIXED_SIZES, KIND_NAMES, RECORDS, UUID
from kafkawire.wire.strides import CODES, is_strided

#: Names of arrays where they are not the kind's name and an s.
_PLURALS = {BYTES: "blobs", RECORDS: "blobs"}
#: Names of run constants cannot hold "?"; there is no struct code "t".
_SPELLING = str.maketrans({"?": "t"})


#: The variable, and neither the end of another name nor an attribute.
_WIRE = re.compile(r"(?<![\w.])wire\.")


@dataclass(slots=True)
class Block:
    """Fields that the same versions carry. `condition` is empty where those are all that use the struct.

    `lost` is the condition on which a version without the fields would lose a value, which is an error.
    """

    condition: str
    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)
    lost: str = ""


@dataclass(slots=True)
class TagLine:
    """One line of a struct's table of tagged fields."""

    tag: int
    attribute: str
    versions: VersionRange
    read: str
    write: str
    nested: bool


@dataclass(slots=True)
class StructCode:
    """The decoder and the encoder of one struct.

    Attributes:
        name, cls: the struct in the names of functions; its class.
        forms: which of `classic` and `flexible` its fields are written in; empty where it has no field with a length.
        unset: the statements that give locals the defaults that versions without the field leave them at.
        blocks: the fields.
        lost: conditions on which tagged fields would lose a value, each with the versions that it concerns.
        flexible: the condition on which there are tagged fields; None where there are none.
        tags, tagged: the table of its own tagged fields, and their locals.
        untagged: the values of these locals where a value has no tagged field, and the position after it.
        values: the arguments of the class.
        end: the position after the last block, as an expression.
        element, alone: whether arrays hold it; whether it is also, or only, a field or the message.
        strided: whether many elements may be read at once.
        root: whether it is the message.
    """

    name: str
    cls: str
    forms: str = ""
    unset: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)
    flexible: str | None = None
    tags: list[TagLine] = field(default_factory=list)
    tagged: list[str] = field(default_factory=list)
    untagged: str = ""
    values: list[str] = field(default_factory=list)
    end: str = "p"
    element: bool = False
    alone: bool = True
    strided: bool = False
    root: bool = False

    @property
    def reads_forms(self) -> bool:
        return any(_WIRE.search(line) for block in self.blocks for line in block.read)

    @property
    def writes_forms(self) -> bool:
        return any(_WIRE.search(line) for block in self.blocks for line in block.write)


@dataclass(slots=True)
class Codecs:
    """All codecs of a message, nested structs first, and the runs that they use."""

    codecs: list[StructCode]
    runs: set[str]


def codecs(message: MessageModel, texts: list[dict[str, tuple[str, str]]]) -> Codecs:
    """The codecs of all structs. `texts[struct][attribute]` is a field's annotation and its default, as source text."""
    return _StructPlanner(message).plan(texts)


class _StructPlanner:
    def __init__(self, message: MessageModel) -> None:
        self.message = message
        self.structs = (*message.structs, message.root)
        self.names = dict(zip((struct.name for struct in self.structs), _function_names(self.structs), strict=True))
        self.runs: set[str] = set()
        used = [one.type for struct in self.structs for one in struct.fields if one.type.struct]
        self.elements = {type_.struct for type_ in used if type_.array}
        self.alone = {type_.struct for type_ in used if not type_.array} | {message.root.name}
        self.strided = {self.structs[layout.struct].name for layout in lower(message).layouts if is_strided(layout)}

    def plan(self, texts: list[dict[str, tuple[str, str]]]) -> Codecs:
        planned = [self.codec(struct, its) for struct, its in zip(self.structs, texts, strict=True)]
        return Codecs(planned, self.runs)

    def codec(self, struct: StructModel, texts: dict[str, tuple[str, str]]) -> StructCode:
        codec = StructCode(self.names[struct.name], names.class_name(struct.name))
        codec.root = struct is self.message.root
        codec.element = struct.name in self.elements
        codec.alone = struct.name in self.alone
        codec.strided = codec.element and struct.name in self.strided
        flexible = self.message.flexible & struct.versions
        codec.flexible = condition(set(flexible), struct.versions) if flexible else None
        codec.forms = _forms(codec.flexible)
        plain = [(one, _plain_versions(one)) for one in struct.fields]
        offset = 0
        for versions, group in groupby(((one, where) for one, where in plain if where), key=lambda pair: pair[1]):
            block, offset = self.block([one for one, _ in group], versions, struct, codec, offset, texts)
            codec.blocks.append(block)
        codec.end = f"p + {offset}" if offset else "p"
        for one, where in plain:
            self.unset(codec, one, where, struct, texts)
        if flexible and codec.flexible:
            codec.unset.append("unknown: tuple[TaggedField, ...] = ()")
        codec.tags = [tag for one in struct.fields for tag in self.tags(one)]
        codec.tagged = [_local(one) for one in struct.fields if one.tag is not None]
        unset = [texts[names.attribute(one.name)][1] for one in struct.fields if one.tag is not None]
        if any("(" in default[1:] for default in unset):  # a value that would be made each time
            unset = [f"*_TAGS_{codec.name.upper()}.defaults"]
        codec.untagged = ", ".join([*unset, "()", "p + 1"])
        codec.values = [_local(one) for one in struct.fields] + ["unknown_tagged_fields=unknown"] * bool(flexible)
        return codec

    def unset(
        self,
        codec: StructCode,
        one: FieldModel,
        where: frozenset[int],
        struct: StructModel,
        texts: dict[str, tuple[str, str]],
    ) -> None:
        """The value of a field where it is not read, and whether it may be dropped where it is not written."""
        attribute = names.attribute(one.name)
        annotation, default = texts[attribute]
        read = where | (set(struct.versions) & set(one.tagged))
        always = read == set(struct.versions) or (one.tag is not None and codec.flexible == "")
        if not always:
            typed = default in ("None", "()") or one.nullable
            codec.unset.append(f"{_local(one)}{f': {annotation}' if typed else ''} = {default}")
        absent = set(struct.versions) - set(one.versions)
        if one.tag is not None and absent and not one.ignorable:
            codec.lost.append((condition(absent, struct.versions), is_not_default(attribute, default)))

    def block(
        self,
        fields: list[FieldModel],
        versions: frozenset[int],
        struct: StructModel,
        codec: StructCode,
        offset: int,
        texts: dict[str, tuple[str, str]],
    ) -> tuple[Block, int]:
        """The block, and the distance of its end from `p`. A conditional block begins and ends at `p`."""
        block = Block(condition(versions, struct.versions))
        if block.condition and offset:
            codec.blocks[-1].read.append(f"p += {offset}")
            offset = 0
        for fixed, group in groupby(fields, key=lambda one: not one.type.array and one.type.kind in FIXED_SIZES):
            if fixed:
                offset = self.run(list(group), block, offset)
                continue
            for one in group:
                at = f"p + {offset}" if offset else "p"
                read, write, nested = self.functions(one, versions, codec)
                version = ["version"] * nested
                block.read.append(f"{_local(one)}, p = {_call(read, ['b', at, *version])}")
                block.write.append(_call(write, [f"o.{names.attribute(one.name)}", "out", *version]))
                offset = 0
        if block.condition and offset:
            block.read.append(f"p += {offset}")
            offset = 0
        if block.condition:
            kept = [one for one in fields if one.tag is None and not one.ignorable]
            lost = (is_not_default(names.attribute(one.name), texts[names.attribute(one.name)][1]) for one in kept)
            block.lost = " or ".join(lost)
        return block, offset

    def run(self, fields: list[FieldModel], block: Block, offset: int) -> int:
        """Fixed-size fields in a row."""
        at = f"p + {offset}" if offset else "p"
        kinds = [one.type.kind for one in fields]
        locals_ = [_local(one) for one in fields]
        name = run_name("".join(CODES[kind] for kind in kinds))
        if kinds == [BOOL]:
            block.read.append(f"{locals_[0]} = b[{at}] != 0")
            block.write.append(f"out(BOOL_BYTES[o.{names.attribute(fields[0].name)}])")
        else:
            self.runs.add("".join(CODES[kind] for kind in kinds))
            if kinds == [UUID]:
                block.read.append(f"{locals_[0]} = make_uuid(unpack_{name}(b, {at})[0])")
            else:
                one = "[0]" if len(fields) == 1 else ""
                block.read.append(f"{', '.join(locals_)} = unpack_{name}(b, {at}){one}")
                made = (local for local, kind in zip(locals_, kinds, strict=True) if kind == UUID)
                block.read += (f"{local} = make_uuid({local})" for local in made)
            packed = (_packed(names.attribute(one.name), one.type.kind) for one in fields)
            block.write.append(f"out(pack_{name}({', '.join(packed)}))")
        return offset + sum(FIXED_SIZES[kind] for kind in kinds)

    def functions(
        self, one: FieldModel, versions: frozenset[int], codec: StructCode
    ) -> tuple[list[str], list[str], bool]:
        """The functions that read and write a field that is not tagged, each with its leading arguments; and whether
        they take the version."""
        nullable = condition(versions & set(one.nullable), versions) if versions & set(one.nullable) else None
        if one.type.struct and not one.type.array:
            name = self.names[one.type.struct]
            if not one.nullable:
                return [f"_read_{name}"], [f"_write_{name}"], True
            function = _choice("{}_nullable_struct", "{}_struct", nullable)
            return (
                [function.format("read", "read"), f"_read_{name}"],
                [function.format("write", "write"), f"_write_{name}"],
                True,
            )
        compact = versions & set(one.flexible)
        if compact == versions & set(self.message.flexible):
            form = "wire" if " " in codec.forms else codec.forms
        else:
            form = _forms(condition(compact, versions) if compact else None)
            form = f"({form})" if " " in form else form
        base = _type_name(one)
        function = _choice(f"{form}.{{}}_nullable_{base}", f"{form}.{{}}_{base}", nullable)
        items = [f"_{{}}_{self.names[one.type.struct]}_array"] if one.type.struct else []
        read, write = ([part.replace("{}", verb) for part in (function, *items)] for verb in ("read", "write"))
        return read, write, bool(one.type.struct)

    def tags(self, one: FieldModel) -> Iterator[TagLine]:
        """The lines of a tagged field: two where it may be null in some versions only."""
        if one.tag is None:
            return
        attribute = names.attribute(one.name)
        for nullable, group in groupby(one.tagged, key=lambda version: version in one.nullable):
            versions = VersionRange.of(group)
            null = "nullable_" if nullable else ""
            items = self.names[one.type.struct] if one.type.struct else ""
            if items and one.type.array:
                read, write = (f"partial(flexible.{v}_{null}array, _{v}_{items}_array)" for v in ("read", "write"))
            elif items and nullable:
                read, write = (f"partial({v}_tagged_nullable_struct, _{v}_{items})" for v in ("read", "write"))
            elif items:
                read, write = (f"_{v}_{items}" for v in ("read", "write"))
            else:
                fixed = not one.type.array and one.type.kind in FIXED_SIZES
                read, write = (
                    f"{v}_{_type_name(one)}" if fixed else f"flexible.{v}_{null}{_type_name(one)}"
                    for v in ("read", "write")
                )
            yield TagLine(one.tag, attribute, versions, read, write, bool(items))


def _function_names(structs: Iterable[StructModel]) -> list[str]:
    """The structs' names in those of functions; schema names that differ in capitals only get a number after them."""
    taken: list[str] = []
    for struct in structs:
        name = names.snake_case(struct.name)
        taken.append(name if name not in taken else f"{name}_{len(taken)}")
    return taken


def _plain_versions(one: FieldModel) -> frozenset[int]:
    """The versions that carry a field, and not as a tagged one."""
    return frozenset(one.versions) - frozenset(one.tagged)


def _type_name(one: FieldModel) -> str:
    """The name of a type in the names of readers and writers."""
    if one.type.array:
        return "array" if one.type.struct else _PLURALS.get(one.type.kind) or KIND_NAMES[one.type.kind] + "s"
    return KIND_NAMES[one.type.kind].replace("records", "bytes")


def _forms(flexible: str | None) -> str:
    """The module whose functions read and write lengths, where versions are flexible on that condition."""
    if flexible is None:
        return "classic"
    return f"flexible if {flexible} else classic" if flexible else "flexible"


def _choice(one: str, other: str, condition: str | None) -> str:
    """The first on a condition, which may be always (empty) or never (None)."""
    if condition is None:
        return other
    return f"({one} if {condition} else {other})" if condition else one


def _call(function: list[str], arguments: list[str]) -> str:
    return f"{function[0]}({', '.join([*function[1:], *arguments])})"


def condition(versions: Iterable[int], within: Iterable[int]) -> str:
    """The condition that is true in some of the versions `within`; empty where it is true in all of them."""
    wanted, all_ = sorted(versions), sorted(within)
    if wanted == all_:
        return ""
    low, high = wanted[0], wanted[-1]
    if wanted != [version for version in all_ if low <= version <= high]:
        others = condition(set(all_) - set(wanted), all_)
        return f"not ({others})" if "not" not in others else f"version in {tuple(wanted)}"
    if high == all_[-1]:
        return f"version >= {low}"
    if low == high:
        return f"version == {low}"
    return f"version <= {high}" if low == all_[0] else f"{low} <= version <= {high}"


def is_not_default(attribute: str, default: str) -> str:
    """The condition that is true when a field is not at its default."""
    conditions = {
        "None": f"o.{attribute} is not None",
        # Truth alone would lose an empty string, which is no bool.
        "False": f"BOOLS[o.{attribute}]",
        "True": f"not BOOLS[o.{attribute}]",
    }
    return conditions.get(default, f"o.{attribute} != {default}")


def run_name(pack: str) -> str:
    """The name of a run's constant: `unpack_ihq`, `pack_ihq`; 16s (a uuid) is spelt u."""
    return pack.replace("16s", "u").translate(_SPELLING)


def _packed(attribute: str, kind: int) -> str:
    """An argument of a run's packer."""
    return {BOOL: "BOOLS[o.{}]", UUID: "o.{}.bytes"}.get(kind, "o.{}").format(attribute)


def _local(one: FieldModel) -> str:
    return names.local(names.attribute(one.name))

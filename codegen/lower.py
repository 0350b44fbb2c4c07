"""The conversion of a message of the model to specs, from which `kafkawire.wire.lowering` makes a table of layouts."""

from __future__ import annotations

from kafkawire.codegen import names
from kafkawire.codegen.model import FieldModel, MessageModel, StructModel
from kafkawire.codegen.versions import VersionRange
from kafkawire.wire import lowering, spec
from kafkawire.wire.layout import KIND_MASK, STRUCT, Table


def lower(message: MessageModel) -> Table:
    """The table of all versions of a message. Its structs are those of the message, the message itself last."""
    structs = [spec.StructSpec(struct.name, _fields(struct)) for struct in message.structs]
    root = spec.MessageSpec(
        message.name,
        _fields(message.root),
        kind=message.kind,
        family=message.family,
        valid_versions=_range(message.valid),
        flexible_versions=_range(message.flexible),
    )
    return lowering.lower(root, structs)


def since(table: Table) -> list[int]:
    """For each layout the lowest version that uses it."""
    lowest: dict[int, int] = {}
    for version, root in enumerate(table.roots, table.first_version):
        todo = [root]
        for number in todo:
            if number not in lowest:
                lowest[number] = version
                ops = table.layouts[number].all_ops()
                todo += (op.arg for op in ops if op.code & KIND_MASK == STRUCT)
    return [lowest[number] for number in range(len(table.layouts))]


def field_spec(field: FieldModel) -> spec.Field:
    """The spec of a field, with the properties that engines use."""
    return spec.Field(
        field.name,
        names.attribute(field.name),
        str(field.type),
        _range(field.versions),
        nullable_versions=_range(field.nullable),
        tagged_versions=_range(field.tagged),
        tag=field.tag,
        ignorable=field.ignorable,
        flexible_versions=_range(field.flexible),
    )


def _fields(struct: StructModel) -> tuple[spec.Field, ...]:
    return tuple(field_spec(field) for field in struct.fields)


def _range(versions: VersionRange) -> range:
    return range(versions.low, versions.high + 1)

"""The arguments of column functions; from a message's `spec` to one Spark schema for all its versions; and what workers
do: columns of bytes to columns of messages, and back.

The types are those of `kafkawire.wire.columns`, but that uuids are text, everything may be null, and unknown tagged
fields are no part of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type

from kafkawire._loading import SchemaTexts, load_texts, schema_texts
from kafkawire._lookup import lookup
from kafkawire.errors import EncodeError, KafkaWireError, UnsupportedVersionError
from kafkawire.messages import REGISTRY
from kafkawire.wire import columns
from kafkawire.wire.columns.schema import SPARK, shape_of, struct_type
from kafkawire.wire.layout import KIND_NAMES, STRUCT
from kafkawire.wire.spec import MessageSpec, StructSpec

if TYPE_CHECKING:
    from kafkawire._loading import Namespace
    from kafkawire.wire.message import Message
    from kafkawire.wire.registry import Registry
    from kafkawire.wire.spec import Field

#: The version of each value is the int16 in front of it, as in coordinator keys and values.
PREFIX = "prefix"

FAILFAST, PERMISSIVE = "FAILFAST", "PERMISSIVE"


class FunctionOptions(NamedTuple):
    """The options of a call, read and checked. `schemas`: those of `schemaDirectory`; workers get them too."""

    mode: str = FAILFAST
    errors: bool = False
    schemas: SchemaTexts | None = None


def read_options(options: Mapping[str, str] | None) -> FunctionOptions:
    """The options of a call.

    Raises:
        ValueError: an unknown option, or a value that the option does not accept.
        SchemaError: the directory of `schemaDirectory` does not exist, or holds files that are no schemas.
    """
    known: dict[str, Callable[[str], Any]] = {"mode": str.upper, "errors": _boolean, "schemadirectory": schema_texts}
    given = {name.lower(): value for name, value in (options or {}).items()}
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"unknown options: {', '.join(unknown)}; known are mode, errors, schemaDirectory")
    read = {name: known[name](value) for name, value in given.items()}
    mode = read.get("mode", FAILFAST)
    if mode not in (FAILFAST, PERMISSIVE):
        raise ValueError(f"mode is FAILFAST or PERMISSIVE, not {mode}")
    return FunctionOptions(mode, read.get("errors", False), read.get("schemadirectory"))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"errors is true or false, not {text}")
    return text.lower() == "true"


def check_version(message: type[Message], version: object) -> None:
    """Check that the message has a version, as far as that is known before any value is read.

    Raises:
        ValueError: it is text other than "prefix".
        UnsupportedVersionError: the message does not have the version.
    """
    if isinstance(version, str) and version != PREFIX:
        raise ValueError(f'version is a number, a column or "{PREFIX}", not {version!r}')
    if isinstance(version, int) and version not in message.spec.valid_versions:
        raise UnsupportedVersionError(message.spec.name, version, message.spec.valid_versions)


def message_named(name: str, schemas: SchemaTexts | None) -> type[Message]:
    """The message of that name: Kafka's, or one of the schemas.

    Raises:
        LookupError: no message has the name.
    """
    if schemas is None:
        return lookup(name)
    loaded = _loaded(schemas)
    if name not in loaded.__all__:
        raise LookupError(f"no message is named {name!r} in the schemaDirectory; there are {', '.join(loaded)}")
    return loaded[name]


def registry_with(schemas: SchemaTexts | None) -> Registry:
    """The messages of Kafka, with those of the schemas on top."""
    return REGISTRY if schemas is None else _loaded(schemas).registry.over(REGISTRY)


@lru_cache(maxsize=16)
def _loaded(schemas: SchemaTexts) -> Namespace:
    return load_texts(schemas)


#: Field for what is wrong with a row, by option.
ERROR = "_error"


def spark_schema(spec: MessageSpec, *, errors: bool = False) -> types.StructType:
    """The Spark type of a message, over all its versions."""
    schema = from_arrow_type(arrow_type(spec, errors=errors))
    assert isinstance(schema, types.StructType)
    return schema


def commented(type_: types.StructType, spec: StructSpec) -> types.StructType:
    """The type of `spark_schema` with the meaning of each field as its comment, which tables keep.

    Values get this type by a cast: Spark compares the result of a function with its declared type, comments included.
    """
    stated = {field.attribute: field for field in spec.fields}
    fields = []
    for one in type_.fields:
        field = stated.get(one.name)  # None: `_error`, and columns that are kept
        nested: Any = one.dataType
        if field is not None and field.struct is not None:
            if isinstance(nested, types.ArrayType):
                element: Any = nested.elementType
                nested = types.ArrayType(commented(element, field.struct.spec), nested.containsNull)
            else:
                nested = commented(nested, field.struct.spec)
        comment = {"comment": field.about} if field is not None and field.about else one.metadata
        fields.append(types.StructField(one.name, nested, one.nullable, comment))
    return types.StructType(fields)


def arrow_type(spec: MessageSpec, *, errors: bool = False) -> pa.StructType:
    """The Arrow type that goes with `spark_schema`."""
    type_ = struct_type(shape_of(spec, unknown_tags=False), SPARK)
    return pa.struct([*type_, pa.field(ERROR, pa.string())]) if errors else type_


def decoded(
    name: str, options: FunctionOptions, data: pa.Array, version: int | str | pa.Array, fields: list[str] | None = None
) -> pa.StructArray:
    """Messages as structs, of all fields or of some; with `options.errors`, the last one is the error text.

    Args:
        name: of the message. `data`: binary, an element a message.
        version: of all, or an array with that of each; or "prefix".
        fields: names of those that are wanted; None: all.

    Raises:
        KafkaWireError: malformed data, in mode FAILFAST.
    """
    message = message_named(name, options.schemas)
    chosen = None if fields is None else [field for field in fields if field != ERROR]
    asked = columns.shape(message, chosen, unknown_tags=False)
    found = columns.decode_structs(message, data, version, asked=asked, style=SPARK)
    if found.errors and options.mode == FAILFAST:
        raise found.errors[min(found.errors)]
    if not options.errors:
        return found.array
    # A row with an error is not null: its last field is the error text.
    values = [*found.array.flatten(), found.problems()]
    types = [*found.array.type, pa.field(ERROR, pa.string())]
    return pa.StructArray.from_arrays(values, fields=types, mask=data.is_null() if data.null_count else None)


def encoded(name: str, options: FunctionOptions, struct: pa.Array, version: int | str | pa.Array) -> pa.Array:
    """Structs as messages, null where the struct is null.

    Args:
        name, version: see `decoded`. `struct`: an element a message.

    Raises:
        KafkaWireError: a struct that is none of the message's version, in mode FAILFAST.
    """
    message = message_named(name, options.schemas)
    versions = repeat(version) if isinstance(version, (int, str)) else version.to_pylist()
    return pa.array(encoded_values(message, messages_of(message, struct), versions, options), pa.binary())


def encoded_values(
    message: type[Message],
    values: Iterable[Message | None],
    versions: Iterable[int | str | None],
    options: FunctionOptions,
) -> list[bytes | None]:
    """Messages as bytes, each in its version.

    Raises:
        KafkaWireError: a struct that is none of the message's version, in mode FAILFAST.
    """
    made: list[bytes | None] = []
    for value, number in zip(values, versions, strict=False):
        try:
            made.append(None if value is None else _encode(message, value, number))
        except KafkaWireError:
            if options.mode == FAILFAST:
                raise
            made.append(None)
    return made


def _encode(message: type[Message], value: Message, version: int | str | None) -> bytes:
    if version == PREFIX:
        spec = message.spec
        return value.encode_prefixed(spec.valid_versions[-2 if spec.latest_version_unstable else -1])
    if not isinstance(version, int):
        raise UnsupportedVersionError(message.spec.name, version, message.spec.valid_versions)
    return value.encode(version)


# Rows to messages ----------------------------------------------------------------------------------------------------


def messages_of(cls: Any, rows: pa.StructArray, path: str = "") -> list[Any]:
    """Messages of `cls` from rows, field by field for all rows; None for null. Fields are found by attribute or
    schema name; those that the rows do not have get their default. Text that is no uuid is left to the encoder.

    Raises:
        EncodeError: the rows have a field that the message has not, or one of another shape.
    """
    spec, default = cls.spec, cls()
    given: dict[str, list[Any]] = {}
    for number, member in enumerate(rows.type):
        if member.name == ERROR:
            continue
        try:
            field = spec.field(member.name)
        except KeyError:
            raise EncodeError(f"{spec.name} has no such field", path=path + member.name) from None
        given[field.attribute] = _values(field, rows.field(number), f"{path}{member.name}")
    attributes = [field.attribute for field in spec.fields]
    columns = [given.get(name) or repeat(getattr(default, name), len(rows)) for name in attributes]
    # A few messages have no field.
    return _masked(list(map(cls, *columns)) if columns else [default] * len(rows), rows)


def _values(field: Field, column: pa.Array, path: str) -> list[Any]:
    if not field.is_array:
        return _elements(field, column, path)
    if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
        raise EncodeError(f"needs an array, not {column.type}", path=path)
    ends = column.offsets.to_pylist() if len(column) else [0]
    elements = _elements(field, column.values.slice(ends[0], ends[-1] - ends[0]), path + "[]")
    lists = [tuple(elements[start - ends[0] : end - ends[0]]) for start, end in pairwise(ends)]
    return _masked(lists, column)


def _elements(field: Field, column: pa.Array, path: str) -> list[Any]:
    if field.kind == STRUCT:
        if not pa.types.is_struct(column.type):
            raise EncodeError(f"needs a struct, not {column.type}", path=path)
        return messages_of(field.struct, column, path + ".")
    if KIND_NAMES[field.kind] == "uuid":
        return [uuid_of(value) for value in column.to_pylist()]
    if not column.null_count and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        numbers: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return numbers
    values: list[Any] = column.to_pylist()
    return values


def _masked(values: list[Any], column: pa.Array) -> list[Any]:
    """The values, with None where the column is null."""
    if not column.null_count:
        return values
    return [value if there else None for value, there in zip(values, column.is_valid().to_pylist(), strict=True)]


def uuid_of(value: Any) -> Any:
    """Text as a uuid; what is none is left to the encoder."""
    try:
        return value if value is None else UUID(value)
    except ValueError:
        return value

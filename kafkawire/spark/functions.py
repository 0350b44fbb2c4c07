"""Column functions: `from_kafka_message`, `to_kafka_message`, in the manner of Spark's `from_protobuf`.

    df.select(from_kafka_message("value", "TransactionLogValue", version="prefix").alias("state")).select("state.*")

Options, case-insensitive:

- `mode`: FAILFAST, the default: malformed data fails the job; or PERMISSIVE: it becomes null
- `errors`: "true" adds a field `_error` at the end of the struct, which says what is wrong with the row; in PERMISSIVE
  mode the struct is then not null
- `schemaDirectory`: message schemas of one's own; a folder that the workers see as well
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, DataType

from kafkawire._loading import load_schemas
from kafkawire._lookup import lookup
from kafkawire.errors import KafkaWireError, UnsupportedVersionError
from kafkawire.spark.schema import ERROR, messages_of, spark_schema
from kafkawire.wire import columns
from kafkawire.wire.columns.schema import SPARK

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kafkawire.wire.message import Message

#: The version of each value is the int16 in front of it, as in coordinator keys and values.
PREFIX = "prefix"

FAILFAST, PERMISSIVE = "FAILFAST", "PERMISSIVE"


class Options(NamedTuple):
    """The options of a call, read and checked."""

    mode: str = FAILFAST
    errors: bool = False
    schema_directory: str | None = None


def from_kafka_message(
    data: Column | str,
    messageName: str,
    version: int | str | Column,
    options: Mapping[str, str] | None = None,
) -> Column:
    """A struct column from a binary column of messages; null where the bytes are null.

    Args:
        data: bytes of whole messages.
        messageName: such as TransactionLogValue.
        version: of all values, or a column with that of each, or "prefix".

    Raises:
        LookupError: no such message. UnsupportedVersionError: it has no such version. ValueError: unknown options.
    """
    chosen = read_options(options)
    message = message_named(messageName, chosen.schema_directory)
    check_version(message, version)
    returned = spark_schema(message.spec, errors=chosen.errors)
    if isinstance(version, (int, str)):
        fixed = version

        def decode(data: pa.Array) -> pa.Array:
            return decoded(messageName, chosen, data, fixed)

        return _udf(decode, returned)(data)

    def decode_each(data: pa.Array, version: pa.Array) -> pa.Array:
        return decoded(messageName, chosen, data, version)

    return _udf(decode_each, returned)(data, version)


def to_kafka_message(
    struct: Column | str,
    messageName: str,
    version: int | str | Column,
    options: Mapping[str, str] | None = None,
) -> Column:
    """A binary column of messages from a struct column; null where the struct is null.

    Args:
        struct: its fields are found by the names that `from_kafka_message` gives, or the schema's; what it does not
            have gets its default.
        version: as in `from_kafka_message`; "prefix" writes the newest released version, its int16 in front.

    Raises:
        LookupError: no such message. UnsupportedVersionError: it has no such version. ValueError: unknown options.
    """
    chosen = read_options(options)
    if chosen.errors:
        raise ValueError("to_kafka_message has no option 'errors': its column is binary")
    message = message_named(messageName, chosen.schema_directory)
    check_version(message, version)
    if isinstance(version, (int, str)):
        fixed = version

        def encode(struct: pa.Array) -> pa.Array:
            return _encoded(messageName, chosen, struct, fixed)

        return _udf(encode, BinaryType())(struct)

    def encode_each(struct: pa.Array, version: pa.Array) -> pa.Array:
        return _encoded(messageName, chosen, struct, version)

    return _udf(encode_each, BinaryType())(struct, version)


def _udf(function: Callable[..., pa.Array], returned: DataType) -> Callable[..., Column]:
    wrap: Any = arrow_udf  # its overloads leave the plain call out
    udf: Callable[..., Column] = wrap(function, returned)
    return udf


# On the workers ------------------------------------------------------------------------------------------------------


def decoded(
    name: str, options: Options, data: pa.Array, version: int | str | pa.Array, fields: list[str] | None = None
) -> pa.StructArray:
    """Messages as structs, of all fields or of some; with `options.errors`, the last one tells what is wrong.

    Raises:
        KafkaWireError: malformed data, in mode FAILFAST.
    """
    message = message_named(name, options.schema_directory)
    chosen = None if fields is None else [field for field in fields if field != ERROR]
    asked = columns.shape(message, chosen, unknown_tags=False)
    found = columns.decode_structs(message, data, version, asked=asked, style=SPARK)
    if found.errors and options.mode == FAILFAST:
        raise found.errors[min(found.errors)]
    if not options.errors:
        return found.array
    # A row with an error is not null: it holds what is wrong.
    values = [*found.array.flatten(), found.problems()]
    types = [*found.array.type, pa.field(ERROR, pa.string())]
    return pa.StructArray.from_arrays(values, fields=types, mask=data.is_null() if data.null_count else None)


def _encoded(name: str, options: Options, struct: pa.Array, version: int | str | pa.Array) -> pa.Array:
    message = message_named(name, options.schema_directory)
    values = messages_of(message, struct)
    versions = repeat(version) if isinstance(version, (int, str)) else version.to_pylist()
    encoded: list[bytes | None] = []
    for value, number in zip(values, versions, strict=False):
        try:
            encoded.append(None if value is None else _encode(message, value, number))
        except KafkaWireError:
            if options.mode == FAILFAST:
                raise
            encoded.append(None)
    return pa.array(encoded, pa.binary())


def _encode(message: type[Message], value: Message, version: int | str | None) -> bytes:
    if version == PREFIX:
        spec = message.spec
        return value.encode_prefixed(spec.valid_versions[-2 if spec.latest_version_unstable else -1])
    return value.encode(_number(message, version))


def _number(message: type[Message], version: int | str | None) -> int:
    if not isinstance(version, int):
        raise UnsupportedVersionError(message.spec.name, version, message.spec.valid_versions)
    return version


# Arguments -----------------------------------------------------------------------------------------------------------


def read_options(options: Mapping[str, str] | None) -> Options:
    """The options of a call.

    Raises:
        ValueError: an option that there is not, or that cannot have its value.
    """
    known: dict[str, Callable[[str], Any]] = {"mode": str.upper, "errors": _boolean, "schemadirectory": str}
    given = {name.lower(): value for name, value in (options or {}).items()}
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"unknown options: {', '.join(unknown)}; known are mode, errors, schemaDirectory")
    read = {name: known[name](value) for name, value in given.items()}
    mode = read.get("mode", FAILFAST)
    if mode not in (FAILFAST, PERMISSIVE):
        raise ValueError(f"mode is FAILFAST or PERMISSIVE, not {mode}")
    return Options(mode, read.get("errors", False), read.get("schemadirectory"))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"errors is true or false, not {text}")
    return text.lower() == "true"


def check_version(message: type[Message], version: object) -> None:
    """Whether a version is one of the message's, as far as that can be told before there are values.

    Raises:
        ValueError: it is none at all. UnsupportedVersionError: the message has no such version.
    """
    if isinstance(version, str) and version != PREFIX:
        raise ValueError(f'version is a number, a column or "{PREFIX}", not {version!r}')
    if isinstance(version, int) and version not in message.spec.valid_versions:
        raise UnsupportedVersionError(message.spec.name, version, message.spec.valid_versions)


def message_named(name: str, schema_directory: str | None) -> type[Message]:
    """The message of that name: Kafka's, or one of the schemas in a directory.

    Raises:
        LookupError: there is none.
    """
    if schema_directory is None:
        return lookup(name)
    loaded = _loaded(schema_directory)
    if name not in loaded.__all__:
        raise LookupError(f"no message is named {name!r} in {schema_directory}; there are {', '.join(loaded)}")
    return loaded[name]


_loaded = cache(load_schemas)

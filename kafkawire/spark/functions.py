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
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, DataType

from kafkawire._loading import load_schemas
from kafkawire._lookup import lookup
from kafkawire.errors import KafkaWireError, UnsupportedVersionError
from kafkawire.spark.schema import arrow_type, message_maker, spark_schema
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
    chosen = _options(options)
    message = _message(messageName, chosen.schema_directory)
    _check(message, version)
    returned = spark_schema(message.spec, errors=chosen.errors)
    if isinstance(version, (int, str)):
        fixed = version

        def decode(data: pa.Array) -> pa.Array:
            return _decoded(messageName, chosen, data, fixed)

        return _udf(decode, returned)(data)

    def decode_each(data: pa.Array, version: pa.Array) -> pa.Array:
        return _decoded(messageName, chosen, data, version)

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
    chosen = _options(options)
    if chosen.errors:
        raise ValueError("to_kafka_message has no option 'errors': its column is binary")
    message = _message(messageName, chosen.schema_directory)
    _check(message, version)
    if isinstance(version, (int, str)):
        fixed = version

        def encode(struct: pa.Array) -> pa.Array:
            return _encoded(messageName, chosen, struct, [fixed] * len(struct))

        return _udf(encode, BinaryType())(struct)

    def encode_each(struct: pa.Array, version: pa.Array) -> pa.Array:
        return _encoded(messageName, chosen, struct, version.to_pylist())

    return _udf(encode_each, BinaryType())(struct, version)


def _udf(function: Callable[..., pa.Array], returned: DataType) -> Callable[..., Column]:
    wrap: Any = arrow_udf  # its overloads leave the plain call out
    udf: Callable[..., Column] = wrap(function, returned)
    return udf


# On the workers ------------------------------------------------------------------------------------------------------


def _decoded(name: str, options: Options, data: pa.Array, version: int | str | pa.Array) -> pa.Array:
    message = _message(name, options.schema_directory)
    asked = columns.shape(message, unknown_tags=False)
    decoded = columns.decode_structs(message, data, version, asked=asked, style=SPARK)
    if decoded.errors and options.mode == FAILFAST:
        raise decoded.errors[min(decoded.errors)]
    if not options.errors:
        return decoded.array
    # A row with an error is not null: it holds what is wrong.
    fields = [*decoded.array.flatten(), decoded.problems()]
    return pa.StructArray.from_arrays(
        fields, fields=list(arrow_type(message.spec, errors=True)), mask=data.is_null() if data.null_count else None
    )


def _encoded(name: str, options: Options, struct: pa.Array, versions: list[int | str | None]) -> pa.Array:
    message = _message(name, options.schema_directory)
    make = message_maker(message, struct.type)
    encoded: list[bytes | None] = []
    for row, version in zip(struct.to_pylist(), versions, strict=True):
        if row is None:
            encoded.append(None)
            continue
        try:
            encoded.append(_encode(message, make(row), version))
        except (KafkaWireError, ValueError):  # ValueError: a uuid that is none
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


def _options(options: Mapping[str, str] | None) -> Options:
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


def _check(message: type[Message], version: object) -> None:
    if isinstance(version, str) and version != PREFIX:
        raise ValueError(f'version is a number, a column or "{PREFIX}", not {version!r}')
    if isinstance(version, int) and version not in message.spec.valid_versions:
        raise UnsupportedVersionError(message.spec.name, version, message.spec.valid_versions)


def _message(name: str, schema_directory: str | None) -> type[Message]:
    if schema_directory is None:
        return lookup(name)
    loaded = _loaded(schema_directory)
    if name not in loaded.__all__:
        raise LookupError(f"no message is named {name!r} in {schema_directory}; there are {', '.join(loaded)}")
    return loaded[name]


_loaded = cache(load_schemas)

"""The native engine of columns beside pure Python, and what `decode` says of the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kafkawire.errors import DecodeError, UnsupportedVersionError
from kafkawire.wire.columns import decode_structs
from kafkawire.wire.columns.decoding import ENGINE
from kafkawire.wire.columns.objects import clean, row_maker, utf8_problem
from kafkawire.wire.columns.schema import ARROW, ArrowStyle, Shape, shape_of
from kafkawire.wire.message import Message

#: None: values are decoded object by object.
ENGINES: dict[str, Any] = {"python": None}
if ENGINE is not None:
    ENGINES["native"] = ENGINE

PREFIX = "prefix"


def values_of(value: Any, cls: type[Message], shape: Shape | None = None) -> dict[str, Any]:
    """The row of a message, as `to_pylist` gives it; floats as text, since NaN is not equal to itself."""
    row: dict[str, Any] = plain(row_maker(shape or shape_of(cls.spec))(value))
    return row


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return repr(value) if isinstance(value, float) else value


def expected_of(
    cls: type[Message], buffers: Sequence[bytes | None], versions: Sequence[Any], shape: Shape
) -> tuple[list[Any], list[str | None]]:
    """Rows and problems, from `decode` alone."""
    rows: list[Any] = []
    problems: list[str | None] = []
    make = row_maker(shape)
    for data, version in zip(buffers, versions, strict=True):
        row = problem = None
        if data is not None:
            try:
                if version is None:
                    raise UnsupportedVersionError(cls.spec.name, None, cls.spec.valid_versions)
                value = cls.decode_prefixed(data)[0] if version == PREFIX else cls.decode(data, version)
            except (DecodeError, UnsupportedVersionError) as error:
                problem = clean(str(error))
            else:
                row, problem = plain(make(value)), utf8_problem(value, shape)
        rows.append(row)
        problems.append(problem)
    return rows, problems


def expected_version(cls: type[Message], data: bytes | None, version: Any) -> int | None:
    """The version of a value, where it has one that the message has."""
    if data is None or version is None:
        return None
    valid = cls.spec.valid_versions
    if version == PREFIX:
        version = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else None
        if cls.spec.kind == "coordinator-key":
            version = valid[-1] if version == cls.spec.api_key else None
    return version if version in valid else None


def check(
    cls: type[Message],
    buffers: Sequence[bytes | None],
    version: Any,
    *,
    shape: Shape | None = None,
    style: ArrowStyle = ARROW,
) -> list[Any]:
    """Every engine gives the rows and errors that `decode` does; returns the rows."""
    shape = shape or shape_of(cls.spec)
    versions = version if isinstance(version, list) else [version] * len(buffers)
    rows, problems = expected_of(cls, buffers, versions, shape)
    by_version = [expected_version(cls, data, version) for data, version in zip(buffers, versions, strict=True)]
    for name, engine in ENGINES.items():
        decoded = decode_structs(cls, buffers, version, asked=shape, style=style, engine=engine)
        decoded.array.validate(full=True)
        found = plain(decoded.array.to_pylist())
        for number, (got, wanted) in enumerate(zip(found, rows, strict=True)):
            assert got == wanted, f"{name}, {cls.spec.name} {versions[number]}: value {number}, {buffers[number]!r}"
        assert decoded.problems().to_pylist() == problems, name
        assert decoded.versions.to_pylist() == by_version, name
        assert pa.types.is_struct(decoded.array.type)
    return rows

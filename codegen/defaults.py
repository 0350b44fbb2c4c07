"""The text of a field's default -> its value. One function a kind; each takes the text or raises ValueError."""

from __future__ import annotations

import base64
import math
import re
import uuid
from collections.abc import Callable

from kafkawire.codegen.model import EMPTY_STRUCT, Default, FieldType
from kafkawire.codegen.quoting import quote
from kafkawire.wire.layout import (
    BOOL,
    BYTES,
    FLOAT64,
    INTEGER_RANGES,
    KIND_NAMES,
    RECORDS,
    STRING,
    STRUCT,
    UUID,
)

#: Kinds that can be null outside an array; arrays of any kind can.
NULLABLE_KINDS = frozenset({STRING, BYTES, RECORDS, STRUCT})

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,24})|0x[0-9A-Fa-f]{1,24}")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_NOTHING_GIVEN: dict[int, Default] = {
    BOOL: False,
    FLOAT64: 0.0,
    UUID: str(uuid.UUID(int=0)),
    STRING: "",
    BYTES: b"",
    STRUCT: EMPTY_STRUCT,
    **dict.fromkeys(INTEGER_RANGES, 0),
}


def default_value(text: str | None, of: FieldType, *, nullable: bool) -> Default:
    """The default of a field.

    Args:
        text: of the schema. None: the schema has no default; Kafka's generator treats the empty text alike.
        of: type of the field.
        nullable: every version of the field is: only then may the default be "null".

    Raises:
        ValueError: the text is invalid; the error is the reason.
    """
    if text == "null":
        if not of.array and of.kind not in NULLABLE_KINDS:
            raise ValueError(f"{of} cannot be null")
        if not nullable:
            raise ValueError("null cannot be the default: not every version of the field is nullable")
        return None
    if not of.array and of.kind == RECORDS:
        if text:
            raise ValueError("the only default that records can be given is null")
        return None  # so begin Kafka's generated classes, nullable or not
    if not text:
        return () if of.array else _NOTHING_GIVEN[of.kind]
    if of.array:
        raise ValueError("the only default that an array can be given is null")
    return _PARSERS[of.kind](text, of.kind)


def _bool(text: str, kind: int) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"must be true or false, not {quote(text)}")
    return text == "true"


def _integer(text: str, kind: int) -> int:
    if re.fullmatch(r"-?0[0-9]+", text):
        # Kafka checks it in base 10 and then pastes it into Java, where 010 is 8.
        raise ValueError(f"{quote(text)} has a leading zero, which makes it octal in Java")
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{quote(text)} is no whole number (such as '-1' or '0x7fff')")
    value = int(text, 16 if text.startswith("0x") else 10)
    low, high = INTEGER_RANGES[kind]
    if not low <= value <= high:
        raise ValueError(f"{text} is not in the range of {KIND_NAMES[kind]}, {low} to {high}")
    return value


def _float64(text: str, kind: int) -> float:
    # NaN and the infinities have no literal in the languages that are generated, and NaN does not even equal itself.
    value = float(text) if _FLOAT.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"{quote(text)} is no finite number")
    return value


def _uuid(text: str, kind: int) -> str:
    if not _UUID.fullmatch(text):
        # Kafka's generator takes more than 16 bytes too, and the generated class fails when it is loaded.
        raise ValueError(f"{quote(text)} is no uuid in Kafka's form (16 bytes in base64url, 22 characters)")
    return str(uuid.UUID(bytes=base64.urlsafe_b64decode(text[:22] + "==")))


def _string(text: str, kind: int) -> str:
    if len(text.encode()) > 32767:
        raise ValueError("is longer than the 32767 bytes that a string can have")
    return text


def _only_null(text: str, kind: int) -> Default:
    raise ValueError(f"the only default that {'a struct' if kind == STRUCT else 'bytes'} can be given is null")


_PARSERS: dict[int, Callable[[str, int], Default]] = {
    BOOL: _bool,
    FLOAT64: _float64,
    UUID: _uuid,
    STRING: _string,
    BYTES: _only_null,
    STRUCT: _only_null,
    **dict.fromkeys(INTEGER_RANGES, _integer),
}

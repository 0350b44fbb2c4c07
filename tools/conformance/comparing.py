"""Compares our values with those of Java, which the oracle sends in a lossless form."""

from __future__ import annotations

import re
import struct
from typing import Any

from kafkawire.wire.message import Struct
from kafkawire.wire.spec import Field

_UNKNOWN = "_unknownTaggedFields"
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def difference(ours: Any, theirs: dict[str, Any], version: int, *, older: bool = False) -> str | None:
    """The first place where a struct of ours is not the one of Java, or None.

    Args:
        ours: a message or struct. `theirs`: the oracle's value of it, by JSON name.
        version: of our schemas.
        older: the release may know fewer tagged fields than we do, and other names.
    """
    spec = ours.spec
    left = {field.attribute: field for field in spec.fields if version in field.versions}
    for name, value in theirs.items():
        if name == _UNKNOWN:
            continue
        field = _field(ours, name, version, older)
        if field is None:
            return f"{name}: Java has this field, we have not"
        del left[field.attribute]
        found = _field_difference(getattr(ours, field.attribute), value, field, version, older)
        if found:
            return f"{name}{found}"
    theirs_unknown = [(tag, data) for tag, data in theirs.get(_UNKNOWN, [])]
    for field in left.values():
        if not older or version not in field.tagged_versions:
            return f"{field.name}: we have this field, Java has not"
        carried = [pair for pair in theirs_unknown if pair[0] == field.tag]
        if bool(carried) != (getattr(ours, field.attribute) != getattr(type(ours)(), field.attribute)):
            return f"{field.name}: a tagged field that Java does not know, carried by one side only"
        theirs_unknown = [pair for pair in theirs_unknown if pair[0] != field.tag]
    ours_unknown = [(tag.tag, bytes(tag.data).hex()) for tag in ours.unknown_tagged_fields]
    if ours_unknown != theirs_unknown:
        return f"{_UNKNOWN}: ours {ours_unknown!r:.200}, Java's {theirs_unknown!r:.200}"
    return None


def _field(ours: Struct, name: str, version: int, older: bool) -> Field | None:
    for field in ours.spec.fields:
        if field.json_name == name and version in field.versions:
            return field
    for field in ours.spec.fields if older else ():
        if name in field.json_names and version in field.versions:
            return field
    return None


def _field_difference(ours: Any, theirs: Any, field: Field, version: int, older: bool) -> str | None:
    if ours is None or theirs is None:
        return None if ours is theirs else f": ours {ours!r:.100}, Java's {theirs!r:.100}"
    if not field.is_array:
        return _item_difference(ours, theirs, field, version, older)
    if len(ours) != len(theirs):
        return f": ours has {len(ours)} items, Java's {len(theirs)}"
    for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        found = _item_difference(our, their, field, version, older)
        if found:
            return f"[{index}]{found}"
    return None


def _item_difference(ours: Any, theirs: Any, field: Field, version: int, older: bool) -> str | None:
    if field.struct is not None:
        found = difference(ours, theirs, version, older=older)
        return f".{found}" if found else None
    form = lossless(ours)
    if form != theirs or type(form) is not type(theirs):
        return f": ours {form!r:.100}, Java's {theirs!r:.100}"
    return None


def lossless(value: Any) -> Any:
    """A scalar in the oracle's form: hex for bytes, uuids and the bits of a float64; strings as Java reads them."""
    if isinstance(value, float):
        return struct.pack(">d", value).hex()
    if isinstance(value, str):
        return java_text(value)
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return value.bytes.hex() if hasattr(value, "bytes") else value


def java_text(value: str) -> str:
    """Java's text for the bytes of a string of ours: U+FFFD for bytes that are no UTF-8.

    As Python replaces it, but for a surrogate in UTF-8, whole or cut off after two bytes: one U+FFFD in Java, and one
    for each byte in Python.
    """
    if value.isascii():
        return value
    return _ENCODED_SURROGATE.sub(b"\xef\xbf\xbd", value.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")

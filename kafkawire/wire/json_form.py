"""The JSON form of messages, which Kafka's generated `*JsonConverter` classes write and read.

Field names have a small first letter, bytes are base64, uuids Kafka's base64url without padding, NaN and the infinities
strings; tagged fields at their default are left out. Unlike Kafka's, a `records` field is the base64 of its bytes, so
nothing is lost, and unknown tagged fields can be kept (`_unknownTaggedFields`). Input may use a field's older names.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from kafkawire.errors import EncodeError, JsonError, UnsupportedVersionError
from kafkawire.wire.interpreter import ValuePath
from kafkawire.wire.interpreter_encoder import shown
from kafkawire.wire.layout import (
    ARRAY,
    BOOL,
    FLOAT64,
    INTEGER_RANGES,
    KIND_MASK,
    KIND_NAMES,
    NULLABLE,
    STRING,
    STRUCT,
    UINT32,
    Layout,
    LayoutTag,
)
from kafkawire.wire.layout import UUID as UUID_KIND
from kafkawire.wire.message import Codec, Message, Struct
from kafkawire.wire.read import make_uuid
from kafkawire.wire.values import TaggedField

M = TypeVar("M", bound=Message)

# Python's own decoders take either alphabet, and padding that is not needed.
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

UNKNOWN_TAGS = "_unknownTaggedFields"


def to_json(message: Message, version: int, *, unknown_tags: bool = False) -> dict[str, Any]:
    """The message as plain dicts, lists, strings and numbers, in the fields of that version.

    Args:
        message: the value.
        version: of the message.
        unknown_tags: add unknown tagged fields, as a list at `_unknownTaggedFields`.

    Raises:
        EncodeError: a field that the version does not carry has a value that must not be lost.
        UnsupportedVersionError: the message does not have the version.
    """
    layout = _layout(type(message), version)
    return _Writer(type(message), version, unknown_tags).struct(layout, message)


def from_json(cls: type[M], obj: Mapping[str, Any], version: int) -> M:
    """The message that the JSON form describes.

    Every field of the version must be there, except tagged ones; fields that the version does not carry, and names that
    the message does not have, are errors.

    Raises:
        JsonError: what is wrong, with its path in the JSON.
        UnsupportedVersionError: the message does not have the version.
    """
    message: M = _Reader(cls, version).struct(_layout(cls, version), obj)
    return message


def uuid_text(value: UUID) -> str:
    """Kafka's form of a uuid: base64url of its 16 bytes without padding (org.apache.kafka.common.Uuid.toString)."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def tag_defaults(cls: type[Message], layout: Layout) -> list[Any]:
    """The JSON form of the defaults of a layout's tagged fields, in its order of them."""
    writer = _Writer(cls, cls.codec.table.first_version, unknown_tags=True)
    defaults = cls.codec.classes[layout.struct].__struct_defaults__
    return [writer.value(tag.code, tag.arg, defaults[tag.slot]) for tag in layout.tags]


def _layout(cls: type[Message], version: int) -> Layout:
    if version not in cls.spec.valid_versions:
        raise UnsupportedVersionError(cls.spec.name, version, cls.spec.valid_versions)
    return cls.codec.layout(version)


class _FieldStep(NamedTuple):
    """One field. `names`: the key that it has, then those that it had.

    `default`: that of a tagged field, which is left out at it and may be missing; `_ALWAYS` for others.
    """

    attribute: str
    names: tuple[str, ...]
    code: int
    arg: int
    default: Any


#: No field has this value.
_ALWAYS = object()
_plans: WeakKeyDictionary[Codec, dict[int, tuple[_FieldStep, ...]]] = WeakKeyDictionary()


def _plan(codec: Codec, layout: Layout) -> tuple[_FieldStep, ...]:
    """The fields of one layout of a codec in the order of the schema; made once: messages come by the million."""
    plans = _plans.setdefault(codec, {})
    plan = plans.get(id(layout))  # the codec holds its layouts, so the id stays theirs
    if plan is None:
        cls = codec.classes[layout.struct]
        steps = []
        for op in sorted(layout.all_ops(), key=lambda op: op.slot):
            field = cls.spec.fields[op.slot]
            default = cls.__struct_defaults__[op.slot] if isinstance(op, LayoutTag) else _ALWAYS
            steps.append(_FieldStep(field.attribute, field.json_names, op.code, op.arg, default))
        plan = plans[id(layout)] = tuple(steps)
    return plan


class _Writer:
    def __init__(self, cls: type[Message], version: int, unknown_tags: bool) -> None:
        self.codec = cls.codec
        self.name = cls.spec.name
        self.version = version
        self.unknown_tags = unknown_tags
        self.place = ValuePath()

    def fail(self, reason: str) -> NoReturn:
        raise EncodeError(reason, path=str(self.place), message=self.name, version=self.version)

    def struct(self, layout: Layout, value: Struct) -> dict[str, Any]:
        cls = self.codec.classes[layout.struct]
        fields = cls.spec.fields
        out: dict[str, Any] = {}
        for slot in layout.absent:
            if getattr(value, fields[slot].attribute) != cls.__struct_defaults__[slot]:
                self.place.steps.append(fields[slot].attribute)
                self.fail(f"version {self.version} does not carry this field, and its value is not the default")
        steps = self.place.steps
        for attribute, names, code, arg, default in _plan(self.codec, layout):
            item = getattr(value, attribute)
            if default is not _ALWAYS and item == default:
                continue
            if code <= UINT32 and item is not None:
                out[names[0]] = item
                continue
            steps.append(attribute)
            out[names[0]] = self.value(code, arg, item)
            steps.pop()
        if self.unknown_tags and value.unknown_tagged_fields:
            if not layout.flexible:
                self.place.steps.append("unknown_tagged_fields")
                self.fail(f"version {self.version} carries no tagged fields")
            out[UNKNOWN_TAGS] = [[tag.tag, _base64(tag.data)] for tag in value.unknown_tagged_fields]
        return out

    def value(self, code: int, arg: int, value: Any) -> Any:
        if value is None:
            if not code & NULLABLE:
                self.fail("null where a value must be")
            return None
        kind = code & KIND_MASK
        if code & ARRAY:
            if kind <= UINT32 and None not in value:
                return list(value)
            items = []
            for index, item in enumerate(value):
                self.place.steps.append(index)
                items.append(self.value(kind, arg, item))
                self.place.steps.pop()
            return items
        if kind == STRUCT:
            return self.struct(self.codec.table.layouts[arg], value)
        if kind == UUID_KIND:
            return uuid_text(value)
        if kind == FLOAT64:
            return _float_text(value)
        return _base64(value) if kind > STRING else value


class _Reader:
    def __init__(self, cls: type[Message], version: int) -> None:
        self.codec = cls.codec
        self.name = cls.spec.name
        self.version = version
        self.place = ValuePath()

    def fail(self, reason: str) -> NoReturn:
        raise JsonError(reason, path=str(self.place), message=self.name, version=self.version)

    def struct(self, layout: Layout, obj: Any) -> Any:
        if not isinstance(obj, Mapping):
            self.fail(f"expected an object, got {_json_type(obj)}")
        cls = self.codec.classes[layout.struct]
        left = dict(obj)
        values: dict[str, Any] = {}
        for attribute, names, code, arg, default in _plan(self.codec, layout):
            name = next((name for name in names if name in left), None)
            if name is None:
                if default is _ALWAYS:
                    self.fail(f"the field {names[0]} is missing, which version {self.version} must have")
                continue
            self.place.steps.append(name)
            values[attribute] = self.value(code, arg, left.pop(name))
            self.place.steps.pop()
        if UNKNOWN_TAGS in left:
            self.place.steps.append(UNKNOWN_TAGS)
            if not layout.flexible:
                self.fail(f"version {self.version} carries no tagged fields")
            values["unknown_tagged_fields"] = self.tags(left.pop(UNKNOWN_TAGS))
            self.place.steps.pop()
        if left:
            self.unknown(cls, next(iter(left)))
        return cls(**values)

    def unknown(self, cls: type[Struct], name: object) -> NoReturn:
        self.place.steps.append(str(name))
        names = [field.json_name for field in cls.spec.fields]
        if name in names:
            self.fail(f"version {self.version} does not carry this field")
        near = get_close_matches(str(name), names, n=1)
        self.fail("unknown field" + (f"; is it {near[0]}?" if near else ""))

    def tags(self, value: Any) -> tuple[TaggedField, ...]:
        if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            self.fail("expected a list of [tag, base64]")
        return tuple(TaggedField(self.integer(tag), self.bytes(data)) for tag, data in value)

    def value(self, code: int, arg: int, value: Any) -> Any:
        kind = code & KIND_MASK
        array = bool(code & ARRAY)
        if value is None:
            if not code & NULLABLE:
                self.fail(f"null where {'an array' if array else KIND_NAMES[kind]} must be")
            return None
        if array:
            if not isinstance(value, (list, tuple)):
                self.fail(f"expected an array, got {_json_type(value)}")
            items = []
            for index, item in enumerate(value):
                self.place.steps.append(index)
                items.append(self.value(kind, arg, item))
                self.place.steps.pop()
            return tuple(items)
        if kind == STRUCT:
            return self.struct(self.codec.table.layouts[arg], value)
        if kind == BOOL:
            return self.typed(value, bool, "a bool")
        if kind == FLOAT64:
            return self.float(value)
        if kind == UUID_KIND:
            return self.uuid(value)
        if kind == STRING:
            return self.typed(value, str, "a string")
        if kind > STRING:
            return self.bytes(value)
        number = self.integer(value)
        low, high = INTEGER_RANGES[kind]
        if not low <= number <= high:
            self.fail(f"{shown(number)} is out of the range of {KIND_NAMES[kind]} ({low} to {high})")
        return number

    def typed(self, value: Any, wanted: type, name: str) -> Any:
        if not isinstance(value, wanted):
            self.fail(f"expected {name}, got {_json_type(value)}")
        return value

    def integer(self, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"expected an integer, got {_json_type(value)}")
        return value

    def float(self, value: Any) -> float:
        if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
            return float(value)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            self.fail(f"expected a number, got {_json_type(value)}")
        try:
            return float(value)
        except OverflowError:
            self.fail("the number is out of the range of float64")

    def uuid(self, value: Any) -> UUID:
        text: str = self.typed(value, str, "a uuid (base64url)")
        if not _UUID.fullmatch(text):
            self.fail("expected a uuid: 22 characters of base64url")
        return make_uuid(base64.urlsafe_b64decode(text[:22] + "=="))

    def bytes(self, value: Any) -> bytes:
        text: str = self.typed(value, str, "base64")
        if not _BASE64.fullmatch(text):
            self.fail("not base64")
        return base64.b64decode(text)


def _base64(data: Any) -> str:
    return base64.b64encode(data).decode()


def _float_text(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _json_type(value: object) -> str:
    names: dict[Callable[..., Any], str] = {bool: "a bool", int: "an integer", float: "a number", str: "a string"}
    if value is None:
        return "null"
    return names.get(type(value)) or ("an object" if isinstance(value, Mapping) else "an array")

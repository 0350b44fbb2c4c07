"""Our JSON form against the one of Kafka's `*JsonConverter` classes."""

from __future__ import annotations

from typing import Any

from kafkawire import from_json, to_json
from kafkawire.errors import KafkaWireError
from kafkawire.wire.message import Struct
from tools.conformance.comparing import java_text
from tools.conformance.pairing import Pair


def json_difference(pair: Pair, ours: Any, answer: dict[str, Any], newest: bool) -> str | None:
    """Where our JSON form of `ours` is not Java's, or Java's JSON cannot be read.

    Args:
        ours: the value. `answer`: the oracle's answer, with its JSON form of the same value.
        newest: whether the release is that of our schemas.
    """
    if not pair.json:
        return None
    version = pair.our_version
    try:
        form = to_json(ours, version)
    except KafkaWireError as error:
        return f"we write no JSON: {error}"
    expected = as_kafka(ours, form)
    theirs = answer["json"] if newest else today(ours, answer["json"], expected, version)
    if expected != theirs:
        return f"another JSON: {first_difference(expected, theirs)}"
    try:
        from_json(pair.ours, answer["json"], version)
    except KafkaWireError as error:
        return f"we refuse Java's JSON: {error}"
    whole = to_json(ours, version, unknown_tags=True)
    back = from_json(pair.ours, whole, version)
    # JSON has one NaN, float64 has many: then the bytes may differ.
    if back.encode(version) != ours.encode(version) and "NaN" not in str(form):
        return "our own JSON does not give the bytes back"
    return None


def today(value: Struct, theirs: Any, ours: Any, version: int) -> Any:
    """An older release's JSON under today's names, and with the tagged fields of ours that it did not know.

    Args:
        value: our message or struct. `theirs`, `ours`: its JSON forms. `version`: of our schemas.
    """
    out = {}
    for field in value.spec.fields:
        if version not in field.versions:
            continue
        name = next((name for name in field.json_names if name in theirs), None)
        if name is None:
            if version in field.tagged_versions and field.json_name in ours:
                out[field.json_name] = ours[field.json_name]
            continue
        item, part, our = getattr(value, field.attribute), theirs[name], ours.get(field.json_name)
        if field.type == "records" and part:
            part = ""  # up to 2.7 the type was bytes, and the JSON had them
        if part and our and field.struct is not None:
            if not field.is_array:
                part = today(item, part, our, version)
            elif len(part) == len(our):
                part = [today(*triple, version) for triple in zip(item, part, our, strict=True)]
        out[field.json_name] = part
    # Names that we do not know stay, and differ.
    known = {name for field in value.spec.fields for name in field.json_names}
    return out | {name: part for name, part in theirs.items() if name not in known}


def as_kafka(value: Struct, form: Any) -> Any:
    """Our JSON form as Kafka's converters give it: records are empty, and text that is no UTF-8 is replaced."""
    if not isinstance(form, dict):
        return form
    out = {}
    for field in value.spec.fields:
        if field.json_name not in form:
            continue
        item, part = getattr(value, field.attribute), form[field.json_name]
        if part is not None and field.struct is not None:
            part = (
                [as_kafka(*pair) for pair in zip(item, part, strict=True)] if field.is_array else as_kafka(item, part)
            )
        elif part is not None and field.type == "records":
            part = ""
        elif part is not None and field.type.endswith("string"):
            part = [java_text(text) for text in part] if field.is_array else java_text(part)
        out[field.json_name] = part
    return out


def first_difference(ours: Any, theirs: Any, path: str = "") -> str:
    """The path of the first difference of two JSON values, and both sides.

    Args:
        ours, theirs: JSON values that differ. `path`: of both in the whole value.
    """
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in [*theirs, *ours]:
            if key not in ours or key not in theirs:
                return f"{path}.{key} is only {'ours' if key in ours else 'in Java'}"
            if ours[key] != theirs[key]:
                return first_difference(ours[key], theirs[key], f"{path}.{key}")
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            if our != their:
                return first_difference(our, their, f"{path}[{index}]")
    return f"{path}: ours {ours!r:.100}, Java's {theirs!r:.100}"

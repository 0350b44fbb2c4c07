"""`json_text`: what the native engine writes from bytes, against `to_json`: every message and version."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kafkawire
from kafkawire.errors import DecodeError
from kafkawire.messages.fetch_request import ReplicaState
from kafkawire.wire.json_form import to_json
from kafkawire.wire.json_text import text_writer
from kafkawire.wire.message import Message
from tests.engines import NATIVE
from tests.every import for_each
from tests.random_messages import for_random

pytestmark = [
    pytest.mark.skipif(not NATIVE or kafkawire.backend == "python", reason="the native engine is not in use"),
    pytest.mark.slow,
]

#: How a value's bytes are changed: not at all, a byte replaced, cut, or lengthened.
_CHANGES = ("no", "no", "byte", "cut", "more")


@for_each(kafkawire.messages.__all__)
def test_text_is_that_of_the_json_form(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    writer = text_writer(cls, counted=lambda field: field.name.endswith("ErrorCode"))
    assert writer is not None
    for version in cls.spec.valid_versions:
        for_random(cls, version, 0.05, f"{name} {version} text", partial(check, cls, version, writer))


def check(cls: type[Message], version: int, writer: Any, value: Any, numbers: random.Random) -> None:
    data = value.encode(version)
    change, place, byte = numbers.choice(_CHANGES), numbers.randrange(1 << 20), numbers.randrange(256)
    if change == "byte" and data:
        at = place % len(data)
        data = data[:at] + bytes([byte]) + data[at + 1 :]
    elif change == "cut":
        data = data[: place % (len(data) + 1)]
    elif change == "more":
        data += bytes([byte])
    written = writer.body(data, version, True, True)
    found = writer.body(data, version, False, True)
    try:
        message = cls.decode(data, version)
    except DecodeError:
        assert written is None
        assert found is None
        return
    expected = to_json(message, version, unknown_tags=True)
    if written is None:
        assert holds_what_is_refused(expected) or change == "byte"
    else:
        assert written == (msgspec.json.encode(expected), counted(message))
    if found is not None:
        assert found == (None, counted(message))


def test_tags_that_do_not_ascend_are_left_to_python() -> None:
    cls = kafkawire.messages.FetchRequest
    state = ReplicaState(replica_id=1, replica_epoch=2)
    data = cls(cluster_id="c", replica_state=state).encode(15)
    tags = b"\x02" + (first := b"\x00\x02\x02c") + (second := data[-15:])
    assert data.endswith(tags)
    swapped = data[: -len(tags)] + b"\x02" + second + first
    assert cls.decode(swapped, 15) == cls.decode(data, 15)
    writer = text_writer(cls, counted=lambda field: False)
    assert writer is not None
    assert writer.body(data, 15, True, True) is not None
    assert writer.body(swapped, 15, True, True) is None


def holds_what_is_refused(value: Any) -> bool:
    """Whether a JSON value has a string that is no UTF-8, or a float that is written by Python."""
    if isinstance(value, dict):
        return any(map(holds_what_is_refused, value.values()))
    if isinstance(value, list):
        return any(map(holds_what_is_refused, value))
    if isinstance(value, str):
        return any("\udc80" <= char <= "\udcff" for char in value)
    return isinstance(value, float) and not (value.is_integer() and abs(value) < 1e15)


def counted(value: Any) -> Counter[int]:
    """Non-zero values of all fields that are called an error code."""
    found: Counter[int] = Counter()
    for field in value.spec.fields:
        item = getattr(value, field.attribute)
        if field.name.endswith("ErrorCode") and field.type == "int16":
            found[item] += 1
        elif field.struct is not None and item is not None:
            for struct in item if field.is_array else (item,):
                found += counted(struct)
    del found[0]
    return found


def test_a_message_with_a_tagged_float_is_left_to_to_json(tmp_path: Path) -> None:
    """Whether it equals its default, and so is left out, is not to be seen in its digits."""
    (tmp_path / "Tagged.json").write_text(
        """{"type": "data", "name": "Tagged", "validVersions": "0", "flexibleVersions": "0+", "fields": [
        {"name": "Ratio", "type": "float64", "versions": "0+", "taggedVersions": "0+", "tag": 0, "default": "2.5"}]}"""
    )
    assert text_writer(kafkawire.load_schemas(tmp_path).Tagged) is None

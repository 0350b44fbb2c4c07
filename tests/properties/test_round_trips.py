"""Every message in every version: values and bytes survive, and all engines agree."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from engines import generated_bytes
from strategies import carried, for_all, messages, same

import kafkawire
from kafkawire.wire.message import Message


@pytest.mark.parametrize("name", kafkawire.messages.__all__)
def test_every_version_round_trips(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    for version in cls.spec.valid_versions:
        for_all(messages(cls, version), 0.1, f"{name} {version}", partial(round_trip, cls, version))


def round_trip(cls: type[Message], version: int, value: Any) -> None:
    data = value.encode(version)
    expected = carried(value, version)
    # The engines write the same bytes and read the same value from them, each with no other behind it.
    assert generated_bytes(value, version) == cls.codec.interpret_encode(value, version) == data
    decoder = cls.codec.decoders[version]
    assert decoder is not None
    generated, end = decoder(data, 0)
    assert (same(generated, expected), end) == (True, len(data))
    decoded = cls.decode(data, version)
    assert same(decoded, expected)
    interpreted, end = cls.codec.interpret(data, version)
    assert (same(interpreted, expected), end) == (True, len(data))
    # What was read is written as it was read, and is canonical.
    assert decoded.encode(version) == data
    assert same(cls.decode(data, version, strict=True), expected)
    # JSON, through text.
    text = json.dumps(kafkawire.to_json(value, version, unknown_tags=True), allow_nan=False)
    assert same(kafkawire.from_json(cls, json.loads(text), version), expected)

"""Every message in every version: values and bytes survive, and all engines agree."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

import kafkawire
from kafkawire.testing.comparison import carried, same
from kafkawire.testing.strategies import messages
from kafkawire.wire.message import Message
from tests.engines import round_trip
from tests.every import for_each
from tests.strategies import for_all

pytestmark = pytest.mark.slow


@for_each(kafkawire.messages.__all__)
def test_every_version_round_trips(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    for version in cls.spec.valid_versions:
        for_all(messages(cls, version), 0.05, f"{name} {version}", partial(check, cls, version))


def check(cls: type[Message], version: int, value: Any) -> None:
    expected = carried(value, version)
    round_trip(value, version, expected)
    # JSON, through text.
    text = json.dumps(kafkawire.to_json(value, version, unknown_tags=True), allow_nan=False)
    assert same(kafkawire.from_json(cls, json.loads(text), version), expected)

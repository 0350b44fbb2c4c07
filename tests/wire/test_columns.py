"""Columns: every message and version through both engines, against the objects that `decode` gives."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from column_engines import check, values_of
from hypothesis import strategies as st
from strategies import carried, for_all, messages

import kafkawire
from kafkawire.wire.message import Message

VERSIONS = [
    (name, version) for name in kafkawire.messages.__all__ for version in kafkawire.lookup(name).spec.valid_versions
]


def mutated(data: bytes, random: random.Random) -> bytes:
    """Bytes with one or a few changes, cut off or longer."""
    changed = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        if changed:
            changed[random.randrange(len(changed))] = random.choice([0, 1, 2, 127, 128, 255, random.randrange(256)])
    how = random.randrange(4)
    if how == 0:
        return bytes(changed[: random.randrange(len(changed) + 1)])
    if how == 1:
        return bytes(changed) + b"\0"
    return bytes(changed)


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_every_message_and_version(name: str, version: int) -> None:
    cls: type[Message] = kafkawire.lookup(name)

    def run(case: tuple[list[Any], random.Random]) -> None:
        values, rng = case
        encoded: list[bytes | None] = [value.encode(version) for value in values]
        damaged = [mutated(data, rng) for data in encoded if data is not None]
        buffers = [*encoded, None, *damaged, *encoded]
        expected = check(cls, buffers, version)
        for value, row in zip(values, expected, strict=False):
            assert row == values_of(carried(value, version), cls)

    cases = st.tuples(st.lists(messages(cls, version), min_size=1, max_size=3), st.randoms(use_true_random=False))
    for_all(cases, 0.1, f"columns {name} {version}", run, shrink=False)


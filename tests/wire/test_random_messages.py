"""`tests.random_messages` draws every kind of value that `kafkawire.testing.strategies` has."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkawire.messages import REGISTRY, FetchResponse, MetadataResponse
from kafkawire.testing.strategies import BLOBS, LENGTHS, RANGES, TEXTS, UUIDS, borders
from kafkawire.wire.layout import STRUCT
from kafkawire.wire.message import Message
from kafkawire.wire.spec import Field
from tests.every import for_each
from tests.random_messages import SCALARS, for_random, message_of, seeds


def kinds_of(field: Field, version: int) -> set[str]:
    """What a field is, at one time or another."""
    kinds = {"null"} if version in field.nullable_versions else set()
    if not field.is_array:
        return kinds | {"value"}
    return kinds | {"empty", "few"} | ({"many"} if field.kind != STRUCT else set())


def kind_of(value: Any, field: Field) -> str:
    if value is None:
        return "null"
    if not field.is_array:
        return "value"
    return "many" if len(value) in LENGTHS else "few" if value else "empty"


@pytest.mark.slow
@for_each([entry for entry in REGISTRY if entry.valid_versions])
def test_every_field_is_null_empty_and_long_at_times(entry: Any) -> None:
    cls: type[Message] = REGISTRY.load(entry)
    version = cls.spec.valid_versions[-1]
    values = [message_of(cls, version)(random.Random(seed)) for seed in range(60)]
    for value in values:
        value.encode(version)
    for field in cls.spec.fields:
        if version in field.versions:
            assert {kind_of(getattr(value, field.attribute), field) for value in values} >= kinds_of(field, version)
    tagged = {bool(value.unknown_tagged_fields) for value in values}
    assert tagged == ({False, True} if version in cls.spec.flexible_versions else {False})


def test_scalars_are_those_at_the_edges_and_others() -> None:
    rng = random.Random(0)
    values = {name: [draw(rng) for _ in range(3000)] for name, draw in SCALARS.items()}
    for name, (low, high) in RANGES.items():
        assert min(values[name]) >= low
        assert max(values[name]) <= high
        assert set(borders(low, high)) < set(values[name])
    assert set(UUIDS) < set(values["uuid"])
    assert set(BLOBS) < set(values["bytes"])
    texts = set(values["string"])
    assert set(TEXTS) < texts
    assert any("\ud800" <= character <= "\udfff" for text in texts for character in text)
    for least, most in ((0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF)):
        assert any(least <= ord(character) <= most for text in texts for character in text)
    assert set(values["bool"]) == {False, True}
    assert any(value != value for value in values["float64"])


def test_the_first_example_is_the_simplest() -> None:
    taken: list[Any] = []
    for_random(FetchResponse, 12, 1.0, "taken", lambda value, rng: taken.append(value))
    assert taken[0] == FetchResponse()
    assert len({repr(value) for value in taken}) > len(taken) / 2


def test_a_name_gives_the_same_seeds_where_the_profile_says_so() -> None:
    from hypothesis import settings

    default = settings.default
    assert default is not None
    first, again, other = (list(seeds(1.0, name)) for name in ("a", "a", "b"))
    assert len(first) == default.max_examples
    assert len(list(seeds(0.001, "a"))) == 2  # the simplest value alone would prove little
    assert (first == again) == default.derandomize
    assert first != other


def test_an_error_names_the_value_and_the_seed() -> None:
    def check(value: Any, rng: random.Random) -> None:
        assert not value.brokers

    with pytest.raises(AssertionError) as caught:
        for_random(MetadataResponse, 12, 1.0, "without brokers", check)
    assert "without brokers, seed " in caught.value.__notes__[0]
    assert "MetadataResponse(" in caught.value.__notes__[0]

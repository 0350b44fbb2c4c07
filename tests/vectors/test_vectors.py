"""Test vectors: each branch of a layout has one, they are what the codecs do, and a foreign codec's bugs are found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire import from_json, lookup
from kafkawire.errors import DecodeError
from kafkawire.messages import REGISTRY
from kafkawire.vectors import refusals, vectors
from kafkawire.vectors.conformance import ConformanceError, check
from kafkawire.wire.registry import Registry
from tests import own_schemas
from tests.vectors.own_codec import BUGS

CODEC = Path(__file__).with_name("own_codec.py")


def test_vectors_are_bytes_and_json_of_the_same_value() -> None:
    seen = set()
    for vector in vectors(REGISTRY):
        cls = lookup(vector.message)
        value = cls.decode(vector.data, vector.version, strict=True)
        assert from_json(cls, vector.json, vector.version) == value
        assert value.encode(vector.version) == vector.data
        seen.add((vector.message, vector.version))
    assert seen == {(entry.name, version) for entry in REGISTRY for version in entry.valid_versions}


def test_each_field_has_its_default_and_another_value_and_null_where_it_may() -> None:
    values: dict[tuple[str, int, str], set[str]] = {}
    missing = []

    def collect(key: tuple[str, int], value: Any, path: str) -> None:
        for field in value.spec.fields:
            held = getattr(value, field.attribute)
            place = f"{path}.{field.name}"
            if key[1] in field.versions:
                values.setdefault((*key, place), set()).add("null" if held is None else repr(held)[:400])
            for one in (held if isinstance(held, tuple) else (held,)) if field.struct is not None and held else ():
                collect(key, one, place)

    for vector in vectors(REGISTRY):
        collect((vector.message, vector.version), lookup(vector.message).decode(vector.data, vector.version), "")
    for key, found in values.items():
        if len(found) < 2:
            missing.append(key)
    assert missing == []


def test_refusals_are_refused_by_the_interpreter_with_their_reason() -> None:
    count = 0
    for refusal in refusals(REGISTRY):
        with pytest.raises(DecodeError) as caught:
            lookup(refusal.message).codec.replay(refusal.data, refusal.version, 0, False, True)
        assert str(caught.value) == refusal.reason
        count += 1
    assert count > 5000


def few(folder: Path) -> Registry:
    """Four messages that have all that a layout can have."""
    names = ("FetchRequest", "MetadataRequest", "ProduceRequest", "OffsetCommitRequest")
    schemas = own_schemas.write(folder / "schemas", *(own_schemas.shipped(name) for name in names))
    return kafkawire.load_schemas(schemas).registry


@pytest.mark.slow
def test_codec_without_bugs_passes() -> None:
    outcomes = list(check([sys.executable, str(CODEC)], REGISTRY))
    assert sum(outcome.failed for outcome in outcomes) == 0
    assert sum(outcome.passed for outcome in outcomes) > 13_000
    assert {outcome.message for outcome in outcomes if outcome.unsupported} == {
        entry.name for entry in REGISTRY if entry.family == "share"
    }


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug not in ("crash", "hang-up")])
def test_seeded_bugs_are_found(bug: str, tmp_path: Path) -> None:
    registry = few(tmp_path)
    outcomes = list(check([sys.executable, str(CODEC), bug], registry))
    found = [outcome for outcome in outcomes if outcome.failed]
    assert found, bug
    assert all(outcome.first for outcome in found)


#: Not seen by a codec that answers with what it encodes: it undoes what it did. The JSON form shows it.
UNDONE = {"true-is-false", "version-7-is-6"}


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["", *(bug for bug in BUGS if bug not in ("crash", "hang-up"))])
def test_codec_without_a_json_form(bug: str, tmp_path: Path) -> None:
    """It answers to bytes with the bytes that it encodes: most bugs are found, too."""
    registry = few(tmp_path)
    outcomes = list(check([sys.executable, str(CODEC), "BYTES", bug], registry))
    if not bug:
        assert sum(outcome.failed for outcome in outcomes) == 0
        assert sum(outcome.passed for outcome in outcomes) > 500
        assert all(outcome.unsupported for outcome in outcomes)  # to encode from JSON
    elif bug not in UNDONE:
        assert any(outcome.failed for outcome in outcomes), bug


def test_codec_that_speaks_no_protocol() -> None:
    with pytest.raises(ConformanceError, match="is none of the protocol"):
        list(check([sys.executable, str(CODEC), "crash"], REGISTRY))
    with pytest.raises(ConformanceError, match="the codec gave no line of an answer"):
        list(check([sys.executable, "-c", "pass"], REGISTRY))


@pytest.mark.slow
def test_codec_that_ends_is_started_again_and_its_question_failed(tmp_path: Path) -> None:
    outcomes = list(check([sys.executable, str(CODEC), "hang-up"], few(tmp_path)))
    failed = [outcome for outcome in outcomes if outcome.failed]
    assert failed
    assert all(outcome.first and outcome.first.endswith("the codec ended with exit code 0") for outcome in failed)
    questions = sum(outcome.passed + outcome.failed for outcome in outcomes)
    assert sum(outcome.failed for outcome in outcomes) == questions // 101

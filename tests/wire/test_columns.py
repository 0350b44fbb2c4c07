"""Columns: every message and version through every engine, against the objects that `decode` gives."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from hypothesis import given
from hypothesis import strategies as st

import kafkawire
from kafkawire import load_schemas
from kafkawire.messages import (
    AbortedTxn,
    DescribeProducersResponse,
    FetchResponse,
    MetadataResponse,
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.testing.comparison import carried
from kafkawire.testing.strategies import messages
from kafkawire.wire.columns import decode_structs, decoding, shape
from kafkawire.wire.columns.schema import SPARK
from kafkawire.wire.message import Message
from tests.every import for_each
from tests.random_messages import for_random
from tests.strategies import for_all
from tests.wire.column_engines import ENGINES, PREFIX, check, values_of

pytestmark = pytest.mark.slow

#: Every kind of field in every place that the schema language allows, with defaults that are not the kinds' own.
EVERYTHING = """{
  "type": "data", "name": "Everything", "validVersions": "0-3", "flexibleVersions": "2+", "fields": [
    {"name": "Flag", "type": "bool", "versions": "0+", "default": "true"},
    {"name": "Small", "type": "uint16", "versions": "0+", "default": "65535"},
    {"name": "Large", "type": "uint32", "versions": "1+", "default": "4294967295", "ignorable": true},
    {"name": "Ratio", "type": "float64", "versions": "1+", "default": "2.5", "ignorable": true},
    {"name": "Id", "type": "uuid", "versions": "1+", "ignorable": true},
    {"name": "Name", "type": "string", "versions": "1+", "default": "größe", "ignorable": true},
    {"name": "MaybeName", "type": "string", "versions": "1+", "nullableVersions": "1+", "ignorable": true},
    {"name": "Note", "type": "bytes", "versions": "0+", "nullableVersions": "2+"},
    {"name": "Flags", "type": "[]bool", "versions": "0+"},
    {"name": "Smalls", "type": "[]uint16", "versions": "0+"},
    {"name": "Larges", "type": "[]uint32", "versions": "0+"},
    {"name": "Ratios", "type": "[]float64", "versions": "0+", "nullableVersions": "1+"},
    {"name": "Ids", "type": "[]uuid", "versions": "0+"},
    {"name": "Names", "type": "[]string", "versions": "0+", "nullableVersions": "0+"},
    {"name": "Notes", "type": "[]bytes", "versions": "0+"},
    {"name": "Inner", "type": "Point", "versions": "1+", "nullableVersions": "1+", "ignorable": true, "fields": [
      {"name": "X", "type": "int32", "versions": "0+", "default": "-7"},
      {"name": "Tags", "type": "[]string", "versions": "0+"},
      {"name": "Late", "type": "int64", "versions": "2+", "taggedVersions": "2+", "tag": 0, "default": "9",
       "ignorable": true},
      {"name": "Deep", "type": "[]Deep", "versions": "0+", "fields": [
        {"name": "Y", "type": "int8", "versions": "0+"},
        {"name": "Word", "type": "string", "versions": "0+"},
        {"name": "Deeper", "type": "[]Deeper", "versions": "2+", "fields": [
          {"name": "Z", "type": "int16", "versions": "0+"}]}]}]},
    {"name": "TaggedName", "type": "string", "versions": "2+", "taggedVersions": "2+", "tag": 0, "default": "none",
     "ignorable": true},
    {"name": "TaggedPoint", "type": "Spot", "versions": "2+", "taggedVersions": "2+", "tag": 1, "ignorable": true,
     "nullableVersions": "2+", "default": "null", "fields": [
      {"name": "Spots", "type": "[]int64", "versions": "0+"},
      {"name": "Label", "type": "string", "versions": "0+", "nullableVersions": "0+", "default": "null"}]},
    {"name": "TaggedPlain", "type": "Plain", "versions": "2+", "taggedVersions": "2+", "tag": 2, "ignorable": true,
     "fields": [
      {"name": "A", "type": "int32", "versions": "0+", "default": "5"}]},
    {"name": "TaggedList", "type": "[]Entry", "versions": "2+", "taggedVersions": "2+", "tag": 3, "ignorable": true,
     "nullableVersions": "2+", "default": "null", "fields": [
      {"name": "Key", "type": "string", "versions": "0+"},
      {"name": "Values", "type": "[]uuid", "versions": "0+"}]}
  ]}"""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> type[Message]:
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "Everything.json").write_text(EVERYTHING)
    return load_schemas(str(folder))["Everything"]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Bytes with one or a few changes, cut off or longer."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
    how = rng.randrange(4)
    if how == 0:
        return bytes(changed[: rng.randrange(len(changed) + 1)])
    return bytes(changed) + b"\0" if how == 1 else bytes(changed)


def run(cls: type[Message], version: int, values: list[Any], rng: random.Random) -> None:
    """Good values, damaged ones among them, and null."""
    encoded = [value.encode(version) for value in values]
    buffers = [*encoded, None, *(mutated(data, rng) for data in encoded), *encoded]
    rows = check(cls, buffers, version)
    for value, row in zip(values, rows, strict=False):
        assert row == values_of(carried(value, version), cls)


def run_whole(cls: type[Message], version: int, values: list[Any], rng: random.Random) -> None:
    """As `run`; and the native engine reads every value that was encoded: a refusal would hide that it cannot."""
    run(cls, version, values, rng)
    if decoding.ENGINE is not None:
        assert refused_by_the_engine(cls, [value.encode(version) for value in values], version) == []


def refused_by_the_engine(cls: type[Message], buffers: list[bytes], version: int) -> list[int]:
    """The values that the native engine leaves to `decode`."""
    refused: list[int] = []

    def recorded(plan: Any, given: Any) -> Any:
        assert decoding.ENGINE is not None
        found = decoding.ENGINE(plan, given)
        refused.extend(found.refused.tolist())
        return found

    decode_structs(cls, buffers, version, engine=recorded)
    return refused


def cases(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    # Not `st.randoms`, which draws every number from Hypothesis.
    generators = st.integers(0, 1 << 32).map(random.Random)
    return st.tuples(st.lists(messages(cls, version), min_size=1, max_size=3), generators)


@for_each(kafkawire.messages.__all__)
def test_every_message_and_version(name: str) -> None:
    cls: type[Message] = kafkawire.lookup(name)
    for version in cls.spec.valid_versions:
        for_random(cls, version, 0.05, f"columns {name} {version}", partial(run, cls, version), most=3)


@pytest.mark.parametrize("version", range(4))
def test_every_kind_of_field(everything: type[Message], version: int) -> None:
    for_all(
        cases(everything, version), 0.3, f"everything {version}", lambda case: run_whole(everything, version, *case)
    )


@pytest.mark.parametrize("cls", [MetadataResponse, FetchResponse, DescribeProducersResponse, TransactionLogValue])
def test_the_engine_reads_every_encoded_value(cls: type[Message]) -> None:
    for version in cls.spec.valid_versions:
        for_all(cases(cls, version), 0.1, f"encoded {version}", lambda case, v=version: run_whole(cls, v, *case))


@pytest.mark.skipif(decoding.ENGINE is None, reason="the native engine is not installed")
@pytest.mark.parametrize("lengths", [[3] * 200, [0, 1, 2, 3, 200], [1000], [40] * 100 + [41] * 3])
def test_the_engine_reads_lists_of_any_lengths(lengths: list[int]) -> None:
    values = [
        TransactionLogValue(transaction_partitions=tuple(PartitionsSchema(f"t{i}", (i,)) for i in range(length)))
        for length in lengths
    ]
    encoded: list[bytes | None] = [value.encode(1) for value in values]
    assert check(TransactionLogValue, encoded, 1) == [values_of(value, TransactionLogValue) for value in values]
    assert refused_by_the_engine(TransactionLogValue, [value.encode(1) for value in values], 1) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("at_once", [1, 3, 4])
def test_values_decoded_a_few_at_a_time_keep_their_order(
    engine: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "_AT_ONCE", at_once)
    good = [TransactionLogValue(producer_id=i).encode(1) for i in range(10)]
    buffers = [data[:-1] if i % 4 == 1 else None if i == 6 else data for i, data in enumerate(good)]
    decoded = decode_structs(TransactionLogValue, buffers, 1, engine=ENGINES[engine])
    ids = [None if row is None else row["producer_id"] for row in decoded.array.to_pylist()]
    assert ids == [0, None, 2, 3, 4, None, None, 7, 8, None]
    assert sorted(decoded.errors) == [1, 5, 9]


# Versions ------------------------------------------------------------------------------------------------------------


@st.composite
def mixed(draw: st.DrawFn) -> tuple[type[Message], list[bytes], list[int | None]]:
    cls = kafkawire.lookup(draw(st.sampled_from(kafkawire.messages.__all__)))
    valid = cls.spec.valid_versions
    versions = draw(st.lists(st.sampled_from(valid), min_size=1, max_size=6))
    data = [draw(messages(cls, version)).encode(version) for version in versions]
    listed_versions: list[int | None] = list(versions)
    for number in range(len(listed_versions)):
        if draw(st.integers(0, 9)) == 0:
            listed_versions[number] = draw(st.sampled_from([None, -1, valid[-1] + 1, 32767, *valid]))
    return cls, data, listed_versions


@given(mixed())
def test_mixed_versions(case: Any) -> None:
    cls, data, listed_versions = case
    check(cls, [*data, None], [*listed_versions, 0])


@given(st.data())
def test_mixed_versions_of_everything(everything: type[Message], data: st.DataObject) -> None:
    versions = data.draw(st.lists(st.sampled_from(range(4)), min_size=1, max_size=8))
    values = [data.draw(messages(everything, version)) for version in versions]
    encoded = [value.encode(version) for value, version in zip(values, versions, strict=True)]
    rows = check(everything, encoded, versions)
    expected = [carried(value, version) for value, version in zip(values, versions, strict=True)]
    assert rows == [values_of(value, everything) for value in expected]


@given(st.data())
def test_versions_from_prefixes(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from([TransactionLogValue, TransactionLogKey, AbortedTxn]))
    versions = data.draw(st.lists(st.sampled_from(cls.spec.valid_versions), min_size=1, max_size=5))
    buffers: list[bytes | None] = [data.draw(messages(cls, v)).encode_prefixed(v) for v in versions]
    check(cls, [*buffers, None, b"", b"\0", b"\0\7" + b"\0" * 40, b"\xff\xff", b"\0\0"], PREFIX)


def test_what_a_version_lacks_has_its_default_with_unknown_tags_and_without(everything: type[Message]) -> None:
    value = everything(flag=False)
    for tags in (True, False):
        (row,) = check(everything, [value.encode(0)], 0, shape=shape(everything, unknown_tags=tags))
        assert (row["ratio"], row["name"], row["inner"]["x"], row["inner"]["tags"]) == ("2.5", "größe", -7, [])
        assert ("unknown_tagged_fields" in row["inner"]) == tags


def test_everything_in_the_manner_of_spark(everything: type[Message]) -> None:
    asked = shape(everything, unknown_tags=False)
    value = everything(flag=False)
    for engine in ENGINES.values():
        decoded = decode_structs(everything, [value.encode(3)], 3, asked=asked, style=SPARK, engine=engine)
        decoded.array.validate(full=True)
        (row,) = decoded.array.to_pylist()
        assert row["id"] == "00000000-0000-0000-0000-000000000000"
        assert row["inner"] is not None
        assert (row["tagged_name"], row["tagged_point"], row["tagged_list"]) == ("none", None, None)

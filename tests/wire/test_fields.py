"""`fields`: what annotations and `Wire` state of a field, and the spec that is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire import load_schemas
from kafkawire.messages import AddPartitionsToTxnRequest, FetchResponse, MetadataResponse, RequestHeader
from kafkawire.messages.fetch_response import NodeEndpoint
from kafkawire.wire.fields import camel_case, versions_of
from kafkawire.wire.spec import Field, StructSpec


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("none", range(0)),
        ("3", range(3, 4)),
        ("0-2", range(1, 3)),
        ("2-99", range(2, 6)),
        ("4+", range(4, 6)),
        ("0+", range(1, 6)),
    ],
)
def test_versions_are_cut_to_those_of_the_message(text: str, versions: range) -> None:
    assert versions_of(text, range(1, 6)) == versions


def test_names_in_schemas_are_camel_case() -> None:
    assert [camel_case(name) for name in ("throttle_time_ms", "x", "v0_host")] == ["ThrottleTimeMs", "X", "V0Host"]


def test_spec_of_a_class_is_made_once() -> None:
    assert MetadataResponse.spec is MetadataResponse.spec
    topic = MetadataResponse.spec.field("Topics").struct
    assert isinstance(topic.spec, StructSpec)
    assert topic.spec is topic.spec


def test_field_has_what_its_annotation_states() -> None:
    assert MetadataResponse.spec.field("ClusterId") == Field(
        "ClusterId", "cluster_id", "string", range(2, 14), nullable_versions=range(2, 14), ignorable=True,
        owner=MetadataResponse,
    )  # fmt: skip
    tagged = FetchResponse.spec.field("NodeEndpoints")
    assert (tagged.tagged_versions, tagged.tag, tagged.struct) == (range(16, 19), 0, NodeEndpoint)
    assert (tagged.type, tagged.default) == ("[]NodeEndpoint", ())
    renamed = AddPartitionsToTxnRequest.spec.field("V3AndBelowTransactionalId")
    assert (renamed.aliases, renamed.entity_type) == (("TransactionalId",), "transactionalId")
    assert renamed.versions == range(4)


def test_field_without_versions_has_those_of_its_struct() -> None:
    assert {field.versions for field in NodeEndpoint.spec.fields} == {range(16, 19)}


def test_field_may_be_classic_in_flexible_versions() -> None:
    assert RequestHeader.spec.field("ClientId").flexible_versions == range(0)
    assert RequestHeader.spec.field("CorrelationId").flexible_versions is None


@pytest.mark.slow
def test_every_type_of_the_schema_language(tmp_path: Path) -> None:
    kinds = [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "float64",
        "uuid",
        "string",
        "bytes",
        "records",
    ]
    types = [*kinds, *(f"[]{kind}" for kind in kinds[:-1]), "Inner", "[]Inner"]
    fields = ", ".join(f'{{"name": "field{i}", "type": "{type_}", "versions": "0+"}}' for i, type_ in enumerate(types))
    (tmp_path / "Wire.json").write_text(
        f"""{{"type": "data", "name": "Wire", "validVersions": "0-1", "flexibleVersions": "1+", "fields": [{fields}],
        "commonStructs": [{{"name": "Inner", "versions": "0+", "fields": [
          {{"name": "X", "type": "int8", "versions": "1+"}}]}}]}}"""
    )
    (cls,) = (load_schemas(tmp_path)[name] for name in load_schemas(tmp_path))
    spec: Any = cls.spec
    assert (spec.name, cls.__name__) == ("Wire", "Wire_")
    assert [field.type for field in spec.fields] == types
    assert [field.name for field in spec.fields] == [f"field{i}" for i in range(len(types))]
    assert cls.decode(cls().encode(1), 1) == cls()

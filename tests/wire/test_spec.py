"""`spec`: the content of a schema, as data."""

import pytest

from kafkawire.messages import FetchResponse, MetadataRequest, StreamsGroupHeartbeatResponse, TransactionLogValue
from kafkawire.wire.layout import BOOL, INT32, STRUCT
from kafkawire.wire.spec import Field, MessageSpec, StructSpec, json_name


def test_a_field_is_found_by_each_of_its_names() -> None:
    spec = FetchResponse.spec
    found = {spec.field(name) for name in ("Responses", "responses", "Topics")}
    assert found == {spec.fields[3]}
    assert spec.field("ThrottleTimeMs").attribute == "throttle_time_ms"
    with pytest.raises(KeyError):
        spec.field("NoSuchField")


def test_a_name_goes_before_an_older_name_of_another_field() -> None:
    assert StreamsGroupHeartbeatResponse.spec.field("AcceptableRecoveryLag").name == "AcceptableRecoveryLag"
    assert StreamsGroupHeartbeatResponse.spec.field("acceptableRecoveryLagLegacy").versions == range(1)


def test_the_repr_of_a_spec_leaves_out_defaults() -> None:
    assert repr(TransactionLogValue.spec.field("ProducerId")).startswith("Field(name='ProducerId', attrib")
    assert "ignorable" not in repr(TransactionLogValue.spec.field("ProducerId"))
    assert "listeners" not in repr(TransactionLogValue.spec)


def test_names_in_json() -> None:
    assert json_name("ThrottleTimeMs") == "throttleTimeMs"
    assert json_name("X") == "x"
    assert FetchResponse.spec.field("Responses").json_names == ("responses", "topics")
    assert FetchResponse.spec.field("ThrottleTimeMs").json_names == ("throttleTimeMs",)


def test_kinds_of_fields() -> None:
    topics = FetchResponse.spec.field("Responses")
    assert (topics.is_array, topics.kind, topics.type) == (True, STRUCT, "[]FetchableTopicResponse")
    throttle = FetchResponse.spec.field("ThrottleTimeMs")
    assert (throttle.is_array, throttle.kind) == (False, INT32)
    assert MetadataRequest.spec.field("Topics").kind == STRUCT
    assert MetadataRequest.spec.field("AllowAutoTopicCreation").kind == BOOL


def test_defaults_of_specs() -> None:
    field = Field("A", "a", "int32", range(1))
    assert (field.default, field.tag, field.struct, field.entity_type) == (None, None, None, None)
    assert (field.nullable_versions, field.tagged_versions) == (range(0), range(0))
    assert (field.ignorable, field.map_key, field.about, field.aliases) == (False, False, "", ())
    spec = MessageSpec("M", (field,), kind="data", family="f", valid_versions=range(2))
    assert (spec.flexible_versions, spec.api_key, spec.latest_version_unstable) == (range(0), None, False)
    assert (spec.about, spec.listeners, spec.source, spec.aliases) == ("", (), "", ())


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (FetchResponse.spec, "kind"),
        (FetchResponse.spec.fields[0], "tag"),
        (FetchResponse.spec.field("Responses").struct.spec, "name"),
    ],
)
def test_a_spec_does_not_change(spec: object, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(spec, name, None)


def test_the_repr_of_new_specs_leaves_out_defaults() -> None:
    field = Field("A", "a", "int32", range(1))
    shown = "Field(name='A', attribute='a', type='int32', versions=range(0, 1))"
    assert repr(field) == shown
    assert repr(StructSpec("S", (field,))) == f"StructSpec(name='S', fields=({shown},))"
    message = MessageSpec("M", (), kind="data", family="f", valid_versions=range(2))
    assert repr(message) == "MessageSpec(name='M', fields=(), kind='data', family='f', valid_versions=range(0, 2))"

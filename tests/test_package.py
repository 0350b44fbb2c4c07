"""The package from outside: public names, what importing loads, and messages as Python objects."""

from __future__ import annotations

import copy
import importlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import kafkawire
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    DescribeProducersResponse,
    FetchRequest,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, TopicResponse
from kafkawire.wire.message import Message, Struct
from kafkawire.wire.values import TaggedField
from tests.strategies import structs_of

ROOT = Path(__file__).parent.parent
SCHEMAS = sorted((ROOT / "schemas" / "kafka").rglob("*.json"))


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "error", **environment},
        timeout=60,
        check=False,
    )


# Messages -----------------------------------------------------------------------------------------------------------


def test_messages_and_schemas_match_one_to_one() -> None:
    names = kafkawire.messages.__all__
    assert len(SCHEMAS) == len(names) == len(set(names)) >= 280
    sources = {getattr(kafkawire.messages, name).spec.source for name in names}
    assert sources == {path.relative_to(ROOT / "schemas" / "kafka").as_posix() for path in SCHEMAS}
    assert sorted(names) == list(names)
    assert set(names) <= set(dir(kafkawire.messages))


def test_message_spec_equals_its_schema() -> None:
    for path in SCHEMAS:
        compare_spec_with_schema(path)


def compare_spec_with_schema(path: Path) -> None:
    schema = json.loads(path.read_text())
    cls: type[Message] = getattr(kafkawire.messages, schema["name"])
    spec = cls.spec
    assert (spec.name, spec.kind, spec.api_key) == (schema["name"], schema["type"], schema.get("apiKey"))
    assert spec.family == path.parent.name
    low, _, high = schema["validVersions"].partition("-")
    assert spec.valid_versions == range(int(low), int(high or low) + 1)
    assert [field.name for field in spec.fields] == [field["name"] for field in schema["fields"]]
    flexible = schema.get("flexibleVersions", "none")
    first = spec.valid_versions.stop if flexible == "none" else max(int(flexible.rstrip("+")), int(low))
    assert list(spec.flexible_versions) == list(range(first, spec.valid_versions.stop))
    for struct in structs_of(cls):
        assert issubclass(struct, Struct)
        assert struct.__struct_fields__ == (*(field.attribute for field in struct.spec.fields), "unknown_tagged_fields")
        # What a version without the field decodes to is the default of the class.
        for field in struct.spec.fields:
            if field.default is not None or field.kind != 12:
                assert getattr(struct(), field.attribute) == field.default, field.name


def test_each_request_has_the_response_of_its_api_key() -> None:
    registry = kafkawire.messages.REGISTRY
    requests = [registry.load(entry) for entry in registry if entry.kind == "request"]
    assert len(requests) > 90
    for request in requests:
        response = request.response  # type: ignore[attr-defined]
        assert response is registry.rpc(request.spec.api_key or 0, "response")
    assert not hasattr(DescribeProducersResponse, "response")
    draft = importlib.import_module("kafkawire.drafts.kip_664_draft")
    assert draft.DescribeProducersRequest.response is draft.DescribeProducersResponse  # neither has an api key


def test_response_is_imported_on_first_use() -> None:
    program = """
import sys
from kafkawire.messages import ProduceRequest
assert "kafkawire.messages.produce_response" not in sys.modules
assert ProduceRequest.response.__name__ == "ProduceResponse"
assert vars(ProduceRequest)["response"] is ProduceRequest().response
"""
    assert python(program).stderr == ""


def test_request_of_own_schemas_has_its_response_if_there_is_one(tmp_path: Path) -> None:
    def write(name: str, kind: str, api_key: int) -> None:
        schema = {"name": name, "type": kind, "apiKey": api_key, "validVersions": "0", "flexibleVersions": "none"}
        schema["fields"] = [{"name": "Response", "type": "string", "versions": "0+"}]
        (tmp_path / f"{name}.json").write_text(json.dumps(schema))

    write("PingRequest", "request", 9001)
    write("PongResponse", "response", 9001)
    write("LonelyRequest", "request", 9002)
    mine = kafkawire.load_schemas(tmp_path)
    assert mine.PingRequest.response is mine.PongResponse  # type: ignore[attr-defined]
    assert not hasattr(mine.LonelyRequest, "response")
    assert mine.PingRequest(response_="a field's").response_ == "a field's"  # type: ignore[attr-defined, call-arg]


def test_structs_are_attributes_of_their_message() -> None:
    for name in kafkawire.messages.__all__:
        cls: type[Message] = getattr(kafkawire.messages, name)
        assert all(getattr(cls, struct.__name__) is struct for struct in cls.codec.classes[:-1])
    assert DescribeProducersResponse.TopicResponse is TopicResponse


def test_messages_of_the_oldest_and_newest_releases_exist() -> None:
    versions = {name: getattr(kafkawire.messages, name).spec.valid_versions for name in kafkawire.messages.__all__}
    assert sum(map(len, versions.values())) >= 860
    # Gone from 4.x, and kept in their old versions.
    assert versions["LeaderAndIsrRequest"] == range(8)
    assert versions["FetchRequest"] == range(19)
    assert versions["WriteTxnMarkersRequest"] == range(3)
    assert versions["TransactionLogValue"] == range(2)


# Importing ----------------------------------------------------------------------------------------------------------

HEAVY = ("numpy", "jinja2", "rich", "typer", "click", "pyspark", "pandas", "pyarrow", "construct", "cramjam", "crc32c")


def test_importing_the_package_imports_no_message() -> None:
    done = python("import sys; old = set(sys.modules); import kafkawire; print(*sorted(set(sys.modules) - old))")
    assert (done.returncode, done.stderr) == (0, "")
    loaded = done.stdout.split()
    assert "kafkawire" in loaded
    assert not [name for name in loaded if name.startswith("kafkawire.messages.")]
    assert not {name.partition(".")[0] for name in loaded} & {*HEAVY, "msgspec"}


@pytest.mark.slow
def test_importing_a_message_imports_no_optional_library() -> None:
    code = (
        "import sys; from kafkawire.messages import EndTxnRequest; import kafkawire; kafkawire.lookup('EndTxnRequest');"
        "kafkawire.to_json(EndTxnRequest.decode(EndTxnRequest().encode(0), 0), 0); "
        "kafkawire.backend; print(*sys.modules)"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")
    loaded = done.stdout.split()
    assert [name for name in loaded if name.startswith("kafkawire.messages.")] == ["kafkawire.messages.end_txn_request"]
    assert not {name.partition(".")[0] for name in loaded} & set(HEAVY)
    assert not [name for name in loaded if name.startswith("kafkawire.codegen")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "package", ["errors", "frames", "records", "messages", "drafts", "capture", "logdir", "transactions"]
)
def test_each_package_can_be_imported_alone(package: str) -> None:
    done = python(f"import kafkawire.{package} as one; import kafkawire; assert kafkawire.{package} is one")
    assert (done.returncode, done.stderr) == (0, "")


def test_public_names() -> None:
    public = {"backend", "errors", "from_json", "load_schemas", "lookup", "messages", "drafts", "to_json", "frames"}
    public |= {"records", "logdir", "capture", "transactions"}
    assert public <= set(kafkawire.__all__) <= set(dir(kafkawire))
    for name in kafkawire.__all__:
        assert getattr(kafkawire, name) is not None
    assert isinstance(kafkawire.__version__, str)
    with pytest.raises(AttributeError, match="lokup"):
        _ = kafkawire.lokup
    with pytest.raises(AttributeError, match="NoSuchMessage"):
        _ = kafkawire.messages.NoSuchMessage


def test_message_fields_are_annotated() -> None:
    assert (ROOT / "kafkawire" / "py.typed").is_file()
    hints = msgspec.structs.fields(DescribeProducersResponse)
    assert [field.name for field in hints] == ["throttle_time_ms", "topics", "unknown_tagged_fields"]
    # msgspec resolves the annotations: nested structs are found by their names.
    assert hints[1].type == tuple[TopicResponse, ...]


# Messages as objects ------------------------------------------------------------------------------------------------


def sample() -> DescribeProducersResponse:
    partition = PartitionResponse(partition_index=3, error_message="no", unknown_tagged_fields=(TaggedField(1, b"x"),))
    return DescribeProducersResponse(throttle_time_ms=5, topics=(TopicResponse(name="t", partitions=(partition,)),))


def test_messages_are_frozen_and_hashable() -> None:
    value = sample()
    with pytest.raises(AttributeError):
        value.throttle_time_ms = 6  # type: ignore[misc]
    with pytest.raises(AttributeError):
        value.topics[0].partitions[0].unknown_tagged_fields[0].tag = 2  # type: ignore[misc]
    assert value == sample()
    assert hash(value) == hash(sample())
    assert len({value, sample(), DescribeProducersResponse()}) == 2
    assert value != DescribeProducersResponse()
    assert msgspec.structs.replace(value, throttle_time_ms=6).topics is value.topics


def test_messages_of_different_classes_are_not_equal() -> None:
    from kafkawire.messages import AllocateProducerIdsRequest, EndTxnMarker, UnregisterBrokerRequest

    defaults = [EndTxnMarker(), UnregisterBrokerRequest(), AllocateProducerIdsRequest()]
    assert [left == right for left in defaults for right in defaults if left is not right] == [False] * 6


def test_repr_omits_defaults_and_evaluates_to_the_message() -> None:
    import kafkawire.messages.describe_producers_response as module

    text = repr(sample())
    assert text == (
        "DescribeProducersResponse(throttle_time_ms=5, topics=(TopicResponse(name='t', partitions=(PartitionResponse("
        "partition_index=3, error_message='no', unknown_tagged_fields=(TaggedField(tag=1, data=b'x'),)),)),))"
    )
    assert eval(text, {**vars(module), "TaggedField": TaggedField}) == sample()
    assert repr(FetchRequest()) == "FetchRequest()"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_messages_can_be_pickled_and_copied(protocol: int) -> None:
    assert pickle.loads(pickle.dumps(sample(), protocol)) == sample()
    assert copy.deepcopy(sample()) == sample()
    assert copy.copy(sample()) == sample()


@pytest.mark.slow
def test_unpickling_imports_the_message() -> None:
    done = python(f"import pickle; print(pickle.loads({pickle.dumps(sample())!r}).topics[0].name)")
    assert (done.stdout.strip(), done.stderr) == ("t", "")


def test_rejects_unknown_field_names() -> None:
    with pytest.raises(TypeError, match="throttle"):
        DescribeProducersResponse(throttle=5)  # type: ignore[call-arg]
    assert AddPartitionsToTxnRequest(transactions=()) == AddPartitionsToTxnRequest()

"""The package as its users meet it: what is there, what importing costs, how messages and errors behave as objects."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from strategies import structs_of

import kafkawire
from kafkawire import errors
from kafkawire.errors import DecodeError, EncodeError, UnsupportedVersionError
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    DescribeProducersResponse,
    FetchRequest,
    ListConfigResourcesRequest,
    TransactionLogValue,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, TopicResponse
from kafkawire.wire.message import Message, Struct
from kafkawire.wire.values import TaggedField

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


def test_every_schema_has_a_message_and_every_message_a_schema() -> None:
    names = kafkawire.messages.__all__
    assert len(SCHEMAS) == len(names) == len(set(names)) >= 280
    sources = {getattr(kafkawire.messages, name).spec.source for name in names}
    assert sources == {path.relative_to(ROOT / "schemas" / "kafka").as_posix() for path in SCHEMAS}
    assert sorted(names) == list(names)
    assert set(names) <= set(dir(kafkawire.messages))


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_a_message_says_what_its_schema_says(path: Path) -> None:
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


def test_the_oldest_and_newest_releases_are_both_there() -> None:
    versions = {name: getattr(kafkawire.messages, name).spec.valid_versions for name in kafkawire.messages.__all__}
    assert sum(map(len, versions.values())) >= 860
    # Gone from 4.x, and kept in their old versions.
    assert versions["LeaderAndIsrRequest"] == range(8)
    assert versions["FetchRequest"] == range(19)
    assert versions["WriteTxnMarkersRequest"] == range(3)
    assert versions["TransactionLogValue"] == range(2)


# Importing ----------------------------------------------------------------------------------------------------------

HEAVY = ("numpy", "jinja2", "rich", "typer", "click", "pyspark", "pandas", "pyarrow", "construct", "cramjam", "crc32c")


def test_importing_the_package_imports_next_to_nothing() -> None:
    done = python("import sys; old = set(sys.modules); import kafkawire; print(*sorted(set(sys.modules) - old))")
    assert (done.returncode, done.stderr) == (0, "")
    loaded = done.stdout.split()
    assert "kafkawire" in loaded
    assert not [name for name in loaded if name.startswith("kafkawire.messages.")]
    assert not {name.partition(".")[0] for name in loaded} & {*HEAVY, "msgspec"}


def test_a_message_brings_its_own_module_and_no_heavy_library() -> None:
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


@pytest.mark.parametrize(
    "room", ["errors", "frames", "records", "messages", "drafts", "capture", "logdir", "transactions"]
)
def test_each_room_can_be_imported_alone(room: str) -> None:
    done = python(f"import kafkawire.{room} as one; import kafkawire; assert kafkawire.{room} is one")
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


def test_messages_are_annotated() -> None:
    assert (ROOT / "kafkawire" / "py.typed").is_file()
    hints = msgspec.structs.fields(DescribeProducersResponse)
    assert [field.name for field in hints] == ["throttle_time_ms", "topics", "unknown_tagged_fields"]
    # msgspec resolves the annotations: nested structs are found by their names.
    assert hints[1].type == tuple[TopicResponse, ...]


# Looking up ---------------------------------------------------------------------------------------------------------


def test_lookup_by_name() -> None:
    assert kafkawire.lookup("DescribeProducersResponse") is DescribeProducersResponse
    for name in kafkawire.messages.__all__:
        assert kafkawire.lookup(name) is getattr(kafkawire.messages, name)


def test_lookup_by_an_older_name() -> None:
    assert kafkawire.lookup("ListClientMetricsResourcesRequest") is ListConfigResourcesRequest
    assert kafkawire.lookup("ListOffsetRequest").spec.name == "ListOffsetsRequest"
    assert kafkawire.lookup("AlterIsrResponse").spec.name == "AlterPartitionResponse"
    assert not {"ListClientMetricsResourcesRequest", "ListOffsetRequest"} & set(kafkawire.messages.__all__)


def test_lookup_by_api_key() -> None:
    assert kafkawire.lookup(api_key=61, kind="response", family="rpc") is DescribeProducersResponse
    assert kafkawire.lookup(api_key=61, kind="response") is DescribeProducersResponse
    assert kafkawire.lookup(api_key=0, kind="coordinator-value", family="transaction") is TransactionLogValue
    for name in kafkawire.messages.__all__:
        spec = getattr(kafkawire.messages, name).spec
        if spec.api_key is not None:
            found = kafkawire.lookup(api_key=spec.api_key, kind=spec.kind, family=spec.family)
            assert found.spec.name == name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "DescribeProducerResponse"}, ["DescribeProducerResponse", "near: DescribeProducersResponse"]),
        ({"name": ""}, ["''"]),
        ({"name": "describeproducersresponse"}, ["describeproducersresponse"]),
        ({"api_key": 61}, ["ambiguous", "DescribeProducersRequest", "DescribeProducersResponse"]),
        ({"api_key": 0}, ["ambiguous", "ProduceRequest", "TransactionLogKey"]),
        ({"api_key": 0, "kind": "coordinator-key"}, ["ambiguous", "TransactionLogKey"]),
        ({"api_key": 9999}, ["no message has api key 9999"]),
        ({"api_key": -1, "kind": "request", "family": "rpc"}, ["no message has api key -1, kind request, family rpc"]),
        ({"api_key": 61, "kind": "answer"}, ["no message has api key 61, kind answer"]),
        ({"api_key": 61, "family": "kip-664-draft"}, ["no message has api key 61"]),
    ],
)
def test_lookups_that_find_none_or_several(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(LookupError) as caught:
        kafkawire.lookup(**arguments)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("arguments", [{}, {"name": "FetchRequest", "api_key": 1}])
def test_lookup_takes_a_name_or_a_key(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        kafkawire.lookup(**arguments)


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


def test_messages_of_different_kinds_are_never_equal() -> None:
    from kafkawire.messages import AllocateProducerIdsRequest, EndTxnMarker, UnregisterBrokerRequest

    defaults = [EndTxnMarker(), UnregisterBrokerRequest(), AllocateProducerIdsRequest()]
    assert [left == right for left in defaults for right in defaults if left is not right] == [False] * 6


def test_a_repr_shows_what_is_not_at_its_default_and_can_be_evaluated() -> None:
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


def test_unpickling_needs_no_import_beforehand() -> None:
    done = python(f"import pickle; print(pickle.loads({pickle.dumps(sample())!r}).topics[0].name)")
    assert (done.stdout.strip(), done.stderr) == ("t", "")


def test_positions_are_no_api_but_names_are() -> None:
    with pytest.raises(TypeError, match="throttle"):
        DescribeProducersResponse(throttle=5)  # type: ignore[call-arg]
    assert AddPartitionsToTxnRequest(transactions=()) == AddPartitionsToTxnRequest()


# Errors -------------------------------------------------------------------------------------------------------------


def decode_error() -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        DescribeProducersResponse.decode(sample().encode(0)[:-8], 0)
    return caught.value


def encode_error() -> EncodeError:
    with pytest.raises(EncodeError) as caught:
        DescribeProducersResponse(throttle_time_ms=1 << 31).encode(0)
    return caught.value


def version_error() -> UnsupportedVersionError:
    with pytest.raises(UnsupportedVersionError) as caught:
        DescribeProducersResponse().encode(1)
    return caught.value


@pytest.mark.parametrize("make", [decode_error, encode_error, version_error])
def test_errors_say_where_and_cross_process_borders(make: Any) -> None:
    error = make()
    assert isinstance(error, errors.KafkaWireError)
    assert isinstance(error, ValueError)
    assert "DescribeProducersResponse" in str(error)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert other.args
        assert {k: v for k, v in vars(other).items() if k != "__notes__"} == vars(error)
    done = python(f"import pickle; print(pickle.loads({pickle.dumps(error)!r}))")
    assert (done.stdout.strip(), done.stderr) == (str(error), "")


def test_a_decode_error_names_path_offset_expected_and_found() -> None:
    error = decode_error()
    assert (error.path, error.offset) == ("topics[0].partitions", 7)
    assert (error.message, error.version) == ("DescribeProducersResponse", 0)
    assert str(error) == (
        f"DescribeProducersResponse v0, {error.path}: at byte {error.offset}: "
        f"expected {error.expected}, found {error.found}"
    )


def test_an_encode_error_names_path_and_reason() -> None:
    error = encode_error()
    assert (error.path, error.version) == ("throttle_time_ms", 0)
    assert str(error) == f"DescribeProducersResponse v0, throttle_time_ms: {error.reason}"


def test_a_version_error_names_the_versions_that_there_are() -> None:
    assert str(version_error()) == "DescribeProducersResponse has no version 1; it has 0"
    assert version_error().valid_versions == range(1)


def test_errors_do_not_drag_the_fast_paths_failure_along() -> None:
    # The generated codec fails first and says nothing; its exception would only confuse.
    assert decode_error().__context__ is None or decode_error().__suppress_context__
    assert encode_error().__context__ is None or encode_error().__suppress_context__


def test_every_error_has_one_root() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) >= 8
    assert all(issubclass(cls, errors.KafkaWireError) for cls in classes)

"""Messages as Python values: replaced, hashed, compared, pickled, shared by threads and interpreters; final classes."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafkawire.messages import (
    DescribeClientQuotasResponse,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from kafkawire.wire.message import Message, Struct
from tests.engines import engines

PARTITION = ProduceRequest.PartitionProduceData(index=1, records=b"records")
REQUEST = ProduceRequest(topic_data=(ProduceRequest.TopicProduceData("t", partition_data=(PARTITION,)),))


def test_replace_changes_fields_by_name() -> None:
    changed = REQUEST.replace(acks=-1, timeout_ms=500)
    assert (changed.acks, changed.timeout_ms, changed.topic_data) == (-1, 500, REQUEST.topic_data)
    assert REQUEST.acks == 0
    assert PARTITION.replace(index=2) == ProduceRequest.PartitionProduceData(index=2, records=b"records")


def test_replace_refuses_unknown_names_and_positions() -> None:
    with pytest.raises(TypeError, match="has no field 'ack'"):
        REQUEST.replace(ack=1)
    with pytest.raises(TypeError):
        REQUEST.replace("orders")  # type: ignore[misc]


def test_subclasses_of_messages_and_structs_are_refused() -> None:
    with pytest.raises(TypeError, match="MetadataRequest is final: decoding gives values of MetadataRequest"):
        type("Mine", (MetadataRequest,), {})
    with pytest.raises(TypeError, match="TopicProduceData is final"):
        type("Mine", (ProduceRequest.TopicProduceData,), {})
    assert issubclass(type("Base", (Message,), {}), Struct)


@pytest.mark.parametrize("copied", [True, False])
def test_views_are_what_copy_false_leaves(copied: bool) -> None:
    data = REQUEST.encode(9)
    for input_ in (data, bytearray(data)):
        decoded = ProduceRequest.decode(input_, 9, copy=copied)
        records = decoded.topic_data[0].partition_data[0].records
        assert type(records) is (bytes if copied else memoryview)
        assert decoded == REQUEST
        assert decoded.encode(9) == data
        assert copied or records.obj is input_  # type: ignore[union-attr]


def test_values_with_views_are_hashable_where_the_bytes_are_read_only() -> None:
    data = REQUEST.encode(9)
    assert hash(ProduceRequest.decode(data, 9, copy=False)) == hash(REQUEST)
    with pytest.raises(ValueError, match="cannot hash writable memoryview"):
        hash(ProduceRequest.decode(bytearray(data), 9, copy=False))


def test_values_with_views_are_neither_pickled_nor_copied_deeply() -> None:
    value = ProduceRequest.decode(REQUEST.encode(9), 9, copy=False)
    for use in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="memoryview"):
            use(value)
    assert copy.copy(value) == value


def test_structs_are_pickled_by_their_module() -> None:
    assert pickle.loads(pickle.dumps(REQUEST.topic_data[0])) == REQUEST.topic_data[0]
    assert pickle.loads(pickle.dumps(ProduceRequest.TopicProduceData)) is ProduceRequest.TopicProduceData


def quota(value: float) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        entries=(
            DescribeClientQuotasResponse.EntryData(
                values=(DescribeClientQuotasResponse.ValueData(key="producer_byte_rate", value=value),)
            ),
        )
    )


def test_nan_is_kept_and_unequal_to_itself() -> None:
    for codec in engines(DescribeClientQuotasResponse):
        for version in (0, 1):
            data = codec.encode(quota(math.nan), version)
            assert data is not None
            decoded = codec.decode(data, version, 0, False, True)
            assert decoded is not None
            assert math.isnan(decoded.entries[0].values[0].value)
            assert decoded != quota(math.nan)
            assert codec.encode(decoded, version) == data
    assert quota(1.5) == quota(1.5)


def test_zero_and_minus_zero_are_equal_and_other_bytes() -> None:
    assert quota(0.0) == quota(-0.0)
    assert quota(0.0).encode(0) != quota(-0.0).encode(0)
    assert "-0.0" in repr(quota(-0.0))


@pytest.mark.slow
def test_threads_share_classes_and_values_from_their_first_use_on() -> None:
    """In a fresh process, where the first uses of a class meet."""
    program = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from kafkawire.messages import FetchResponse, MetadataResponse, ProduceRequest
gate = Barrier(8)
def use(number):
    gate.wait()
    for _ in range(20):
        for cls in (FetchResponse, MetadataResponse, ProduceRequest):
            for version in cls.spec.valid_versions:
                assert cls.decode(cls().encode(version), version) == cls().for_version(version)
    return ProduceRequest.response, FetchResponse.spec, MetadataResponse.codec.table
found = list(ThreadPoolExecutor(8).map(use, range(8)))
assert all(one[0] is found[0][0] for one in found)
assert all(one == found[0] for one in found)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs a free-threaded build of CPython")
def test_codecs_run_without_the_lock_where_the_build_has_none() -> None:
    data = FetchResponse(session_id=1).encode(17)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: FetchResponse.decode(data, 17).session_id, range(10_000))) == {1}
    assert not sys._is_gil_enabled()  # type: ignore[attr-defined]


SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
    other = interpreters.create({config!r})
except ImportError:
    import _xxsubinterpreters as interpreters
    other = interpreters.create(isolated={config!r} == "isolated")
from kafkawire.messages import MetadataRequest
import kafkawire
MetadataRequest().encode(0)
program = '''
import sys
sys.path[:] = {{path}}
try:
    from kafkawire.messages import MetadataRequest
    print(MetadataRequest.decode(MetadataRequest().encode(1), 1), flush=True)
except ImportError as error:
    print("ImportError:", error, flush=True)
'''.format(path=repr(sys.path))
interpreters.run_string(other, program)
interpreters.destroy(other)
"""


@pytest.mark.slow
@pytest.mark.parametrize("config", ["legacy", "isolated"])
def test_subinterpreters_decode_or_refuse_the_import(config: str) -> None:
    """Those with a lock of their own (Python 3.12 and later) cannot import msgspec."""
    done = subprocess.run(
        [sys.executable, "-c", SUBINTERPRETER.format(config=config)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    if config == "isolated" and sys.version_info >= (3, 12):
        assert done.stdout.startswith("ImportError: module msgspec._core does not support loading in subinterpreters")
    else:
        assert done.stdout == f"{MetadataRequest()!r}\n"


def test_unhashable_values_make_an_unhashable_message() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(MetadataResponse(topics=[]))  # type: ignore[arg-type]

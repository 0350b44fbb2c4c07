"""The native engine by itself: the references that it holds and releases, and the values that it passes on."""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

import kafkawire
from kafkawire.errors import EncodeError
from kafkawire.messages import (
    AlterClientQuotasRequest,
    DescribeProducersResponse,
    FetchResponse,
    MetadataResponse,
    ProduceRequest,
    TransactionLogValue,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, TopicResponse
from kafkawire.messages.fetch_response import FetchableTopicResponse, NodeEndpoint, PartitionData
from kafkawire.testing.comparison import same
from kafkawire.wire.limits import MAX_STRING
from kafkawire.wire.message import Message, Struct
from kafkawire.wire.values import TaggedField
from tests.engines import NATIVE, native, written
from tests.every import for_each
from tests.random_messages import for_random
from tests.wire.test_refused_values import full, wrongs

pytestmark = [pytest.mark.skipif(not NATIVE, reason="the native engine is not installed"), pytest.mark.slow]

MESSAGES = [DescribeProducersResponse, FetchResponse, MetadataResponse, ProduceRequest, TransactionLogValue]


# References ---------------------------------------------------------------------------------------------------------


def blocks_kept(work: Callable[[], object], rounds: int = 30) -> int:
    """Blocks of memory that Python has more of after doing some work again and again."""
    for _ in range(3):
        work()  # caches
    gc.freeze()  # what there is by now is not looked at: in a long run of tests that is most of the time
    try:
        before = sys.getallocatedblocks()
        for _ in range(rounds):
            work()
        gc.collect()
        return sys.getallocatedblocks() - before
    finally:
        gc.unfreeze()


def rich(cls: type[Message], version: int) -> Any:
    """Two of everything, unknown tags, and bytes that are no UTF-8."""
    value = full(cls, version)
    if version in cls.spec.flexible_versions:
        tags = (TaggedField(1000, b"a"), TaggedField(1001, b"b" * 200))
        value = msgspec.structs.replace(value, unknown_tagged_fields=tags)
    return value


@pytest.mark.parametrize("cls", MESSAGES)
def test_nothing_is_kept_of_what_was_read_and_written(cls: type[Message]) -> None:
    engine = native(cls)
    for version in (cls.spec.valid_versions[0], cls.spec.valid_versions[-1]):
        value = rich(cls, version)
        data = value.encode(version)
        buffers = (data, bytearray(data), memoryview(data))

        def work(version: int = version, value: Any = value, data: bytes = data, buffers: Any = buffers) -> None:
            for buffer in buffers:
                for copy in (True, False):
                    assert engine.decode(buffer, version, 0, True, copy) is not None
            assert engine.encode(value, version) == data

        assert blocks_kept(work) < 30


@pytest.mark.parametrize("cls", MESSAGES)
def test_nothing_is_kept_of_what_was_refused(cls: type[Message]) -> None:
    engine = native(cls)
    version = cls.spec.valid_versions[-1]
    value = rich(cls, version)
    data = value.encode(version)
    flexible = version in cls.spec.flexible_versions
    bad = [value for _, value, _ in wrongs(value, version, flexible, set())]

    def work() -> None:
        for cut in range(len(data)):
            for copy in (True, False):
                assert engine.decode(memoryview(data)[:cut], version, 0, False, copy) is None
        assert engine.decode(data + b"\0", version, 0, False, True) is None
        for value in bad:
            assert engine.encode(value, version) is None

    references = [sys.getrefcount(struct) for struct in cls.codec.classes]
    assert blocks_kept(work) < 30
    assert [sys.getrefcount(struct) for struct in cls.codec.classes] == references


def test_schemas_loaded_at_run_time_are_freed_with_their_engine(tmp_path: Path) -> None:
    schema = {
        "name": "PassingRequest",
        "type": "request",
        "apiKey": 999,
        "validVersions": "0",
        "flexibleVersions": "0+",
        "fields": [{"name": "Id", "type": "int32", "versions": "0+"}],
    }
    (tmp_path / "PassingRequest.json").write_text(json.dumps(schema))
    cls = kafkawire.load_schemas(tmp_path).PassingRequest
    package = cls.__module__.partition(".")[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
    assert cls.decode(cls(id=5).encode(0), 0) == cls(id=5)
    engine = native.__wrapped__(cls)
    assert engine.decode(cls(id=5).encode(0), 0, 0, False, True) == cls(id=5)
    cls.engine_too = engine  # a cycle through the engine itself
    gone = weakref.ref(cls)
    del cls, engine
    gc.collect()
    assert gone() is None


# What goes through --------------------------------------------------------------------------------------------------


class Raising:
    """Raises when it is converted to a number, or compared with one."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __index__(self) -> int:
        raise self.error

    __float__ = __index__
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise self.error

    __ne__ = __eq__


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), RecursionError(), RuntimeError("mine")])
def test_exceptions_of_others_go_through(error: BaseException) -> None:
    raising: Any = Raising(error)
    values = [
        (DescribeProducersResponse(throttle_time_ms=raising), 0),
        (TransactionLogValue(client_transaction_version=raising), 1),
        (MetadataResponse(cluster_authorized_operations=raising), 5),
    ]
    for value, version in values:
        with pytest.raises(type(error)) as caught:
            native(type(value)).encode(value, version)
        assert caught.value is error


@pytest.mark.parametrize("error", [TypeError(), ValueError(), OverflowError(), AttributeError(), KeyError()])
def test_exceptions_of_a_wrong_value_are_refusals(error: Exception) -> None:
    assert (
        native(DescribeProducersResponse).encode(DescribeProducersResponse(throttle_time_ms=Raising(error)), 0) is None
    )  # type: ignore[arg-type]


def test_a_value_may_change_while_it_is_written() -> None:
    """A number's `__index__` may replace the very tuple that is being written: no reference may dangle."""
    partition: Any = PartitionResponse()
    topic = TopicResponse(name="t")

    class Changing:
        def __index__(self) -> int:
            msgspec.structs.force_setattr(topic, "partitions", ())
            gc.collect()
            return 7

    msgspec.structs.force_setattr(partition, "partition_index", Changing())
    msgspec.structs.force_setattr(topic, "partitions", (partition, PartitionResponse(partition_index=8)))
    del partition
    data = native(DescribeProducersResponse).encode(DescribeProducersResponse(topics=(topic,)), 0)
    assert data is not None
    expected = (PartitionResponse(partition_index=7), PartitionResponse(partition_index=8))
    assert DescribeProducersResponse.decode(data, 0).topics == (TopicResponse(name="t", partitions=expected),)


OUT_OF_MEMORY = """
import sys
from _testcapi import remove_mem_hooks, set_nomemory
from tests.engines import native
from tests.wire.test_native import MESSAGES, rich
for cls in MESSAGES:
    version = cls.spec.valid_versions[-1]
    engine, value = native(cls), rich(cls, version)
    data = value.encode(version)
    view = memoryview(data)
    for call in (
        lambda: engine.decode(data, version, 0, True, True),
        lambda: engine.decode(view, version, 0, True, False),
        lambda: engine.encode(value, version),
    ):
        assert call() in (value, data)
        raised = 0
        for start in range(400):
            result = None
            set_nomemory(start, start + 1)
            try:
                result = call()
            except MemoryError:
                raised += 1
                continue
            finally:
                remove_mem_hooks()
            assert result in (value, data), (cls, start)
        assert raised, cls
print("done")
"""


def test_running_out_of_memory_is_a_memory_error() -> None:
    pytest.importorskip("_testcapi")
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_threads_share_an_engine() -> None:
    engine = native.__wrapped__(FetchResponse)  # not used before: its layouts are looked at by all threads at once
    version = FetchResponse.spec.valid_versions[-1]
    value = rich(FetchResponse, version)
    data = value.encode(version)
    barrier = threading.Barrier(4)
    found: list[bool] = []

    def work() -> None:
        barrier.wait()
        found.append(
            all(
                same(engine.decode(data, version, 0, True, True), value) and engine.encode(value, version) == data
                for _ in range(50)
            )
        )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_output_of_every_length() -> None:
    """Around the sizes at which the engine's room for output is used up and made anew."""
    for length in (*range(1100), *range(2000, 2100), *range(4050, 4150), MAX_STRING):
        value = DescribeProducersResponse(topics=(TopicResponse(name="x" * length),))
        assert native(DescribeProducersResponse).encode(value, 0) == value.codec.interpret_encode(value, 0)


@pytest.mark.parametrize("endpoints", [1, 2, 10, 11, 12, 13, 1488, 1489, 1490, 1491, 200_000])
def test_tagged_fields_of_every_size(endpoints: int) -> None:
    """The size of a tagged field precedes it, in one byte and more."""
    nodes = tuple(NodeEndpoint(i) for i in range(endpoints))
    value = FetchResponse(node_endpoints=nodes, unknown_tagged_fields=(TaggedField(9, b"later"),))
    data = native(FetchResponse).encode(value, 17)
    assert data is not None
    if endpoints < 2000:
        assert data == value.codec.interpret_encode(value, 17)
    assert FetchResponse.decode(data, 17) == value


def test_records_are_copied_once() -> None:
    """Room for all of them is made at once, and becomes the result."""
    partitions = tuple(PartitionData(partition_index=i, records=bytes(100_000)) for i in range(10))
    value = FetchResponse(responses=(FetchableTopicResponse(partitions=partitions),))
    engine = native(FetchResponse)
    assert engine.encode(value, 17) is not None
    tracemalloc.start()
    try:
        data = engine.encode(value, 17)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert data is not None
    assert len(data) < peak < len(data) + 4096


# Values of other types ----------------------------------------------------------------------------------------------


class Number(IntEnum):
    SEVEN = 7


class Text(str):
    __slots__ = ()


class Identity(UUID):
    __slots__ = ()


ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 127, 128, 1 << 15, 1 << 31, 1 << 32, 1 << 63, 1 << 64, -(1 << 63) - 1, 1 << 2000,
    0.0, 1.0, -0.0, 1.5, 1e308, float("nan"), float("inf"), Number.SEVEN, Fraction(1, 2), Decimal("1.5"), 1j,
    "", "a", "é", "\udc80", "\ud800", "x" * 32767, "x" * 32768, "é" * 16384, Text("text"), Text("é"),
    b"", b"a", bytearray(b"abc"), memoryview(b"abc"), memoryview(b"abcd").cast("i"), memoryview(b"abcd")[::2],
    UUID(int=0), UUID(int=5), UUID(int=(1 << 128) - 1), Identity(int=6), "00000000-0000-0000-0000-000000000000",
    (), [], (1,), [1], (None,), ("a",), ["a", "é"], (b"a",), (True, 0), {}, {1: 2}, set(), {1}, range(2), iter(()),
    TaggedField(5, b""), (TaggedField(5000, b"a"),), [TaggedField(5000, b"a")], (TaggedField(True, b""),), object(),
]  # fmt: skip


def spots(value: Any) -> Iterator[tuple[str | int, ...]]:
    """The paths of all fields, elements and structs in a value."""
    for name in value.__struct_fields__:
        yield (name,)
        item = getattr(value, name)
        for number, part in enumerate(item if isinstance(item, tuple) else ()):
            yield (name, number)
            if isinstance(part, Struct):
                yield from ((name, number, *path) for path in spots(part))
        if isinstance(item, Struct):
            yield from ((name, *path) for path in spots(item))


def replaced(value: Any, path: tuple[str | int, ...], by: Any) -> Any:
    if not path:
        return by
    first, *rest = path
    if isinstance(first, int):
        return (*value[:first], replaced(value[first], tuple(rest), by), *value[first + 1 :])
    return msgspec.structs.replace(value, **{first: replaced(getattr(value, first), tuple(rest), by)})


@for_each(kafkawire.messages.__all__)
def test_engines_agree_on_values_of_any_type(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    for version in sorted({cls.spec.valid_versions[0], cls.spec.valid_versions[-1]}):
        for_random(cls, version, 0.05, f"{name} {version}", partial(odd, version))


def odd(version: int, value: Any, numbers: random.Random) -> None:
    places = list(spots(value))
    for _ in range(8):
        written(replaced(value, numbers.choice(places), numbers.choice(ODD)), version)


def test_numbers_of_every_odd_type_in_every_kind_of_field() -> None:
    quotas = full(AlterClientQuotasRequest, 1)
    for value, version in ((quotas, 1), (full(MetadataResponse, 13), 13), (full(FetchResponse, 17), 17)):
        for path in spots(value):
            for item in ODD:
                written(replaced(value, path, item), version)


def test_a_refusal_is_explained() -> None:
    with pytest.raises(EncodeError, match=r"topics\[0\].name: expected str, got int"):
        DescribeProducersResponse(topics=(TopicResponse(name=5),)).encode(0)  # type: ignore[arg-type]

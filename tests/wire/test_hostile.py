"""Hostile bytes. Whatever they claim, a decode allocates at most 64 times its input plus 64 KiB.

Peaks are tracemalloc's: all that Python allocates during the decode, the value and everything passing. `SLACK` is for
what is not the decode's: the exception with its traceback and texts, and tracemalloc's own bookkeeping.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any
from uuid import UUID

import msgspec
import pytest

import kafkawire
from kafkawire.errors import DecodeError
from kafkawire.messages import DescribeProducersResponse, FetchResponse, ListTransactionsRequest, MetadataResponse
from kafkawire.testing.strategies import RANGES
from kafkawire.wire.layout import STRUCT
from kafkawire.wire.message import Message, Struct
from kafkawire.wire.spec import Field
from tests.engines import agree, readers, refused
from tests.every import for_each
from tests.strategies import structs_of

pytestmark = pytest.mark.slow

SLACK = 16 * 1024


def bound(data: bytes) -> int:
    return 64 * len(data) + 64 * 1024 + SLACK


def peak(cls: type[Message], version: int, data: bytes, *, strict: bool = False) -> tuple[int, Any]:
    """Peak of allocated bytes, and the value or the error."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        try:
            result: Any = cls.decode_from(data, version, strict=strict)[0]
        except DecodeError as error:
            result = error.with_traceback(None)
        return tracemalloc.get_traced_memory()[1] - before, result
    finally:
        tracemalloc.stop()


def check(cls: type[Message], version: int, data: bytes, *, strict: bool = False) -> Any:
    used, result = peak(cls, version, data, strict=strict)
    assert used <= bound(data), f"{cls.spec.name} v{version}: {used / len(data):.0f} bytes for each of {len(data)}"
    return result


@pytest.fixture(autouse=True, scope="module")
def _warm() -> None:
    """Imports and caches are no part of a decode."""
    for name in kafkawire.messages.__all__:
        cls = getattr(kafkawire.messages, name)
        for version in cls.spec.valid_versions:
            with pytest.raises(DecodeError):
                cls.decode(b"\0" * 100_000, version)
    gc.collect()


# Any message --------------------------------------------------------------------------------------------------------

PATTERNS = [
    "00",
    "01",
    "02",
    "7f",
    "ff",
    "ffffffff07",
    "7fffffff",
    "80808080",
    "00000001",
    "0102",
    "feffffff07",
    "0001",
]


@for_each(kafkawire.messages.__all__)
def test_repeated_bytes_stay_within_the_bound(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    for version in cls.spec.valid_versions:
        if version + 1 in cls.spec.valid_versions and cls.codec.layout(version) == cls.codec.layout(version + 1):
            continue  # the same bytes
        for pattern in PATTERNS:
            unit = bytes.fromhex(pattern)
            check(cls, version, (unit * 2048)[:2048])


#: Values that take most memory for the bytes they take: no cached integers, text outside Latin-1.
LARGE: dict[str, Any] = {"bool": True, "float64": 1.5, "uuid": UUID(int=(1 << 127) + 1)} | {
    name: low + 1 if low else high for name, (low, high) in RANGES.items()
}
TEXTS = ("", "\udcff")


@cache
def smallest(cls: type[Struct], version: int, text: str) -> Any:
    """The struct in its fewest bytes (or with one byte in each string), fixed-size fields filled with large values."""
    values: dict[str, Any] = {}
    for field in cls.spec.fields:
        if version not in field.versions or version in field.tagged_versions:
            continue
        if field.is_array:
            values[field.attribute] = ()
        elif field.kind == STRUCT:
            null = version in field.nullable_versions
            values[field.attribute] = None if null else smallest(field.struct, version, text)
        elif field.type in LARGE:
            values[field.attribute] = LARGE[field.type]
        elif field.type == "string":
            values[field.attribute] = text
        else:
            values[field.attribute] = b""
    return cls(**values)


def element(field: Field, version: int, text: str) -> Any:
    if field.kind == STRUCT:
        return smallest(field.struct, version, text)
    kind = field.type.removeprefix("[]")
    return text if kind == "string" else b"" if kind in ("bytes", "records") else LARGE[kind]


def crowds(cls: type[Struct], version: int, text: str, seen: set[type[Struct]]) -> Iterator[Callable[[int], Any]]:
    """Makers of values in which one array, at any depth, has n elements; structs used in many places count once."""
    seen.add(cls)
    base = smallest(cls, version, text)
    for field in cls.spec.fields:
        if version not in field.versions:
            continue
        if field.is_array:
            yield partial(crowd, base, field, element(field, version, text))
        if field.struct and field.struct not in seen:
            for inner in crowds(field.struct, version, text, seen):
                yield partial(around, base, field, inner)


def crowd(base: Any, field: Field, item: Any, count: int) -> Any:
    return msgspec.structs.replace(base, **{field.attribute: (item,) * count})


def around(base: Any, field: Field, make: Callable[[int], Any], count: int) -> Any:
    return msgspec.structs.replace(base, **{field.attribute: (make(count),) if field.is_array else make(count)})


@for_each(kafkawire.messages.__all__)
def test_arrays_of_the_smallest_elements_stay_within_the_bound(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    version = cls.spec.valid_versions[-1]
    for text in TEXTS:
        for make in crowds(cls, version, text, set()):
            # No engine refuses an array for a bound on its length that is too narrow.
            for few in (1, 2, 3):
                agree(cls, version, make(few).encode(version))
            # Enough for the bound's constant part not to matter, and no more.
            size = len(make(64).encode(version)) / 64
            value = make(next((count for count in (4096, 1024, 256) if count * size < 40_000), 64))
            data = value.encode(version)
            for strict in (False, True):
                assert check(cls, version, data, strict=strict) == value


# The engines' own memory --------------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
import kafkawire
from kafkawire.errors import DecodeError
from tests.wire.test_hostile import PATTERNS
classes = [getattr(kafkawire.messages, name) for name in kafkawire.messages.__all__]
def decode(cls, data):
    for version in cls.spec.valid_versions:
        for strict in (False, True):
            try:
                cls.decode_from(data, version, strict=strict)
            except DecodeError:
                pass
for cls in classes:
    decode(cls, bytes(7))
# A pattern repeats itself: as many starts as it has bytes give all that there is to read of it.
claims = [(pattern * 8)[start : start + 7] for pattern in map(bytes.fromhex, PATTERNS) for start in range(len(pattern))]
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (8 << 20),) * 2)
for cls in classes:
    for claim in claims:
        decode(cls, claim)
print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space, as Linux counts it")
def test_seven_bytes_that_claim_everything_reserve_nothing() -> None:
    """tracemalloc does not see what the native engine allocates for itself: here the process has 8 MiB left for all."""
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# Particular claims --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", ["7fffffff", "40000000", "00100000"])
@pytest.mark.parametrize(
    "name", ["MetadataRequest", "CreateTopicsRequest", "AlterConfigsRequest", "DeleteTopicsRequest"]
)
def test_a_claimed_array_costs_nothing(name: str, claim: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    used, error = peak(cls, cls.spec.valid_versions[0], bytes.fromhex(claim) * 8)
    assert isinstance(error, DecodeError)
    assert used < 32 * 1024


@pytest.mark.parametrize("claim", ["ffffffff07", "8080808004", "8080c001"])
def test_a_claimed_compact_length_costs_nothing(claim: str) -> None:
    for cls, head in (
        (ListTransactionsRequest, ""),
        (DescribeProducersResponse, "00000000"),
        (MetadataResponse, "0" * 8),
    ):
        version = cls.spec.valid_versions[-1]
        used, error = peak(cls, version, bytes.fromhex(head + claim) + b"\1" * 50)
        assert isinstance(error, DecodeError)
        assert used < 32 * 1024


def test_arrays_in_arrays_that_each_claim_all_the_rest() -> None:
    # Topics, partitions, producers: at every level the length says that all bytes left are elements of this array.
    for unit in ("ffff01", "ff7f", "ff3f", "8010"):
        data = bytes(4) + bytes.fromhex(unit) + (b"\1" + bytes.fromhex(unit) + bytes(6) + b"\0") * 2000
        assert isinstance(check(DescribeProducersResponse, 0, data), DecodeError)


def test_thousands_of_unknown_tags() -> None:
    for size, data in ((0, b""), (1, b"\xfe"), (2, b"\xfe\xfe")):
        tags = b"".join(bytes([tag & 127 | 128, tag >> 7, size]) + data for tag in range(128, 10_128))
        value = check(DescribeProducersResponse, 0, bytes(4) + b"\1" + bytes([10_000 & 127 | 128, 10_000 >> 7]) + tags)
        assert len(value.unknown_tagged_fields) == 10_000


def test_a_known_tag_given_thousands_of_times_keeps_one_value() -> None:
    # FetchResponse: tag 0 of the partitions is DivergingEpoch, in each of 5,000 places.
    diverging = bytes.fromhex("00 0d 7ffffffe 7ffffffffffffffe 00")
    count = 5000
    partition = (
        bytes.fromhex("00000000 0000 0000000000000000 0000000000000000 0000000000000000 00 ffffffff 00")
        + bytes([count & 127 | 128, count >> 7])
        + diverging * count
    )
    head = bytes.fromhex("00000000 0000 00000000 02 0274 02")
    value = check(FetchResponse, 12, head + partition + b"\0\0")
    assert value.responses[0].partitions[0].diverging_epoch.epoch == 0x7FFFFFFE


def test_hostile_bytes_in_strict_decoding_stay_within_the_bound() -> None:
    for cls in (DescribeProducersResponse, MetadataResponse, FetchResponse):
        version = cls.spec.valid_versions[-1]
        for pattern in PATTERNS:
            check(cls, version, (bytes.fromhex(pattern) * 4096)[:4096], strict=True)


# Schemas of one's own: elements that cost far more than the bytes they take -----------------------------------------


def field(name: str, kind: str, fields: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": "0+", **more, **({"fields": fields} if fields else {})}


def wide(count: int) -> list[dict[str, Any]]:
    return [field(f"Tagged{i}", "int64", taggedVersions="0+", tag=i) for i in range(count)]


SCHEMAS: dict[str, list[dict[str, Any]]] = {
    # A struct of no bytes but its tag count, with forty slots.
    "WideRequest": [field("Rows", "[]Row", wide(40))],
    # A struct of two bytes in version 0, with forty fields that it does not carry.
    "LateRequest": [
        field("Rows", "[]Row", [field("Id", "int8"), *(field(f"L{i}", "string", versions="1+") for i in range(40))])
    ],
    # Not flexible: a struct of one byte.
    "NumberRequest": [field("Rows", "[]Row", [field("Id", "int8")])],
    # Structs in structs, each of no bytes but its tag count.
    "NestedRequest": [
        field("Rows", "[]Row", [field("Inner", "Inner", [field("Innermost", "Innermost", wide(12))])]),
    ],
    # The first again, in a message that holds bytes.
    "BytesRequest": [field("Data", "bytes"), field("Rows", "[]Row", wide(40))],
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("schemas")
    for number, (name, fields) in enumerate(SCHEMAS.items()):
        schema = {"apiKey": number, "type": "request", "name": name, "validVersions": "0-1", "fields": fields}
        schema["flexibleVersions"] = "none" if name == "NumberRequest" else "0+"
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(schema))
    return kafkawire.load_schemas(folder)


@pytest.mark.parametrize("name", ["WideRequest", "LateRequest", "NumberRequest", "NestedRequest"])
@pytest.mark.parametrize("size", [100, 2000, 5000])
def test_elements_that_cost_more_than_the_bound_are_refused(hostile: Any, name: str, size: int) -> None:
    cls = hostile[name]
    row = smallest(structs_of(cls)[1], 0, "")
    data = cls(rows=(row,) * size).encode(0)
    agree(cls, 0, data)
    result = check(cls, 0, data)
    if isinstance(result, DecodeError):
        assert size > 100  # so few fit into the constant part of the bound
        assert result.path.startswith("rows")
        assert "within the decoder's allocation limit" in result.expected
    else:
        assert len(result.rows) == size


@pytest.mark.parametrize("size", [100, 150, 200, 250, 300, 2000])
@pytest.mark.parametrize("more", [0, 50_000])
def test_a_refusal_for_its_cost_does_not_depend_on_the_kind_of_buffer(hostile: Any, size: int, more: int) -> None:
    cls = hostile["BytesRequest"]
    data = b"head" + cls(data=b"x", rows=(structs_of(cls)[1](),) * size).encode(0) + bytes(more)
    results = set()
    for engine in readers(cls, 0):
        found = [engine.decode_from(buffer, 0, 4, False, True) for buffer in (data, bytearray(data), memoryview(data))]
        assert len({result and result[1] for result in found}) == 1
        assert (found[0] is None) == (refused(cls, 0, data[4:]) is not None)
    for buffer in (data, bytearray(data), memoryview(data)):
        try:
            results.add(("read", cls.decode_from(buffer, 0, offset=4)[1]))
        except DecodeError as error:
            results.add((error.path, error.offset))
    assert len(results) == 1


def test_bytes_of_what_only_the_interpreter_reads_are_copied_or_views(hostile: Any) -> None:
    cls = hostile["BytesRequest"]
    assert cls.codec.decoders[0] is None
    data = cls(data=b"x", rows=(structs_of(cls)[1](),) * 10).encode(0)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert type(cls.decode(buffer, 0).data) is bytes
        assert type(cls.decode(buffer, 0, copy=False).data) is memoryview


def test_what_stands_before_a_message_does_not_raise_its_limit(hostile: Any) -> None:
    cls = hostile["WideRequest"]
    data = cls(rows=(structs_of(cls)[1](),) * 2000).encode(0)
    for before in (0, 0x7FFF, 0xFFFF):
        with pytest.raises(DecodeError) as caught:
            cls.decode_from(bytes(before) + data, 0, offset=before)
        assert "within the decoder's allocation limit" in caught.value.expected

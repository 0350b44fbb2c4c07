"""Hostile bytes in columns: large lengths cost no memory, bad values do not affect others, and errors are those of
`decode`."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import kafkawire
from kafkawire import columns, load_schemas
from kafkawire.messages import (
    ApiVersionsRequest,
    DescribeProducersResponse,
    FetchRequest,
    ListTransactionsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    TransactionLogValue,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.wire.columns import decode_structs
from kafkawire.wire.message import Message
from tests.wire.column_engines import ENGINES, check

pytestmark = pytest.mark.slow

#: Compact and plain lengths of 2^31 - 1 and the like, at the begin of a body and behind a few fields.
CLAIMS = [
    bytes.fromhex(text)
    for text in (
        "ffffffff07",
        "ffffffff07000000",
        "7fffffff",
        "7fffffff000000",
        "00007fffffff00",
        "00000000ffffffff07",
        "000000007fffffff",
        "80808080080000",
        "8080808008ffffffff0f00",
    )
]

LIMITED = """
import resource, sys
from tests.wire.column_engines import ENGINES
import kafkawire
from kafkawire.wire.columns import decode_structs
from tests.wire.test_columns_hostile import CLAIMS
classes = [kafkawire.lookup(name) for name in kafkawire.messages.__all__]
cases = [(cls, version) for cls in classes for version in cls.spec.valid_versions]
for cls, version in cases:  # imports, plans and caches are no part of a decode
    for engine in ENGINES.values():
        decode_structs(cls, [b""], version, engine=engine)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20),) * 2)
bad = 0
for cls, version in cases:
    for engine in ENGINES.values():
        for claims in ([CLAIMS[0]], CLAIMS):
            bad += len(decode_structs(cls, claims, version, engine=engine).errors)
print(bad)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux: reads /proc")
def test_claims_of_two_billion_elements_allocate_next_to_nothing() -> None:
    # No allocation, touched or not, may be larger than 96 MiB; of the 2^31 elements, each byte would count.
    run = subprocess.run(
        [sys.executable, "-c", LIMITED],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
             "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 1000


@pytest.mark.parametrize("cls", [MetadataResponse, DescribeProducersResponse, TransactionLogValue, ProduceRequest])
@pytest.mark.parametrize("pattern", ["00", "01", "02", "7f", "ff", "ffffffff07", "00000001", "0102", "feffffff07"])
def test_memory_is_in_proportion_to_the_bytes(cls: type[Message], pattern: str) -> None:
    for version in cls.spec.valid_versions:
        data = (bytes.fromhex(pattern) * 4096)[:4096]
        for engine in ENGINES.values():
            decode_structs(cls, [data], version, engine=engine)
            tracemalloc.start()
            try:
                decode_structs(cls, [data] * 4, version, engine=engine)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < 256 * 4 * len(data) + (256 << 10)


def value(topics: int) -> TransactionLogValue:
    parts = tuple(PartitionsSchema(f"topic-{i}", (i, i + 1)) for i in range(topics))
    return TransactionLogValue(producer_id=topics, transaction_partitions=parts)


def test_bad_values_leave_the_others_alone() -> None:
    good = [value(i % 7).encode(1) for i in range(300)]
    mixed: list[bytes | None] = list(good)
    for number in range(0, 300, 3):
        data = bytearray(good[number])
        data[15 + number % 3] = 0xFF
        mixed[number] = bytes(data)
    for number in range(1, 300, 30):
        mixed[number] = good[number][: number % 20]
    rows = check(TransactionLogValue, mixed, 1)
    assert sum(row is None for row in rows) > 100
    whole = check(TransactionLogValue, list(good), 1)
    untouched = [number for number in range(300) if mixed[number] == good[number]]
    assert [rows[number] for number in untouched] == [whole[number] for number in untouched]


def test_every_value_is_bad() -> None:
    rows = check(TransactionLogValue, [b"", b"\0", b"\xff" * 40, value(2).encode(1) + b"\0"], 1)
    assert rows == [None] * 4


def test_an_error_names_its_place() -> None:
    batch = columns.decode(TransactionLogValue, [b"\0\1" + value(3).encode(1)[:26]], "prefix")
    with pytest.raises(kafkawire.errors.DecodeError) as caught:
        TransactionLogValue.decode_prefixed(b"\0\1" + value(3).encode(1)[:26])
    assert batch.column(columns.ERROR).to_pylist() == [str(caught.value)]
    assert "transaction_partitions[0].partition_ids: at byte" in str(caught.value)


@pytest.mark.parametrize(
    ("cls", "version", "text"),
    [
        # Known tags twice, out of order, with a size that is not theirs; unknown ones twice and out of order.
        (TransactionLogValue, 1, "00" * 15 + "01" + "00" * 16 + "02" + "0008" + "01" * 8 + "0008" + "02" * 8),
        (TransactionLogValue, 1, "00" * 15 + "01" + "00" * 16 + "02" + "0108" + "01" * 8 + "0008" + "02" * 8),
        (TransactionLogValue, 1, "00" * 15 + "01" + "00" * 16 + "01" + "0003" + "01" * 8),
        (TransactionLogValue, 1, "00" * 15 + "01" + "00" * 16 + "02" + "0901ff" + "0900"),
        (TransactionLogValue, 1, "00" * 15 + "01" + "00" * 16 + "02" + "0a01ff" + "0900"),
        # A length of five bytes, and one whose bits above 32 are dropped.
        (TransactionLogValue, 1, "00" * 15 + "8180808000" + "00" * 16 + "00"),
        (TransactionLogValue, 1, "00" * 15 + "8180808070" + "00" * 16 + "00"),
        # Null, by a negative length other than -1.
        (TransactionLogValue, 0, "00" * 15 + "fffffff0" + "00" * 16),
        (ApiVersionsRequest, 0, ""),
    ],
)
def test_what_kafka_reads_and_does_not_write(cls: type[Message], version: int, text: str) -> None:
    data = bytes.fromhex(text)
    cls.decode(data, version)
    (row, *_) = check(cls, [data] * 3 + [cls().encode(version)] * 70, version)
    assert row is not None


@pytest.mark.parametrize(
    ("cls", "version", "text"),
    [
        # A tag that other versions have; null in an array, and where no null may be.
        (FetchRequest, 13, "ffffffff 00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01 01 01 00"),
        (ListTransactionsRequest, 0, "02 00 01 00"),
        (ListTransactionsRequest, 0, "00 01 00"),
        (ApiVersionsRequest, 3, "00 01 00"),
        (MetadataRequest, 0, "00000001 ffff"),
        (ApiVersionsRequest, 3, "8080808080 01 01 00"),
    ],
)
def test_what_decode_refuses_no_engine_reads(cls: type[Message], version: int, text: str) -> None:
    data = bytes.fromhex(text)
    rows = check(cls, [data] * 3 + [cls().encode(version)] * 70, version)
    assert rows[:3] == [None] * 3
    assert None not in rows[3:]


def test_large_strings_and_bytes() -> None:
    text = "ü" * 16_383 + "x"
    rows = check(
        TransactionLogValue, [TransactionLogValue(transaction_partitions=(PartitionsSchema(text, ()),)).encode(0)], 0
    )
    assert rows[0]["transaction_partitions"][0]["topic"] == text
    produce = kafkawire.messages.produce_request
    topic = produce.TopicProduceData(partition_data=(produce.PartitionProduceData(records=bytes(range(256)) * 20_000),))
    check(ProduceRequest, [ProduceRequest(topic_data=(topic,)).encode(9)], 9)


def test_many_texts_that_are_no_utf8() -> None:
    parts = tuple(PartitionsSchema(f"\udcff{i}", ()) for i in range(15))
    batch = columns.decode(TransactionLogValue, [TransactionLogValue(transaction_partitions=parts).encode(1)], 1)
    (error,) = batch.column(columns.ERROR).to_pylist()
    assert error.startswith("transaction_partitions[0].topic is no UTF-8: b'\\xff0'; ")
    assert error.endswith("transaction_partitions[9].topic is no UTF-8: b'\\xff9'; and 5 more")
    assert batch.column("transaction_partitions").to_pylist()[0][14]["topic"] == "\ufffd14"


def test_every_sequence_of_bytes_is_replaced_as_python_does() -> None:
    pieces = [b"a", b"\xc3\xbc", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    texts = [first + second + third for first in pieces for second in pieces for third in pieces]
    parts = tuple(PartitionsSchema(raw.decode("utf-8", "surrogateescape"), ()) for raw in texts)
    (row,) = check(TransactionLogValue, [TransactionLogValue(transaction_partitions=parts).encode(1)], 1)
    assert [part["topic"] for part in row["transaction_partitions"]] == [
        raw.decode("utf-8", "replace") for raw in texts
    ]


def test_a_layout_that_only_the_interpreter_may_execute(tmp_path: Any) -> None:
    fields = ",".join(f'{{"name": "F{i}", "type": "int64", "versions": "1+", "ignorable": true}}' for i in range(30))
    (tmp_path / "Wide.json").write_text(
        '{"type": "data", "name": "Wide", "validVersions": "0-1", "flexibleVersions": "none", "fields": ['
        '{"name": "Items", "type": "[]Item", "versions": "0+", "fields": ['
        f'{{"name": "One", "type": "int8", "versions": "0+"}}, {fields}]}}]}}'
    )
    cls = load_schemas(str(tmp_path))["Wide"]
    assert cls.codec.decoders[0] is None
    data = b"\0\0\x00\x05" + b"\7" * 5
    too_many = b"\0\1\x00\x00" + b"\7" * 65536
    rows = check(cls, [data, too_many, None], 0)
    assert rows[0] is not None
    assert rows[1] is None


def producers(count: int, start: int = 0) -> DescribeProducersResponse:
    states = tuple(ProducerState(producer_id=start + i, last_timestamp=-i) for i in range(count))
    partition = PartitionResponse(partition_index=count, active_producers=states)
    return DescribeProducersResponse(topics=(TopicResponse(name="t" * 40, partitions=(partition,)),))


def test_a_bad_value_with_more_elements_than_a_block() -> None:
    # The native engine has taken the first of them into its columns when it finds the end missing.
    good, other = producers(2500).encode(0), producers(1500, 7).encode(0)
    rows = check(DescribeProducersResponse, [good, good[:-1], other, good[:-1], good + b"\0", good], 0)
    assert [row is not None for row in rows] == [True, False, True, False, False, True]


@pytest.mark.parametrize("every", [2, 1000, 1024, 1025])
def test_bad_values_and_fields_that_are_absent_around_blocks(every: int) -> None:
    values = [TransactionLogValue(producer_id=i, next_producer_id=i if i % every == 0 else -1) for i in range(2100)]
    data: list[bytes | None] = [value.encode(1) for value in values]
    for number in range(every - 1, len(data), every):
        data[number] = (data[number] or b"")[:-1]
    rows = check(TransactionLogValue, data, 1)
    assert sum(row is None for row in rows) == len(data) // every


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 34, 500])
def test_strings_around_the_size_that_is_copied_at_once(size: int) -> None:
    # With as many bytes behind them as the copy takes, and with fewer.
    parts = tuple(PartitionsSchema("é" * (size // 2) + "x" * (size % 2), ()) for _ in range(3))
    flexible = TransactionLogValue(transaction_partitions=parts).encode(1)
    rows = check(TransactionLogValue, [flexible, flexible[:-18], flexible], 1)
    assert [row is None for row in rows] == [False, True, False]
    request = ApiVersionsRequest(client_software_name="n" * size, client_software_version="v" * size).encode(3)
    check(ApiVersionsRequest, [request, request[:-2], request], 3)

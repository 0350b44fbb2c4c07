"""Reading bytes that another thread writes to: values, damage or a RecordError, whatever is met."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from kafkawire.errors import RecordError
from kafkawire.records import CODECS, Batch, Damage, Header, Memory, Record, build, columns, find_batch, read
from kafkawire.records.columns import Batches, Records
from tests.records.record_bytes import message
from tests.records.record_engines import ENGINES

#: As many times each reader reads.
_READS = 40


def modern() -> bytes:
    records = [Record(key=b"k", value=b"v" * 30, headers=(Header("h", b"x"),))] * 10
    return b"".join(build(records, base_offset=10 * n, codec=CODECS[n % 5] if n % 2 else "none") for n in range(30))


def legacy() -> bytes:
    def batch(magic: int, base: int, codec: str) -> bytes:
        time = 5 if magic else -1
        listed = [Record(value=b"x" * 20, timestamp=time, offset=base + n) for n in range(2)]
        return build(listed, base_offset=base, magic=magic, codec=codec)

    return b"".join(batch(n % 2, 2 * n, "gzip" if n % 3 else "none") for n in range(40))


DATA = {"legacy": legacy(), "modern": modern()}


@pytest.fixture(params=DATA)
def written(request: pytest.FixtureRequest) -> Iterator[bytearray]:
    """A buffer that a thread writes to, and sets right again, for as long as the test runs."""
    whole = DATA[request.param]
    buffer, done = bytearray(whole), threading.Event()

    def write() -> None:
        random = Random(1)
        while not done.is_set():
            for _ in range(20):
                buffer[random.randrange(len(buffer))] = random.randrange(256)
            if random.random() < 0.3:
                buffer[:] = whole

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=write)
    thread.start()
    yield buffer
    done.set()
    thread.join()
    sys.setswitchinterval(interval)


def look_into(item: Batch | Batches | Records | Damage) -> None:
    if isinstance(item, Records):
        item.to_arrow()
    elif not isinstance(item, Batches):
        for look in (lambda: list(item.records), lambda: item.control):
            with suppress(RecordError):
                look()
    if isinstance(item, Batch):
        item.measured()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("check_crc", [True, False])
def test_columns_of_a_buffer_that_is_written_to(
    written: bytearray, engine: Any, check_crc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(columns, "engine", engine)
    for _ in range(_READS):
        for item in columns.read(written, check_crc=check_crc):
            look_into(item)


@pytest.mark.slow
@pytest.mark.parametrize("check_crc", [True, False])
def test_batches_of_a_buffer_that_is_written_to(written: bytearray, check_crc: bool) -> None:
    for _ in range(_READS):
        for item in read(written, check_crc=check_crc):
            look_into(item)
        find_batch(written)


# Without threads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("readers", [read, columns.batches, columns.read])
def test_a_buffer_that_may_change_and_does_not_is_read_as_bytes_are(data: bytes, readers: Callable[..., Any]) -> None:
    def brief(found: Any) -> list[Any]:
        return [item.position if isinstance(item, (Batch, Damage)) else len(item) for item in found]

    expected = brief(readers(data))
    assert brief(readers(bytearray(data))) == expected
    assert brief(readers(memoryview(bytearray(data)).toreadonly())) == expected


class Changing(Memory):
    """Bytes of which one is another each time that they are looked at."""

    def __init__(self, data: bytes, place: int) -> None:
        super().__init__(bytearray(data))
        self.place = place

    def at(self, position: int, length: int) -> memoryview:
        found = bytearray(super().at(position, length))
        self._view[self.place] ^= 0x40
        return memoryview(bytes(found))


@pytest.mark.parametrize("data", [message(0, b"v"), message(1, b"v"), build([Record(value=b"v")])], ids=["0", "1", "2"])
@pytest.mark.parametrize("check_crc", [True, False])
def test_a_header_that_changes_between_two_looks_is_damage(data: bytes, check_crc: bool) -> None:
    """Its fields and its bytes would not be of one batch."""
    for place in (0, 16, 17):
        (damage,) = read(Changing(data, place), check_crc=check_crc)
        assert isinstance(damage, Damage)
        assert (damage.position, damage.reason) == (0, "bad_header"), place
        assert damage.detail == "the bytes changed while they were read"

"""Log directories that several tests read."""

from __future__ import annotations

import struct
from pathlib import Path

import crc32c
import pytest

from kafkawire.messages import AbortedTxn, TransactionLogKey, TransactionLogValue
from kafkawire.records import Header, Record, build, build_marker
from tests.logdir.logged import NAME, write


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two brokers' log directories in one folder, with a name that could be a partition's."""
    orders = build(
        [Record(b"k", b"v", (Header("h", b"\xff"),), timestamp=1000), Record(b"\xfe", None, timestamp=1001)],
        producer_id=4001,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    abort = build_marker("ABORT", offset=2, timestamp=2000, producer_id=4001, producer_epoch=0, coordinator_epoch=7)
    state = build(
        [
            Record(
                TransactionLogKey(transactional_id="t").encode_prefixed(version=0),
                TransactionLogValue(producer_id=4001).encode_prefixed(version=1),
            ),
            Record(TransactionLogKey(transactional_id="gone").encode_prefixed(version=0), None),
        ]
    )
    producers = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 4001, 0, 1, 1, 1, 1001, -1, 0)
    root = tmp_path / "brokers-0"
    for broker in ("broker-1", "broker-2"):
        home = root / broker
        write(home / "meta.properties", f"#\nversion=1\nnode.id={broker[-1]}\ncluster.id=c\n")
        write(home / "replication-offset-checkpoint", "0\n2\norders-v-2 0 3\n__transaction_state 0 2\n")
        write(home / "log-start-offset-checkpoint", "0\n1\norders-v-2 0 1\n")
        write(home / ".lock", "")
        write(home / "orders-v-2-0" / f"{NAME}.log", orders + abort)
        aborted = AbortedTxn(producer_id=4001, first_offset=0, last_offset=2, last_stable_offset=3)
        write(home / "orders-v-2-0" / f"{NAME}.txnindex", aborted.encode_prefixed(version=0))
        write(home / "orders-v-2-0" / f"{NAME}.index", bytes(80))
        write(
            home / "orders-v-2-0" / "00000000000000000002.snapshot",
            struct.pack(">hI", 1, crc32c.crc32c(producers)) + producers,
        )
        write(home / "orders-v-2-0" / "00000000000000000003.log", build([Record(b"x")], base_offset=3))
        write(home / "orders-v-2-0" / "00000000000000000009.log.deleted", build([], base_offset=9, last_offset=9))
        write(home / "orders-v-2-0" / "leader-epoch-checkpoint", "0\n1\n0 0\n")
        write(home / "orders-v-2-0" / "partition.metadata", "version: 0\ntopic_id: abc\n")
        write(home / "orders-v-2-0" / "notes.txt", "mine")
        write(home / "__transaction_state-0" / f"{NAME}.log", state)
    return root


SEGMENTS = 4


PER_SEGMENT = 20  # batches of 5 offsets, the last record of each compacted away


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four segments with indexes; timestamps grow, but for one batch in each that is late by far."""
    folder = tmp_path_factory.mktemp("selection") / "t-0"
    folder.mkdir()
    offset = 0
    for segment in range(SEGMENTS):
        unused = segment == SEGMENTS - 1  # a broker cuts indexes when it rolls a segment
        base, position, newest = offset, 0, -1
        log, index, times = b"", b"", b""
        for number in range(PER_SEGMENT):
            producer = number % 3
            time = 1_000 + offset * 10 if number != 7 else 50
            if number % 10 == 9:
                batch = build_marker(
                    "COMMIT", offset=offset, timestamp=time, producer_id=producer, producer_epoch=0, coordinator_epoch=0
                )
                last = offset
            else:
                listed = [Record(b"key%d" % (i % 2), b"v", offset=offset + i, timestamp=time + i) for i in range(4)]
                batch = build(
                    listed, base_offset=offset, last_offset=offset + 4, producer_id=producer, producer_epoch=0
                )
                last = offset + 4
            if number % 4 == 3:
                index += struct.pack(">ii", last - base, position)
            if time > newest and number % 5 == 4:
                newest = time + (0 if number % 10 == 9 else 3)
                times += struct.pack(">qi", newest, last - base)
            log += batch
            position += len(batch)
            offset = last + 1
        (folder / f"{base:020}.log").write_bytes(log)
        (folder / f"{base:020}.index").write_bytes(index + bytes(80 * unused))
        (folder / f"{base:020}.timeindex").write_bytes(times + bytes(120 * unused))
    return folder

"""Batches of `__transaction_state` that the engine takes as they lie in the log count as those that become columns."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, records
from kafkawire.logdir.file_source import FileSource
from kafkawire.logdir.splits import ranges
from kafkawire.messages import TransactionLogKey
from kafkawire.transactions.auditing import id_history
from kafkawire.transactions.auditing.id_history import EngineIdHistory
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, replica_facts
from kafkawire.transactions.facts import TRANSACTION_STATE, Place
from kafkawire.transactions.parts import producer_walk
from kafkawire.transactions.parts.segment_scan import PartScan, read_part
from kafkawire.wire.backend import native
from tests.references.sequential_replay import comparable_ids, in_any_order
from tests.transactions.test_id_columns import logs

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is absent")

RECORD = records.Record(b"key", b"value", timestamp=1700)
OVER = records.build([RECORD, RECORD], base_offset=2**63 - 1)
#: What is no batch that is walked over: of a producer, its marker, another control batch; offsets after which there are
#: none, or that pass the largest one; bytes that are no batch.
OTHERS = st.sampled_from(
    [
        records.build([RECORD], base_offset=30, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        records.build_marker("COMMIT", producer_id=7, producer_epoch=0, coordinator_epoch=1, offset=31, timestamp=1800),
        records.build([RECORD], base_offset=40, producer_id=7, producer_epoch=0, base_sequence=0, codec="gzip"),
        records.build([RECORD], base_offset=2**63 - 1),
        OVER,
        bytes(11),
        b"",
    ]
)


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """Logs one after the other, whose offsets go back, with others in between and bytes that were overwritten."""
    data = b"".join(draw(logs()) + draw(OTHERS) for _ in range(draw(st.integers(1, 3))))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
    return data[: draw(st.integers(len(data) // 2, len(data)))] if draw(st.booleans()) else data


def comparable(found: ReplicaFacts) -> tuple[object, ...]:
    of_ids = None if found.ids is None else comparable_ids(found.ids)
    endings = [chunk.tolist() for chunk in found.endings.chunks]
    answers = [(one.place, one.path, in_any_order(one.answer)) for one in found.answers]
    return found.partition, found.opens, answers, endings, found.producers, of_ids, found.damage, found.digests


@given(segments())
def test_an_audited_replica_is_that_of_the_reference(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        folder = Path(root) / f"{TRANSACTION_STATE}-0"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(data)
        (partition,) = logdir.open(root).partitions
        found = comparable(replica_facts(AuditedReplica(partition)))
        patch.setattr(id_history, "ENGINE", False)
        assert comparable(replica_facts(AuditedReplica(partition))) == found


@given(segments(), st.integers(1, 3000), st.integers(1, 3000), st.booleans())
def test_chunks_and_windows_join(data: bytes, chunk: int, window: int, is_local: bool) -> None:
    """Of a file that the engine reads itself, and of another store's."""
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        folder = Path(root) / f"{TRANSACTION_STATE}-0"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(data)
        (partition,) = logdir.open(root).partitions
        expected = comparable(replica_facts(AuditedReplica(partition)))
        patch.setattr(producer_walk, "CHUNK", chunk)
        for name in ("AT_ONCE", "WINDOW"):
            patch.setattr(producer_walk, name, window)
        if not is_local:
            patch.setattr(FileSource, "descriptor", None)
        assert comparable(replica_facts(AuditedReplica(partition))) == expected


@given(segments(), st.integers(100, 400))
def test_parts_count_what_is_walked_over(data: bytes, size: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / f"{TRANSACTION_STATE}-0"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(data)
        (file,) = logdir.open(root).partitions[0].segments
        seen: list[int] = []
        counted = 0
        for start, end in ranges(file, size):
            *_, expected = read_part(file, None, start=start, end=end)
            history = EngineIdHistory(Place("logs", TRANSACTION_STATE, 0))
            *_, found = read_part(file, None, start=start, end=end, seen=seen.append, records=history)
            assert isinstance(found, PartScan)
            assert found == expected
            counted += found.bytes
        assert sum(seen) == counted


def test_batches_of_coordinators_become_no_columns() -> None:
    key = TransactionLogKey(transactional_id="a").encode_prefixed(version=0)
    batches = [
        records.build([records.Record(key, None, timestamp=1000 + at)], base_offset=at, partition_leader_epoch=at // 3)
        for at in (0, 1, 2, 5, 6)
    ]
    data, history = b"".join(batches), EngineIdHistory(Place("logs", TRANSACTION_STATE, 0))
    found = history.walk(np.frombuffer(data + b"more", np.uint8), None, 1 << 20)
    assert (found.size, found.batches, found.leader_epoch) == (len(data), 5, 2)
    assert (found.leader_time, found.newest) == (1006, 1006)
    assert (found.bases.tolist(), found.ends.tolist()) == ([0, 5], [3, 7])
    assert history.walk(np.frombuffer(data, np.uint8), 7, 1 << 20).batches == 0
    assert history.walk(np.frombuffer(data, np.uint8), None, len(batches[0]) - 13).batches == 0

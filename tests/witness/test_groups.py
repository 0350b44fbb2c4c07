"""Committed offsets, judged by the groups' log and by what the group was given."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture, logdir
from kafkawire.messages import (
    EndTxnRequest,
    EndTxnResponse,
    FetchRequest,
    FetchResponse,
    MetadataResponse,
    OffsetCommitKey,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitValue,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    offset_commit_request,
    offset_commit_response,
    offset_fetch_request,
    offset_fetch_response,
    txn_offset_commit_request,
    txn_offset_commit_response,
)
from kafkawire.messages.fetch_request import FetchPartition, FetchTopic
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.metadata_request import MetadataRequest
from kafkawire.records import Batch, Record, build, read
from kafkawire.rows import CommitAnomaly, CommitTotal, WitnessSummary
from kafkawire.witness import Witness
from tests.audit_logs import LogDirectory
from tests.capture.wiretap import Conversation, ethernet, pcap

GROUP, TOPIC = "readers", "t"
OFFSETS = "__consumer_offsets"
PRODUCER, EPOCH = 1000, 4


class Scene:
    """A consumer without fetch sessions on one connection, ten batches of one record, and the group's log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs = LogDirectory(root, ids=1)
        self.log = self.logs.partition(TOPIC)
        for _ in range(10):
            self.log.plain()
        self.group_log = self.logs.partition(OFFSETS)
        self.talk = Conversation()
        self.number = 0

    def exchange(self, request: Any, response: Any, version: int, *, seen: bool = True) -> None:
        self.number += 1
        kept = len(self.talk.packets)
        self.talk.request(request, version=version, correlation_id=self.number)
        self.talk.response(response, version=version, correlation_id=self.number)
        if not seen:
            del self.talk.packets[kept:]

    def cluster(self) -> None:
        self.exchange(MetadataRequest(), MetadataResponse(cluster_id="test"), 9)

    def starts_at(self, offset: int) -> None:
        asked = offset_fetch_request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,))
        part = offset_fetch_response.OffsetFetchResponsePartition(partition_index=0, committed_offset=offset)
        topic = offset_fetch_response.OffsetFetchResponseTopic(name=TOPIC, partitions=(part,))
        request = OffsetFetchRequest(group_id=GROUP, topics=(asked,))
        self.exchange(request, OffsetFetchResponse(topics=(topic,)), 5)

    def fetch(self, offset: int, end: int | None = None, *, seen: bool = True) -> None:
        """Fetches from an offset; the response has the batches up to `end`."""
        batches = [item for item in read(bytes(self.log.segments[-1][1])) if isinstance(item, Batch)]
        data = b"".join(bytes(one.data) for one in batches if offset <= one.base_offset < (end or offset))
        asked = FetchPartition(partition=0, fetch_offset=offset)
        request = FetchRequest(session_epoch=-1, topics=(FetchTopic(topic=TOPIC, partitions=(asked,)),))
        part = PartitionData(high_watermark=10, last_stable_offset=10, records=data)
        response = FetchResponse(responses=(FetchableTopicResponse(topic=TOPIC, partitions=(part,)),))
        self.exchange(request, response, 11, seen=seen)

    def commit(self, offset: int, *, error: int = 0, held: bool = True) -> None:
        part = offset_commit_request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = offset_commit_request.OffsetCommitRequestTopic(name=TOPIC, partitions=(part,))
        answer = offset_commit_response.OffsetCommitResponsePartition(partition_index=0, error_code=error)
        answered = offset_commit_response.OffsetCommitResponseTopic(name=TOPIC, partitions=(answer,))
        request = OffsetCommitRequest(group_id=GROUP, topics=(topic,))
        self.exchange(request, OffsetCommitResponse(topics=(answered,)), 7)
        if held:
            self.record(offset)

    def record(self, offset: int, *, transactional: bool = False) -> None:
        key = b"\0\1" + OffsetCommitKey(group=GROUP, topic=TOPIC, partition=0).encode(version=0)
        value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0).encode_prefixed(version=3)
        data = build(
            [Record(key, value)],
            base_offset=self.group_log.end,
            producer_id=PRODUCER if transactional else -1,
            producer_epoch=EPOCH if transactional else -1,
            base_sequence=0 if transactional else -1,
            transactional=transactional,
        )
        self.group_log._append(data, 1)

    def commit_in_transaction(self, offset: int, *, told: bool, marker: str) -> None:
        part = txn_offset_commit_request.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = txn_offset_commit_request.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(part,))
        answer = txn_offset_commit_response.TxnOffsetCommitResponsePartition(partition_index=0)
        answered = txn_offset_commit_response.TxnOffsetCommitResponseTopic(name=TOPIC, partitions=(answer,))
        ids = {"transactional_id": "id", "producer_id": PRODUCER, "producer_epoch": EPOCH}
        request = TxnOffsetCommitRequest(group_id=GROUP, topics=(topic,), **ids)
        self.exchange(request, TxnOffsetCommitResponse(topics=(answered,)), 3)
        self.exchange(EndTxnRequest(committed=told, **ids), EndTxnResponse(), 5)
        self.record(offset, transactional=True)
        self.group_log.marker(marker, PRODUCER, EPOCH + 1)

    def judged(
        self, *, cut: bool = False, damage: int | None = None
    ) -> tuple[WitnessSummary, dict[tuple[str, str, str | None], int], list[CommitAnomaly]]:
        for topic, log in ((TOPIC, self.log), (OFFSETS, self.group_log)):
            self.logs.high_watermark(topic, 0, log.end)
        written = self.log.segments[-1][1]
        batches = [item for item in read(bytes(written)) if isinstance(item, Batch)]
        if cut:
            del written[batches[6].position :]
        if damage is not None:
            written[batches[damage].position + 17] ^= 1
        witness = Witness(logdir.open(self.logs.write()))
        for exchange in capture.read(BytesIO(pcap(map(ethernet, self.talk.packets))), keep=True).matched():
            witness.add(exchange)
        summary, *others = witness.rows()
        assert isinstance(summary, WitnessSummary)
        totals = [row for row in others if isinstance(row, CommitTotal)]
        anomalies = [row for row in others if isinstance(row, CommitAnomaly)]
        assert summary.commits == sum(row.commits for row in totals)
        assert summary.commit_anomalies == len(anomalies)
        return summary, {(row.commit, row.delivery, row.reason): row.commits for row in totals}, anomalies


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path / "logs")
    made.cluster()
    return made


def test_what_was_given_and_is_held(scene: Scene) -> None:
    scene.starts_at(-1)
    scene.fetch(0, 4)
    scene.commit(4)
    scene.fetch(4, 10)
    scene.commit(10)
    summary, totals, anomalies = scene.judged()
    assert totals == {("held", "delivered", None): 2}
    assert (summary.commit_unknown, anomalies) == (0, [])


def test_records_that_the_copy_lacks_may_not_have_been_given(scene: Scene) -> None:
    """The log was copied before the checkpoint of its high watermark: it ends at 6."""
    scene.starts_at(-1)
    scene.fetch(0, 4)
    scene.commit(4)
    scene.fetch(4, 6)
    scene.commit(10)
    _, totals, anomalies = scene.judged(cut=True)
    assert totals == {("held", "delivered", None): 1, ("held", "unknown", "copy_older"): 1}
    assert not anomalies


def test_records_that_cannot_be_read_may_not_have_been_given(scene: Scene) -> None:
    """Offset 5 is damaged."""
    scene.starts_at(-1)
    scene.fetch(0, 4)
    scene.commit(4)
    scene.fetch(4, 5)
    scene.fetch(6, 10)
    scene.commit(10)
    _, totals, anomalies = scene.judged(damage=5)
    assert totals == {("held", "delivered", None): 1, ("held", "unknown", "unreadable"): 1}
    assert not anomalies


def test_an_offset_past_the_position_is_named(scene: Scene) -> None:
    """The consumer commits 8, and then asks for 4."""
    scene.starts_at(-1)
    scene.fetch(0, 4)
    scene.commit(8)
    scene.fetch(4, 6)
    _, totals, (found,) = scene.judged()
    assert totals == {("held", "undelivered", None): 1}
    assert (found.name, found.group, found.offset, found.first_offset) == ("undelivered", GROUP, 8, 4)
    assert found.log is not None
    assert found.packet is not None


def test_a_gap_in_what_a_group_was_given_is_named(scene: Scene) -> None:
    scene.starts_at(0)
    scene.fetch(0, 4)
    scene.fetch(6, 10)
    scene.commit(10)
    _, totals, (found,) = scene.judged()
    assert totals == {("held", "undelivered", None): 1}
    assert (found.name, found.first_offset, found.last_offset) == ("gap", 4, 4)


@pytest.mark.parametrize("start", [None, -1])
def test_a_fetch_that_was_not_captured_proves_nothing(scene: Scene, start: int | None) -> None:
    if start is not None:
        scene.starts_at(start)
    scene.fetch(0, 4)
    scene.fetch(4, 6, seen=False)
    scene.fetch(6, 10)
    scene.commit(10)
    _, totals, anomalies = scene.judged()
    assert totals == {("held", "unknown", "fetch_not_captured"): 1}
    assert not anomalies


def test_without_the_start_nothing_is_proven(scene: Scene) -> None:
    """What the client was given before the capture began is not known."""
    scene.fetch(0, 4)
    scene.fetch(6, 10)
    scene.commit(10)
    _, totals, anomalies = scene.judged()
    assert totals == {("held", "unknown", "fetch_not_captured"): 1}
    assert not anomalies


def test_a_commit_with_an_error_promises_nothing(scene: Scene) -> None:
    scene.commit(4, error=25, held=False)
    summary, totals, _ = scene.judged()
    assert (summary.commits, totals) == (0, {})


def test_a_commit_that_the_groups_log_lacks_is_lost(scene: Scene) -> None:
    scene.starts_at(0)
    scene.fetch(0, 10)
    scene.commit(4, held=False)
    scene.commit(10)
    _, totals, (found,) = scene.judged()
    assert totals == {("lost", "delivered", None): 1, ("held", "delivered", None): 1}
    assert (found.name, found.offset) == ("lost", 4)


def test_the_last_commit_may_be_newer_than_the_copy(scene: Scene) -> None:
    scene.starts_at(0)
    scene.fetch(0, 10)
    scene.commit(4)
    scene.commit(10, held=False)
    _, totals, anomalies = scene.judged()
    assert totals == {("held", "delivered", None): 1, ("unknown", "delivered", "not_in_group_log"): 1}
    assert not anomalies


@pytest.mark.parametrize(
    ("told", "marker", "name"),
    [
        (True, "COMMIT", None),
        (False, "ABORT", None),
        (True, "ABORT", "aborted_though_committed"),
        (False, "COMMIT", "committed_though_aborted"),
    ],
)
def test_offsets_of_transactions(scene: Scene, told: bool, marker: str, name: str | None) -> None:
    scene.starts_at(0)
    scene.fetch(0, 10)
    scene.commit_in_transaction(6, told=told, marker=marker)
    _, totals, anomalies = scene.judged()
    assert totals == {("held" if marker == "COMMIT" else "aborted", "delivered", None): 1}
    assert [row.name for row in anomalies] == ([] if name is None else [name])


def test_an_offset_of_an_aborted_transaction_that_a_consumer_is_given(scene: Scene) -> None:
    scene.starts_at(0)
    scene.fetch(0, 10)
    scene.commit_in_transaction(6, told=False, marker="ABORT")
    scene.starts_at(6)
    _, _, (found,) = scene.judged()
    assert (found.name, found.offset, found.record_offset) == ("aborted_offset_read", 6, 0)


def test_compaction_replaces_what_was_committed_before(scene: Scene) -> None:
    scene.starts_at(0)
    scene.fetch(0, 10)
    scene.commit(4, held=False)
    scene.group_log.skip(1)
    scene.commit(10)
    scene.logs.checkpoint("cleaner-offset-checkpoint", OFFSETS, 0, 1)
    _, totals, anomalies = scene.judged()
    assert totals == {("superseded", "delivered", None): 1, ("held", "delivered", None): 1}
    assert not anomalies

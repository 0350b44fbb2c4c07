"""Journals of an audit over the wire: what is no journal is refused, and stays as it is."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kafkawire.client import ClientError, TopicPartition
from kafkawire.client.diagnosis import reading_journal
from kafkawire.client.diagnosis.reading_journal import Journal
from kafkawire.client.results import PartitionInfo
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.part_scan import PartScan

ORDERS = TopicPartition("orders", 0)


def now(topic_id: int | None = 7, leader_epoch: int = 3) -> dict[TopicPartition, PartitionInfo]:
    """The partition in the cluster's metadata."""
    known = None if topic_id is None else UUID(int=topic_id)
    return {ORDERS: PartitionInfo(ORDERS, 1, leader_epoch, (1,), topic_id=known)}


@pytest.mark.parametrize(
    "content",
    [b"hello", b"hello\n", b"{}\n", b'{"format":1', b"\0" * 10_000, b'{"cluster":"a"}\n', b'{"cluster":"\xff"}\n'],
)
def test_a_file_that_is_no_journal_is_refused_and_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ClientError, match="no journal of an audit"):
        Journal(str(path), "cluster", None)
    assert path.read_bytes() == content


def test_a_line_that_was_cut_off_is_dropped_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for _ in range(2):
        with Journal(str(path), "cluster", 0, now()) as journal:
            journal.add(ORDERS, 5, 9, None)
        with path.open("ab") as file:
            file.write(b'{"topic":"ord')
    with Journal(str(path), "cluster", 0, now()) as journal:
        assert (journal.first(ORDERS, default=9), journal.known(ORDERS, 5)) == (5, None)
    assert path.read_bytes().endswith(b"}\n")
    with pytest.raises(ClientError, match="of another cluster"):
        Journal(str(path), "other", 0)


def test_a_damaged_line_is_refused(tmp_path: Path) -> None:
    """A changed piece could be that of other batches: it is not read."""
    path = tmp_path / "journal"
    with Journal(str(path), "cluster", 0, now()) as journal:
        journal.add(ORDERS, 5, 9, PartColumns(start=0, end=70, scan=PartScan(first_offset=5)))
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    for place in range(start, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ClientError, match=f"at byte {start}: "):
            Journal(str(path), "cluster", 0)
    path.write_bytes(whole)
    with Journal(str(path), "cluster", 0, now()) as journal:
        known = journal.known(ORDERS, 5)
    assert known is not None
    assert (known[0].scan.first_offset, known[1]) == (5, 9)


def test_a_journal_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its summaries may lack the answers of newer rules."""
    path = tmp_path / "journal"
    with monkeypatch.context() as patched:
        patched.setattr(reading_journal, "__version__", "0.0.1")
        Journal(str(path), "cluster", 0).__exit__()
    with pytest.raises(ClientError, match="version of kafkawire"):
        Journal(str(path), "cluster", 0)


def test_a_piece_of_a_log_without_topic_id_does_not_count_again(tmp_path: Path) -> None:
    """Brokers below 2.8 send none: it may have been created again."""
    path = tmp_path / "journal"
    for _ in range(2):
        with Journal(str(path), "cluster", 0, now(topic_id=None)) as journal:
            assert (journal.first(ORDERS, default=9), journal.known(ORDERS, 5)) == (9, None)
            journal.add(ORDERS, 5, 8, PartColumns(start=0, end=70, scan=PartScan(first_offset=5)))


@pytest.mark.parametrize(
    "later",
    [now(topic_id=8), now(leader_epoch=4), now(topic_id=None), now(leader_epoch=-1), {}],
    ids=["created again", "leader changed", "no topic id", "no leader epoch", "gone"],
)
def test_a_piece_counts_for_the_log_that_it_was_read_from(
    tmp_path: Path, later: dict[TopicPartition, PartitionInfo]
) -> None:
    """A topic that was created again has another log; a new leader may have truncated its own."""
    path = tmp_path / "journal"
    piece = PartColumns(start=0, end=70, scan=PartScan(first_offset=5))
    with Journal(str(path), "cluster", 0, now()) as journal:
        journal.add(ORDERS, 5, 9, piece)
    with Journal(str(path), "cluster", 0, later) as journal:
        assert (journal.first(ORDERS, default=9), journal.known(ORDERS, 5)) == (9, None)
        journal.add(ORDERS, 5, 8, piece)
    with Journal(str(path), "cluster", 0, now()) as journal:
        known = journal.known(ORDERS, 5)
    assert known is not None
    assert known[1] == 9

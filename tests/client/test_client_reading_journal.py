"""Journals of an audit over the wire: what is no journal is refused, and stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.client import ClientError, TopicPartition
from kafkawire.client.diagnosis.reading_journal import Journal

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    "content", [b"hello", b"hello\n", b"{}\n", b'{"format":1', b"\0" * 10_000, b'{"cluster":"a"}\n']
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
        with Journal(str(path), "cluster", 0) as journal:
            journal.add(ORDERS, 5, 9, None)
        with path.open("ab") as file:
            file.write(b'{"topic":"ord')
    with Journal(str(path), "cluster", 0) as journal:
        assert (journal.first(ORDERS), journal.known(ORDERS, 5)) == (5, None)
    assert path.read_bytes().endswith(b"}\n")
    with pytest.raises(ClientError, match="of another cluster"):
        Journal(str(path), "other", 0)

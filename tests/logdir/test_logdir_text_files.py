"""Checkpoints, properties, JSON: known bytes and damage."""

from __future__ import annotations

import pytest

from kafkawire.logdir import text_files
from kafkawire.logdir.entries import (
    CheckpointLine,
    EpochLine,
    Property,
)
from tests.logdir.logged import reasons


def test_reads_offset_checkpoints() -> None:
    data = b"0\n2\norders 0 17\n__transaction_state 49 3\n"
    assert list(text_files.offset_checkpoint(data)) == [
        CheckpointLine(4, "orders", 0, 17),
        CheckpointLine(16, "__transaction_state", 49, 3),
    ]
    assert list(text_files.offset_checkpoint(b"0\n0\n")) == []


def test_reads_leader_epochs() -> None:
    assert list(text_files.leader_epochs(b"0\n2\n0 0\n5 1234\n")) == [EpochLine(4, 0, 0), EpochLine(8, 5, 1234)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),  # created, not written yet
        (b"\n", [("bad_version", 0)]),
        (b"1\n0\n", [("bad_version", 0)]),
        (b"0\n", [("bad_count", 2)]),
        (b"0\nx\na 0 1\n", [("bad_count", 2)]),
        (b"0\n2\na 0 1\n", [("truncated", 10)]),
        (b"0\n1\na 0\n", [("bad_line", 4)]),
        (b"0\n2\na x 1\na 0 1\n", [("bad_line", 4)]),
        (b"0\n1\na 0 1_0\n", [("bad_line", 4)]),
        (b"0\n1\na 0 " + b"9" * 5000, [("bad_line", 4)]),
        (b"0\n1\n\xff\xfe\0\n", [("bad_line", 4)]),
    ],
)
def test_damaged_checkpoints_have_damage_with_its_place(data: bytes, expected: list[tuple[str, int]]) -> None:
    assert reasons(text_files.offset_checkpoint(data)) == expected


def test_reads_properties() -> None:
    data = b"#\n#Fri Nov 21 09:20:00 UTC 2025\nnode.id=1\ncluster.id=abc\\=def\nversion = 1\n"
    assert [(p.name, p.value) for p in text_files.properties(data) if isinstance(p, Property)] == [
        ("node.id", "1"),
        ("cluster.id", "abc=def"),
        ("version", "1"),
    ]
    assert list(text_files.properties(b"version: 0\ntopic_id: 1r6rU\n")) == [
        Property(0, "version", "0"),
        Property(11, "topic_id", "1r6rU"),
    ]
    assert reasons(text_files.properties(b"a=1\nnonsense\n")) == [("bad_line", 4)]


def test_reads_quorum_state() -> None:
    data = b'{"leaderId":1,"data_version":1,"votedId":-1,"clusterId":"x"}'
    found = {p.name: p.value for p in text_files.json_properties(data) if isinstance(p, Property)}
    assert found == {"leaderId": "1", "data_version": "1", "votedId": "-1", "clusterId": "x"}
    assert list(text_files.json_properties(b"")) == []  # `.kafka_cleanshutdown` before Kafka 3.4
    for bad in (b"[]", b"{", b"[" * 100_000, b"\xff"):
        assert reasons(text_files.json_properties(bad)) == [("bad_json", 0)]


def test_damaged_leader_epochs_have_damage_with_its_place() -> None:
    assert reasons(text_files.leader_epochs(b"0\n2\n0 x\n5 9\n")) == [("bad_line", 4)]
    assert reasons(text_files.leader_epochs(b"0\n3\n4 7\n4 9\n5 8\n")) == [("not_ascending", 8), ("not_ascending", 12)]

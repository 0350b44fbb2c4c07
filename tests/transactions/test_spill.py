"""Ended transactions and decisions that are too many for memory: a file has them, and the answers are the same."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkawire import logdir, transactions
from kafkawire.transactions.auditing import local_audit
from kafkawire.transactions.log import endings
from kafkawire.transactions.log.endings import PACKED, Endings
from kafkawire.transactions.log.spill import GROUPS, Spill, of_group
from kafkawire.transactions.verdict.cluster_facts import Facts
from tests.random_logs import random_partitions
from tests.references.sequential_replay import in_any_order

Patch = Callable[[int], list[tuple[int, int]]]


@pytest.fixture
def most_bytes(monkeypatch: pytest.MonkeyPatch) -> Patch:
    """Sets how many bytes stay in memory. Returns a list that gets the rows of each audit: in a file, and in memory."""
    joined = local_audit.conclude

    def patch(size: int) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []

        def noted(facts: Facts, *given: Any, **named: Any) -> Any:
            kept = [*facts.endings, *(one.decisions for one in facts.histories.values())]
            written = sum(len(block) for one in kept for block in one.blocks)
            seen.append((written, sum(map(len, kept)) - written))
            return joined(facts, *given, **named)

        monkeypatch.setattr(local_audit, "conclude", noted)
        monkeypatch.setattr(local_audit, "Spill", lambda: Spill(size))
        monkeypatch.setattr(endings, "_BLOCK_BYTES", 100)
        return seen

    return patch


def rows(drawn: random.Random, count: int) -> Any:
    found = np.zeros(count, PACKED)
    found["producer_id"] = [drawn.choice([0, 1, 63, 64, 65, 4000, 1 << 62]) for _ in range(count)]
    found["offset"] = range(count)
    return found


def test_each_group_has_the_rows_of_its_producer_ids_in_their_order() -> None:
    drawn, place = random.Random(1), transactions.Place("logs", "orders", 0)
    with Spill(0) as spill:
        kept = Endings(place, spill=spill)
        chunks = [rows(drawn, count) for count in (5, 200, 1, 40, 30)]
        for chunk in chunks:
            kept.put_out()
            kept.add(chunk)
        assert (len(kept.blocks), len(kept.chunks)) == (4, 1)
        assert len(kept) == sum(map(len, chunks))
        found = [of_group(kept.chunks, kept.blocks, number) for number in range(GROUPS)]
    for number, pieces in enumerate(found):
        expected = [row[:7] for chunk in chunks for row in chunk.tolist() if row[0] % GROUPS == number]
        assert [row for piece in pieces for row in piece.tolist()] == expected
    assert spill.is_used


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 2000])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_an_audit_answers_the_same(tmp_path: Path, seed: int, jobs: int, size: int, most_bytes: Patch) -> None:
    random_partitions(random.Random(seed), tmp_path / "logs", seed)
    directory = logdir.open(tmp_path / "logs")
    whole = transactions.audit(directory)
    seen = most_bytes(size)
    assert comparable(transactions.audit(directory, jobs=jobs)) == comparable(whole)
    ((written, in_memory),) = seen
    assert written
    assert not in_memory


@pytest.mark.slow
def test_where_the_file_cannot_be_written_rows_stay_in_memory(
    tmp_path: Path, most_bytes: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its second block on: what was written before is read again."""
    random_partitions(random.Random(1), tmp_path / "logs", 1)
    directory = logdir.open(tmp_path / "logs")
    whole = comparable(transactions.audit(directory))
    made = tempfile.TemporaryFile

    def small(**given: Any) -> Any:
        file = made(**given)
        written = []

        class Full:
            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

            def write(self, data: bytes) -> int:
                written.append(len(data))
                if len(written) > 1:
                    raise OSError(28, "No space left on device")
                return file.write(data)

        return Full()

    monkeypatch.setattr(tempfile, "TemporaryFile", small)
    seen = most_bytes(0)
    assert comparable(transactions.audit(directory)) == whole
    ((written, in_memory),) = seen
    assert written
    assert in_memory


def comparable(audit: Any) -> Any:
    return audit.violations, audit.findings, audit.damage, [in_any_order(one) for one in audit.answers]

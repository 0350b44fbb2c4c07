"""What the checks of a partition look at stays in a span. That the facts are the same whether ended transactions are
apart or not: `test_part_summary`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.messages import AbortedTxn
from kafkawire.transactions.answers import TXNINDEX_EQUALS_LOG
from kafkawire.transactions.part_scan import summarize_range
from kafkawire.transactions.part_summary import PartSummary
from kafkawire.transactions.replica_facts import AuditedReplica, ReplicaMerge
from kafkawire.transactions.span_split import split
from tests.audit_logs import LogDirectory


def first_half_and_whole(tmp_path: Path, high_watermark: int | None = None) -> tuple[AuditedReplica, list[PartSummary]]:
    """A log of 200 transactions of two producers, the hundredth of which is aborted, in two parts."""
    logs = LogDirectory(tmp_path / "logs", ids=0)
    log = logs.partition("orders")
    for number in range(200):
        if number == 110:
            cut = len(log.segments[0][1])
        log.data(1 + number % 2)
        log.marker("ABORT" if number == 100 else "COMMIT", 1 + number % 2)
    if high_watermark is not None:
        logs.high_watermark("orders", 0, high_watermark)
    (partition,) = logdir.open(logs.write()).partitions
    (file,) = partition.segments
    return AuditedReplica(partition), [summarize_range(file, 0, cut), summarize_range(file, cut)]


def test_few_of_many_ended_transactions_stay(tmp_path: Path) -> None:
    _, (first, _) = first_half_and_whole(tmp_path)
    few, (ended,) = split(first)
    assert len(ended) > 100
    kept = len(few.spans[0].endings) // ended.dtype.itemsize
    # The aborted one, and the next ones of both producers behind it and behind the beginning.
    assert kept == 5
    assert few.spans[0].intact == first.spans[0].intact


@pytest.mark.parametrize("open_", [True, False])
def test_the_index_of_aborted_transactions_is_judged_as_that_of_the_whole_log(tmp_path: Path, open_: bool) -> None:
    """An entry's last stable offset is where a transaction begins that is open when the marker comes, or, as a follower
    may have it, the first that another producer begins behind the marker. All are in the leaps of a part."""
    logs = LogDirectory(tmp_path / "logs", ids=0)
    log = logs.partition("orders")
    for number in range(40):
        log.data(1 + number % 2)
        log.marker("COMMIT", 1 + number % 2)
    if open_:
        stable = log.end
        log.data(2)
    first = log.end
    log.data(1)
    marker = log.end
    log.marker("ABORT", 1)
    if open_:
        log.marker("COMMIT", 2)
    log.data(1)
    log.marker("COMMIT", 1)
    if not open_:
        stable = log.end
    for _ in range(20):
        log.data(2)
        log.marker("COMMIT", 2)
    (partition,) = logdir.open(logs.write()).partitions
    entry = AbortedTxn(producer_id=1, first_offset=first, last_offset=marker, last_stable_offset=stable)
    Path(partition.path, f"{0:020}.txnindex").write_bytes(entry.encode_prefixed(version=0))
    (partition,) = logdir.open(logs.root).partitions
    (few, ended), merge = split(summarize_range(partition.segments[0])), ReplicaMerge(AuditedReplica(partition))
    assert {marker, first, stable} <= {one for row in ended[0].tolist() for one in (row[1], row[3])}
    assert merge.take(0, few, apart=True) == 1
    (answer,) = (one.answer for one in merge.facts().answers if one.answer.check == TXNINDEX_EQUALS_LOG)
    assert (answer.held, answer.violated) == (1, 0)


def test_a_high_watermark_is_seen_where_it_is_in_the_part_or_below(tmp_path: Path) -> None:
    for number, (offset, seen) in enumerate([(0, [True, True]), (219, [True, True]), (220, [False, True])]):
        replica, parts = first_half_and_whole(tmp_path / str(number), offset)
        merge = ReplicaMerge(replica)
        assert [merge.is_undone(split(part)[0]) for part in parts] == seen


@pytest.mark.parametrize("high_watermark", [100, 219, 301, 400])
def test_the_earliest_transaction_that_may_be_undone_is_that_of_the_whole_log(
    tmp_path: Path, high_watermark: int
) -> None:
    replica, parts = first_half_and_whole(tmp_path, high_watermark)
    found = []
    for apart in (False, True):
        merge = ReplicaMerge(replica)
        for part in parts:
            few = split(part)[0]
            merge.take(0, few if apart and not merge.is_undone(few) else part, apart=apart)
        found.append(merge.facts().partition.unreplicated)
    assert found[0] == found[1] == (None if high_watermark == 400 else high_watermark // 2 * 2)

"""The audit of replicas of which a part is in tiered storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.transactions import Settings
from tests.audit_logs import HOUR, NOON, LogDirectory, open_entry


@pytest.mark.parametrize(
    ("start", "expected"),
    [(500, ("unknown", "coverage_incomplete")), (1005, ("hanging", "no_transactional_id"))],
)
@pytest.mark.parametrize("checkpoint", [0, 400])
def test_offsets_in_tiered_storage_are_missing_and_not_deleted(
    tmp_path: Path, checkpoint: int, start: int, expected: tuple[str, str]
) -> None:
    """The log starts at the checkpoint; the first local segment has offset 1000."""
    directory = LogDirectory(tmp_path / "logs")
    orders = directory.partition("orders", start=1000)
    orders.plain(records=5)
    if start < 1000:
        orders.snapshot(open_entry(start=start, last=start + 2), offset=1000)
    else:
        orders.data(1000, at=NOON - 3 * HOUR)
    directory.checkpoint("log-start-offset-checkpoint", "orders", 0, checkpoint)
    directory.high_watermark("orders", 0, orders.end)
    directory.id("other", "CompleteCommit", 1, 5)
    settings = Settings(transaction_state_partitions=directory.ids)
    paths = (directory.write(),)
    (finding,) = transactions.audit(logdir.open(*paths), settings, paths=paths).findings
    assert (finding.verdict, finding.reason) == expected
    assert (finding.start_offset, finding.log_start_offset, finding.last_stable_offset) == (start, checkpoint, start)
    assert any(f"Offsets from {checkpoint} to 999 could not be read" in text for text in finding.evidence) == (
        start < 1000
    )
    assert finding.blocked


def test_replicas_are_compared_where_both_are_local(tmp_path: Path) -> None:
    roots = []
    for number, local in enumerate((0, 10)):
        directory = LogDirectory(tmp_path / str(number), ids=0)
        orders = directory.partition("orders", start=local)
        while orders.end < 20:
            orders.plain(records=5)
        directory.checkpoint("log-start-offset-checkpoint", "orders", 0, 0)
        directory.high_watermark("orders", 0, 20)
        roots.append(directory.write())
    (answer,) = (
        one
        for one in transactions.audit(logdir.open(*roots), paths=tuple(roots)).answers
        if one.check == "replicas_agree"
    )
    assert (answer.held, answer.violated, answer.not_checkable) == (2, 0, 0)

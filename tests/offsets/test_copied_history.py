"""The story of a transactional id by copies that lack records of its coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.offsets.copied_history import copied_history
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.records import Batch, read
from kafkawire.rows import DamageRow, HistoryEvent, Subject
from tests.audit_logs import LogDirectory

PLACE = ("__transaction_state", 0)


@pytest.mark.parametrize(
    ("first", "end", "cleaned", "lacks"),
    [
        (2, 4, 0, "the log ends at offset 2, below its high watermark 4"),
        (1, 3, 0, "offsets 1 to 2 are missing"),
        (1, 3, 3, None),
    ],
)
def test_records_that_are_not_here_are_named(
    tmp_path: Path, first: int, end: int, cleaned: int, lacks: str | None
) -> None:
    """The records from one offset up to another, without it, are not in the copy."""
    logs = LogDirectory(tmp_path, compacted=False)
    for state in ("Empty", "Ongoing", "PrepareCommit", "CompleteCommit"):
        logs.id("orders-service", state, 7)
    log = logs.partition(*PLACE)
    logs.high_watermark(*PLACE, log.end)
    logs.checkpoint("cleaner-offset-checkpoint", *PLACE, cleaned)
    data = log.segments[0][1]
    starts = [item.position for item in read(bytes(data)) if isinstance(item, Batch)]
    del data[starts[first] : [*starts, len(data)][end]]
    replicas = LeadingReplicas(logdir.open(logs.write()))
    found = list(copied_history(replicas, Subject(transactional_id="orders-service")))
    damage = [row.detail or "" for row in found if isinstance(row, DamageRow)]
    assert any(isinstance(row, HistoryEvent) for row in found)
    assert [row.partition(f"{PLACE[0]}-0: ")[2] or row for row in damage] == ([] if lacks is None else [lacks])

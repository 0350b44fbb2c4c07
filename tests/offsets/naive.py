"""What every offset of a replica is, found offset by offset: what the tests of `offsets` compare with."""

from __future__ import annotations

from itertools import pairwise

from kafkawire import logdir, rows
from kafkawire.errors import RecordError
from kafkawire.logdir import Partition, outcomes_of
from kafkawire.logdir.transaction_states import STATES
from kafkawire.offsets import Replica, explain
from kafkawire.records import Batch, Damage


def name_of(row: rows.StatusRange | rows.StatusTotal) -> str:
    """The status of a range or total, as merged ranges name it."""
    if row.status == "record":
        return f"record_{row.transaction}"
    return f"marker_{(row.control or '').lower()}" if row.status == "marker" else row.status


def ranges_of(replica: Replica, first: int = 0, end: int | None = None) -> list[rows.StatusRange]:
    """All ranges; they follow one another from the first offset to the end, and neighbours differ."""
    found = list(explain(replica, first, end, most=None))
    ranges = [row for row in found if isinstance(row, rows.StatusRange)]
    until = replica.bounds.end_offset if end is None else end
    assert sum(row.offsets for row in ranges) == until - first
    reached = first
    for row in ranges:
        assert (row.first_offset, row.offsets) == (reached, row.last_offset - row.first_offset + 1)
        assert row.offsets > 0
        reached = row.last_offset + 1
    for one, after in pairwise(ranges):
        fields = ("status", "transaction", "control", "coordinator_epoch", "reason", "detail", "position")
        assert [getattr(one, name) for name in fields] != [getattr(after, name) for name in fields]
    totals = [row for row in found if isinstance(row, rows.StatusTotal)]
    assert sum(row.offsets for row in totals) == until - first
    for total in totals:
        same = [
            row for row in ranges
            if (name_of(row), row.coordinator_epoch, row.control, row.reason)
            == (name_of(total), total.coordinator_epoch, total.control, total.reason)
        ]  # fmt: skip
        assert total.offsets == sum(row.offsets for row in same)
        assert (total.first_offset, total.last_offset) == (same[0].first_offset, same[-1].last_offset)
        assert total.ranges == len(same)
    merged = [row for row in explain(replica, first, end, most=5) if isinstance(row, rows.StatusRange)]
    assert len(merged) <= 5
    assert sum(row.offsets for row in merged) == until - first
    assert [row for row in explain(replica, first, end, most=5) if isinstance(row, rows.StatusTotal)] == totals
    return ranges


def statuses_of(ranges: list[rows.StatusRange]) -> dict[int, str]:
    return {offset: name_of(row) for row in ranges for offset in range(row.first_offset, row.last_offset + 1)}


def naive_statuses(partition: Partition) -> tuple[dict[int, str], bool]:
    """The status of each offset of the log, and whether it is certain: no damage, and no offset twice."""
    outcomes = outcomes_of(partition)
    found: dict[int, str] = {}
    sound = True
    for item in (item for file in partition.segments for item in (file, *file.batches())):
        if isinstance(item, logdir.LogFile):
            sound = sound and max(found, default=-1) < (item.offset or 0)
            continue
        if isinstance(item, Damage):
            sound = sound and item.harmless
            continue
        batch = item.measured()
        for offset in range(batch.base_offset, batch.last_offset + 1):
            sound = sound and offset not in found
            found[offset] = "compacted"
        state = STATES[outcomes.state(batch)]
        try:
            for record in batch.records:
                found[record.offset] = _control(batch) if batch.is_control else f"record_{state}"
        except RecordError:
            sound = False
    end = max(found, default=-1) + 1
    if not sound or end > 1000:
        return {}, False
    bases = [file.offset or 0 for file in partition.segments]
    for offset in range(bases[0] if bases else 0, max([end, *bases[-1:]])):
        found.setdefault(offset, "compacted" if offset < outcomes.cleaned_to else "unreadable")
    start = partition.log_start_offset or 0
    for offset in range(start, bases[0] if bases else 0):
        found[offset] = "unreadable"
    end = max(found, default=-1) + 1
    high = end if partition.high_watermark is None else min(end, partition.high_watermark)
    for offset, status in found.items():
        if offset >= max(start, high) and status != "unreadable":
            found[offset] = "above_high_watermark"
    return found | dict.fromkeys(range(start), "deleted"), sound


def _control(batch: Batch) -> str:
    control = batch.control
    assert control is not None
    return f"marker_{control.name.lower()}" if control.name in ("COMMIT", "ABORT") else "control"

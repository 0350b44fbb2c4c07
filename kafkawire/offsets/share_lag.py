"""The lag of a share group in a partition: the records that it has not finished with, counted one by one. Pure.

`kafka-share-groups.sh` computes the lag differently: the end of the partition, minus the start offset, minus the number
of offsets that are finished above it. There records that were archived unread count as read, and markers and aborted
records as unread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kafkawire.offsets.lag_row import retention
from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.rows import Lag, LagCount
from kafkawire.share_groups.record_fates import ABORTED, NO_RECORD, OPEN, RECORD, UNDECIDED

#: Statuses of records that the group has not finished with.
_UNFINISHED = frozenset({"available", "archiving", "unknown"})
#: Reasons for which nothing was there to be read, or nothing that the group reads.
_NOTHING = frozenset({"no_record", "aborted"})
_WHY = {
    "unread": "not everything in the partition was read",
    "state_removed": "records of the state of some offsets were removed before they were read",
    "no_state": "the start offset has passed some offsets of which no record of the state tells",
    "outcome_not_known": "how transactions ended is not known",
    "isolation_not_known": "the group's isolation level is not known",
}


class _Count:
    def __init__(self) -> None:
        self.least = self.most = 0

    def add(self, offsets: int, *, certain: bool = True) -> None:
        self.least += offsets if certain else 0
        self.most += offsets

    def row(self) -> LagCount:
        return LagCount(
            least=self.least,
            most=self.most,
            bytes_least=0,
            bytes_most=0 if not self.most else None,
            exact=self.least == self.most,
        )


def share_lag(
    share: ShareExplained,
    *,
    as_of: int | None,
    settings: Mapping[str, str] | None = None,
    oldest: Callable[[int], int | None] = lambda offset: None,
    held_by: Sequence[str] = (),
) -> Lag:
    """The row of a share group in a partition. Records that members hold now count: a leader alone knows which.

    Args:
        as_of: the clock, epoch milliseconds; None: not known.
        settings: of the topic, by name; None: they are not known.
        oldest: the timestamp of the record at an offset; None: not known.
        held_by: what holds the last stable offset, a sentence each.
    """
    key, state, partition = share.source.key, share.source.history.state, share.bounds
    topic = share.source.topic or str(key.topic_id)
    if partition is None or state is None:
        why = "the group's state there was deleted" if state is None else "the partition was not read"
        return Lag(
            group=key.group,
            topic=topic,
            partition=key.partition,
            problems=(*(() if share.source.gone or state is None else (why,)), *share.source.problems),
        )
    got, uncommitted, held = _Count(), _Count(), _Count()
    archived: Counter[str] = Counter()
    bounds: dict[str, None] = {}
    first: int | None = None
    lost = 0
    stable = partition.stable, max(partition.stable, partition.stable_at_most)
    for fated in share.fate_runs():
        offsets, fate = fated.last - fated.first + 1, fated.fate
        low = max(fated.first, state.start_offset)
        if fate.status == "archived" and fate.reason not in _NOTHING:
            archived[fate.reason or ""] += offsets
            lost += offsets if fate.reason == "below_log_start" else 0
        if fate.status not in _UNFINISHED or fated.held == NO_RECORD or fated.last < low:
            continue
        offsets = fated.last - low + 1
        if fate.reason in _WHY:
            bounds[_WHY[fate.reason]] = None
        certain = fate.status != "unknown"
        below, maybe = (max(0, min(fated.last + 1, at) - low) for at in stable)
        uncommitted.add(offsets, certain=certain)
        if fated.held == ABORTED:
            continue
        sure = certain and fated.held == RECORD
        if fated.held == OPEN:
            below = maybe = 0
        got.add(below, certain=sure)
        for count in (got, held):
            count.add(maybe - below, certain=False)
        held.add(offsets - maybe, certain=sure)
        if first is None and below and fated.held in (RECORD, UNDECIDED):
            first = low
    timestamp = None if first is None else oldest(first)
    after, why = retention(settings, timestamp)
    start = None if state.start_offset < 0 else state.start_offset
    return Lag(
        group=key.group,
        topic=topic,
        partition=key.partition,
        as_of=as_of,
        committed_offset=start,
        from_offset=partition.log_start if start is None else max(start, partition.log_start),
        log_start_offset=partition.log_start,
        last_stable_offset=partition.stable,
        high_watermark=partition.high,
        read_committed=got.row(),
        read_uncommitted=uncommitted.row(),
        held=held.row(),
        oldest_timestamp=timestamp,
        age_ms=None if timestamp is None or as_of is None or timestamp < 0 else as_of - timestamp,
        lost_offsets=lost,
        deleted_after=after,
        retention=why,
        held_by=tuple(held_by),
        bounds=tuple(bounds),
        problems=tuple(dict.fromkeys((*share.source.problems, *share.problems))),
        archived=dict(archived),
    )

"""`read_committed`: the batches of a partition that a read_committed consumer gets (KIP-98; `CompletedFetch` of Kafka's
consumer).

aborted, stable = outcome_of(partition)                  # two passes over the log: this is the first
for batch in read_committed(partition, aborted, stable): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkawire.logdir.data_ranges import DataRange, table_of
from kafkawire.logdir.transaction_doubts import NO_OFFSET
from kafkawire.logdir.transaction_states import COMMITTED, NONE, Outcomes
from kafkawire.messages import AbortedTxn
from kafkawire.records import Batch, Damage
from kafkawire.transactions.log.producer_append import append_of
from kafkawire.transactions.log.replay import Replay


def read_committed(
    batches: Iterable[Batch | Damage], aborted: Iterable[AbortedTxn], last_stable_offset: int | None = None
) -> Iterator[Batch]:
    """The batches of data whose records a read_committed consumer returns, in order.

    Args:
        batches: of one partition, in offset order. Damage is passed over.
        aborted: its aborted transactions, all that end after the first batch; a broker sends them along.
        last_stable_offset: where reading stops; None: at the end.

    Markers are not returned. Whether a batch still has records, after compaction, is not looked at.
    """
    ranges = (DataRange(one.producer_id, one.first_offset, one.last_offset) for one in aborted)
    outcomes = Outcomes(end=NO_OFFSET, aborted=table_of(ranges))
    for batch in batches:
        if not isinstance(batch, Batch):
            continue
        if last_stable_offset is not None and batch.base_offset >= last_stable_offset:
            return
        if not batch.is_control and outcomes.state(batch) in (NONE, COMMITTED):
            yield batch


def outcome_of(
    batches: Iterable[Batch | Damage], *, high_watermark: int | None = None, log_start: int = 0
) -> tuple[list[AbortedTxn], int]:
    """The aborted transactions of a partition, as its `.txnindex` files have them, and its last stable offset, from all
    of its batches. `logdir.outcomes_of` does with any subset of its segments.

    Args:
        high_watermark: up to where the replicas have it; None: up to the end.
    """
    replay = Replay(high_watermark=high_watermark)
    aborted: list[AbortedTxn] = []
    end = log_start
    for batch in batches:
        if isinstance(batch, Batch):
            end = max(end, batch.last_offset + 1)
            append = append_of(batch)
            ended = None if append is None else replay.add(append)
            if ended is not None and ended.aborted is not None:
                aborted.append(ended.aborted)
    return aborted, replay.last_stable_offset(end if high_watermark is None else high_watermark, log_start)

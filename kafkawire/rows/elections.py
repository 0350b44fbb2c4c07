"""Rows of `kafkawire explain --partition-history`: who led a partition, by the metadata log."""

from __future__ import annotations

from kafkawire.rows.base import LogRow


class PartitionEvent(LogRow, frozen=True, kw_only=True):
    """A record of `__cluster_metadata` that changes a partition. `file` is the copy of the metadata log.

    Attributes:
        offset, timestamp: of the record; of a checkpoint the time when it was written.
        snapshot: it is the state in a checkpoint: what was before is not known.
        leader: broker's id; None: none leads. leader_epoch: after the record.
        replicas, isr: broker ids. elr: eligible leader replicas (KIP-966): they have everything that was committed,
            and are not in sync. last_known_elr: those that had been, or have left.
        election: clean, eligible (of an eligible leader replica), unclean, or none: the leader stays. None: not known.
        recovering: the leader is recovering from an unclean election (KIP-704).
        what: a sentence.
        at_stake: of an unclean election: what the new leader did not have, a sentence; None: nothing was.
    """

    kind: str = "partition_event"
    offset: int
    timestamp: int
    snapshot: bool = False
    leader: int | None = None
    leader_epoch: int | None = None
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    election: str | None = None
    recovering: bool = False
    what: str
    at_stake: str | None = None

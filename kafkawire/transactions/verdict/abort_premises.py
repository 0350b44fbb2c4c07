"""`AbortPremises`: the facts that an ABORT marker rests on, read twice: before the transaction is judged, and right
before the marker is sent. Pure comparisons: a difference refuses the marker.

The producer's last sequence number and the partition's leader decide: a producer below transaction.version 2 keeps its
epoch, so that the batches of its next transaction join the one that hangs, at the same start offset.
"""

from __future__ import annotations

import msgspec

from kafkawire.rows import Finding


class OwnerPremises(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id as its coordinator describes it. `has_partition`: whether the partition is in its transaction.
    `start_time_ms`: of the transaction in progress, None for none."""

    state: str
    producer_id: int
    producer_epoch: int
    start_time_ms: int | None
    has_partition: bool


class PartitionPremises(msgspec.Struct, frozen=True, kw_only=True):
    """A producer in a partition, as the leader remembers it: see `client.results.ProducerState`."""

    start_offset: int | None
    producer_epoch: int
    coordinator_epoch: int | None
    last_sequence: int | None
    last_timestamp: int | None


class AbortPremises(msgspec.Struct, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        leader, leader_epoch: of the partition, by the leader's own metadata.
        end: the high watermark.
        owner: None where no coordinator is known to describe an id of the producer.
        listed: broker -> the ids that it lists for the producer id, of the brokers that answered.
        producer: None where the leader does not remember it, or was not asked yet.
    """

    leader: int
    leader_epoch: int
    end: int
    owner: OwnerPremises | None
    listed: dict[int, tuple[str, ...]]
    producer: PartitionPremises | None = None


def change(before: AbortPremises, now: AbortPremises, finding: Finding) -> str:
    """What differs between two readings of the premises of an abort, or from what was judged between them, as the end
    of a sentence; "" for nothing."""
    for producer in (before.producer, now.producer):
        if producer is None or producer.start_offset is None:
            return "it is not open any more"
        found = difference(finding, producer, ("start_offset", "producer_epoch", "coordinator_epoch", "last_timestamp"))
        if found:
            return found
    return difference(before.producer, now.producer, ("last_sequence",)) or _owner_change(before, now, finding)


def leader_change(before: AbortPremises, now: AbortPremises) -> str:
    """How the leader, or its epoch, has changed, as a sentence; "" for not at all."""
    was, is_ = (f"broker {one.leader} in leader epoch {one.leader_epoch}" for one in (before, now))
    return "" if was == is_ else f"the leader was {was}, and is {is_} now"


def difference(was: object, now: object, names: tuple[str, ...]) -> str:
    """The first attribute that differs, as the end of a sentence; "" for none. None and -1, not known, are the same.
    `was`, `now`: have the attributes `names`."""
    for name in names:
        old, new = getattr(was, name), getattr(now, name)
        if (-1 if old is None else old) != (-1 if new is None else new):
            return f"{name} was {old}, and is {new} now"
    return ""


def _owner_change(before: AbortPremises, now: AbortPremises, finding: Finding) -> str:
    names = sorted({name for ids in now.listed.values() for name in ids} - {finding.transactional_id})
    if names:
        return f"transactional id {names[0]!r} has the producer id now"
    was, is_ = before.owner, now.owner
    if was is None or is_ is None:
        return "" if was is is_ else f"its coordinator described its transactional id {'before' if was else 'only now'}"
    if is_.producer_id == was.producer_id == finding.producer_id and was.producer_epoch > finding.producer_epoch:
        return ""  # epochs only rise: nothing of the judged one can be written any more
    if is_.has_partition:
        return "the partition is in its id's transaction now"
    return difference(was, is_, ("state", "producer_id", "producer_epoch", "start_time_ms"))

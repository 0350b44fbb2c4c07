"""Rows of `kafkawire witness`: what became of each batch that was produced."""

from __future__ import annotations

from kafkawire.rows.base import Row


class WitnessSummary(Row, frozen=True, kw_only=True):
    """All that was seen. Counts of batches are exact: `batches` is the sum of the batches of all `FateTotal`s.

    Attributes:
        captures: number of capture files. requests: number of Produce requests in them.
        sendings: number of batches in these requests. batches: number of those that are not the same, sent again.
        records: number of records in `batches`.
        acknowledged: number of batches with an answer without error. held: number of those that copies hold, once, at
            the offset that was told.
        anomalies: number of batches for which a promise is broken. unknown: number of batches without an answer here.
        undecoded: number of Produce requests, and of batches in them, that cannot be read. old: number of batches of
            magic 0 and 1, which have no producer id and no checksum of their own: they have no fate.
        partitions: number of partitions that batches were sent to. copies: number of copies of these that were read.
        unseen: number of data batches in the newest copies that are in no capture.
    """

    kind: str = "witness"
    captures: int
    requests: int
    sendings: int
    batches: int
    records: int
    acknowledged: int
    held: int
    anomalies: int
    unknown: int
    undecoded: int
    old: int
    partitions: int
    copies: int
    unseen: int


class FateTotal(Row, frozen=True, kw_only=True):
    """The batches with one fate.

    Attributes:
        told: the best of a batch's answers: acknowledged, unanswered, unread, no_acks or refused.
        fate: held, held_elsewhere, held_twice, changed, lost, compacted, deleted, unacknowledged_held, refused,
            refused_held or unknown.
        transaction: of batches that are held: none, committed, aborted, open or unknown.
        error: of a refused batch.
        reason: why a fate is unknown. detail: the same as a sentence.
        batches, records: their numbers.
    """

    kind: str = "fate"
    told: str
    fate: str
    transaction: str | None = None
    error: str | None = None
    reason: str | None = None
    detail: str | None = None
    batches: int
    records: int


class DeliveryAnomaly(Row, frozen=True, kw_only=True):
    """A batch for which a promise is broken, and the evidence.

    Attributes:
        fate, told: as in `FateTotal`.
        topic, partition: where it was sent.
        told_offset: that its answer names. held_offset: at which a copy holds it. second_offset: at which the copy
            holds it once more.
        records, producer_id, producer_epoch, sequence: of the batch.
        transaction: what became of it in the copy.
        acks: of the request. error: that the answer names.
        sendings: how often it was sent. client, client_id: by whom.
        file, packet, response_packet: the capture, and the numbers of the packets with the first bytes of the request
            and of the answer.
        log: the segment that holds it, or would.
        rule: the promise, a sentence. hint: what leaves such traces.
    """

    kind: str = "anomaly"
    fate: str
    topic: str
    partition: int
    told: str
    told_offset: int | None = None
    held_offset: int | None = None
    second_offset: int | None = None
    records: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction: str | None = None
    acks: int
    error: str | None = None
    sendings: int
    client: str | None = None
    client_id: str | None = None
    file: str | None = None
    packet: int | None = None
    response_packet: int | None = None
    log: str | None = None
    rule: str
    hint: str = ""

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
        unseen: number of data batches in the newest copies that are in no capture as sent.
        fetches: number of Fetch responses to consumers. fetched: number of data batches in them, the sum of the batches
            of all `ReadTotal`s. read_anomalies: number of these for which a promise is broken; read_unknown: number of
            those that cannot be judged.
        ended: number of EndTxn requests that were answered without error. ended_shared: of these, with a version before
            5, where transactions share epochs: they are not compared with logs. transaction_anomalies: number of
            batches whose transaction ended otherwise than the producer was told.
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
    fetches: int = 0
    fetched: int = 0
    read_anomalies: int = 0
    read_unknown: int = 0
    ended: int = 0
    ended_shared: int = 0
    transaction_anomalies: int = 0


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


class ReadTotal(Row, frozen=True, kw_only=True):
    """The data batches that consumers were given, and that became the same of.

    Attributes:
        isolation: of the consumers, read_committed or read_uncommitted.
        read: delivered (the copy has it, too, and a consumer may get it), left_out (aborted, and the response says so),
            withheld, aborted_read, open_read or unknown.
        reason: why that is unknown. detail: the same as a sentence.
        batches, records: their numbers; a batch that was given twice counts twice.
    """

    kind: str = "read"
    isolation: str
    read: str
    reason: str | None = None
    detail: str | None = None
    batches: int
    records: int


class ReadAnomaly(Row, frozen=True, kw_only=True):
    """A batch that a consumer should not have got, or should have, and the evidence.

    Attributes:
        read: as in `ReadTotal`.
        topic, partition, first_offset, last_offset, records, producer_id, producer_epoch, sequence: of the batch.
        client, client_id: of the consumer.
        file, packet, response_packet, log, rule, hint: as in `DeliveryAnomaly`.
    """

    kind: str = "read_anomaly"
    read: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    producer_id: int
    producer_epoch: int
    sequence: int
    client: str | None = None
    client_id: str | None = None
    file: str | None = None
    packet: int | None = None
    response_packet: int | None = None
    log: str | None = None
    rule: str
    hint: str = ""


class TransactionTotal(Row, frozen=True, kw_only=True):
    """Transactional batches of which the producer was told how their transaction ended.

    Attributes:
        told: COMMIT or ABORT. transaction: what became of it in the copies: committed, aborted, open or unknown.
        batches: their number.
    """

    kind: str = "ended"
    told: str
    transaction: str
    batches: int


class TransactionAnomaly(Row, frozen=True, kw_only=True):
    """A batch whose transaction ended otherwise in its partition than the producer was told.

    Attributes:
        name: aborted_though_committed or committed_though_aborted.
        topic, partition, offset: where a copy holds it. records, producer_id, producer_epoch, sequence: of the batch.
        told, transaction: as in `TransactionTotal`.
        file, packet, response_packet: of the EndTxn. rule, hint: as in `DeliveryAnomaly`.
    """

    kind: str = "transaction_anomaly"
    name: str
    topic: str
    partition: int
    offset: int
    records: int
    producer_id: int
    producer_epoch: int
    sequence: int
    told: str
    transaction: str
    file: str | None = None
    packet: int | None = None
    response_packet: int | None = None
    rule: str
    hint: str = ""

"""Rows of `kafkawire witness`: what became of each batch that was produced."""

from __future__ import annotations

from kafkawire.rows.base import Row


class BatchEvidence(Row, frozen=True, kw_only=True):
    """Base class of the rows of a batch for which a promise is broken, with the evidence.

    Attributes:
        name: of the anomaly.
        topic, partition, records, producer_id, producer_epoch, sequence: of the batch.
        client, client_id: who sent the request.
        file, packet, response_packet: the capture, and the numbers of the packets with the first bytes of the request
            and of its response.
        log: the segment that holds the batch, or would.
        rule: the promise, a sentence. hint: what leaves such traces.
    """

    kind: str
    name: str
    topic: str
    partition: int
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


class WitnessSummary(Row, frozen=True, kw_only=True):
    """All that was seen. Counts of batches are exact: `batches` is the sum of the batches of all `FateTotal`s.

    Attributes:
        captures: number of capture files. requests: number of Produce requests in them.
        sendings: number of batches in these requests. batches: number of those that are not the same, sent again.
        records: number of records in `batches`.
        acknowledged: number of batches with an answer without error. held: number of those that copies hold, once, at
            the offset that was acknowledged.
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
            batches whose transaction ended otherwise than EndTxn was answered, lacks its marker, or that came after it.
        order_anomalies: number of batches that are held before one that their producer sent earlier.
        commits: number of offsets that groups committed, by answers without error: the sum of all `CommitTotal`s.
            commit_anomalies: number of those for which a promise is broken; commit_unknown: number of those that
            cannot be judged.
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
    order_anomalies: int = 0
    commits: int = 0
    commit_anomalies: int = 0
    commit_unknown: int = 0


class FateTotal(Row, frozen=True, kw_only=True):
    """The batches with one fate.

    Attributes:
        response: the best of a batch's responses: acknowledged, unanswered, undecoded, no_acks or refused.
        fate: held, held_elsewhere, held_twice, changed, lost, compacted, deleted, unacknowledged_held, refused,
            refused_held or unknown.
        transaction: of batches that are held: none, committed, aborted, open or unknown.
        error: of a refused batch.
        reason: why a fate is unknown. detail: the same as a sentence.
        batches, records: their numbers.
    """

    kind: str = "fate"
    response: str
    fate: str
    transaction: str | None = None
    error: str | None = None
    reason: str | None = None
    detail: str | None = None
    batches: int
    records: int


class DeliveryAnomaly(BatchEvidence, frozen=True, kw_only=True):
    """A batch for which a promise is broken, and the evidence.

    Attributes:
        name: held_elsewhere, held_twice, changed or lost. response: as in `FateTotal`.
        acknowledged_offset: that its response names. held_offset: at which a copy holds it. second_offset: at which
            the copy holds it once more.
        transaction: what became of it in the copy.
        acks: of the request. error: that the response names.
        sendings: how often it was sent.
    """

    kind: str = "anomaly"
    response: str
    acknowledged_offset: int | None = None
    held_offset: int | None = None
    second_offset: int | None = None
    transaction: str | None = None
    acks: int
    error: str | None = None
    sendings: int


class OrderAnomaly(BatchEvidence, frozen=True, kw_only=True):
    """A batch of an idempotent producer that a copy holds after one that the producer sent later.

    Attributes:
        name: out_of_order.
        offset: of the batch. later_offset, later_sequence: of the batch that was sent later and is held before it.
    """

    kind: str = "order_anomaly"
    offset: int
    later_offset: int
    later_sequence: int


class ReadTotal(Row, frozen=True, kw_only=True):
    """The data batches that consumers were given, with one result.

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


class ReadAnomaly(BatchEvidence, frozen=True, kw_only=True):
    """A batch that a consumer should not have got, or should have, and the evidence.

    Attributes:
        name: withheld, aborted_read or open_read.
        first_offset, last_offset: of the batch. client, client_id: of the consumer.
    """

    kind: str = "read_anomaly"
    first_offset: int
    last_offset: int


class TransactionTotal(Row, frozen=True, kw_only=True):
    """The transactional batches whose EndTxn was answered without error, by result.

    Attributes:
        end_txn: what the producer asked for, COMMIT or ABORT.
        transaction: what became of it in the copies: committed, aborted, open or unknown.
        batches: their number.
    """

    kind: str = "ended"
    end_txn: str
    transaction: str
    batches: int


class TransactionAnomaly(BatchEvidence, frozen=True, kw_only=True):
    """A batch whose transaction ended otherwise in its partition than EndTxn was answered, or that is in no transaction
    as it should be.

    Attributes:
        name: aborted_though_committed, committed_though_aborted, missing_marker, late_data or unregistered.
        offset: where a copy holds it. marker_offset: of the marker that shows it.
        end_txn, transaction: as in `TransactionTotal`. file, packet, response_packet: of the EndTxn, or of the batch
            where none counts.
    """

    kind: str = "transaction_anomaly"
    offset: int
    marker_offset: int | None = None
    end_txn: str | None = None
    transaction: str


class CommitTotal(Row, frozen=True, kw_only=True):
    """Offsets that groups committed, by answers without error, with one result.

    Attributes:
        commit: held, superseded (the copy of `__consumer_offsets` holds another one for the partition, and compaction
            has reached the place), aborted (its transaction was), open or unknown.
        delivery: whether the group was given all records below the offset and above its former one: delivered,
            undelivered or unknown.
        reason: why one of them is unknown. detail: the same as a sentence.
        commits: their number.
    """

    kind: str = "commit"
    commit: str
    delivery: str
    reason: str | None = None
    detail: str | None = None
    commits: int


class CommitAnomaly(Row, frozen=True, kw_only=True):
    """A committed offset for which a promise is broken, and the evidence.

    Attributes:
        name: undelivered (committed past records that the group was not given), gap (a consumer went on after records
            that the group was not given, and committed past them), aborted_though_committed (the offset's transaction
            was committed, and the group's log has it aborted), committed_though_aborted, or aborted_offset_read (a
            consumer was given an offset that was committed in an aborted transaction only).
        group, topic, partition: whose offset. offset: that was committed.
        first_offset, last_offset: of the first batch that the group was not given.
        record_offset: of the record in `__consumer_offsets`. producer_id, producer_epoch: of the transaction.
        client, client_id, file, packet, response_packet: of the request.
        log: the segment with the batch, or with the record. rule, hint: as in `BatchEvidence`.
    """

    kind: str = "commit_anomaly"
    name: str
    group: str
    topic: str
    partition: int
    offset: int
    first_offset: int | None = None
    last_offset: int | None = None
    record_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    client: str | None = None
    client_id: str | None = None
    file: str | None = None
    packet: int | None = None
    response_packet: int | None = None
    log: str | None = None
    rule: str
    hint: str = ""

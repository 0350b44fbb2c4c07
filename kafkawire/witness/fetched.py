"""Batches that consumers were given: Fetch exchanges -> packed rows, one a batch; and the fate of each. Pure.

A read_committed consumer gets aborted data too, with a list of the transactions that were aborted, and leaves it out
itself (KIP-98; Java's `CompletedFetch`). Whether a batch is delivered is decided here by the rules of that class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kafkawire import records
from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.logdir.transaction_states import ABORTED, COMMITTED, NONE, OPEN
from kafkawire.records import Batch
from kafkawire.records.array_types import Int8
from kafkawire.records.batch import readable_control
from kafkawire.records.control import ABORT
from kafkawire.records.header import MAGIC
from kafkawire.rows import ReadAnomaly, ReadTotal
from kafkawire.witness.contents import NOT_COMPARABLE
from kafkawire.witness.exchange_rows import ORIGIN, ExchangeRows, Place, Sources, evidence_of
from kafkawire.witness.grouping import identity
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.packed_rows import PackedRows

FETCH = 1
_READ_COMMITTED = 1

#: A batch of data in a Fetch response. `committed`: of a read_committed consumer. `delivered`: not left out as aborted.
#: `high`: the high watermark that the response names.
FETCHED = np.dtype(
    [
        ("place", "<i4"), ("base", "<i8"), ("producer_id", "<i8"), ("epoch", "<i2"), ("sequence", "<i4"),
        ("last", "<i8"), ("records", "<i4"), ("content", "<u8"), ("transactional", "?"), ("committed", "?"),
        ("delivered", "?"), ("high", "<i8"), *ORIGIN,
    ]
)  # fmt: skip

#: What became of a batch that was given. From WITHHELD on a promise is broken; before AS_HELD are reasons for unknown.
(
    NO_COPY, NOT_IN_COPY, OUTCOME_UNKNOWN, COPY_OLDER, AS_HELD, LEFT_OUT, WITHHELD, ABORTED_READ, OPEN_READ,
) = range(9)  # fmt: skip


class Reading(NamedTuple):
    """What became of a batch: its name in rows, why it is not known, the promise that is broken, what leaves traces."""

    name: str
    reason: str | None = None
    detail: str | None = None
    rule: str = ""
    hint: str = ""


_INDEX = "a transaction index that lacks the transaction, or has it at other offsets (`kafkawire audit` checks indexes)"
READINGS = (
    Reading("unknown", "no_copy", "no log that was given is of the partition"),
    Reading("unknown", "not_in_copy", "the newest copy does not hold the batch at its offset (any more)"),
    Reading("unknown", "outcome_unknown", "the copy does not show how the transaction ended"),
    Reading("unknown", "copy_older", "the transaction is open in the copy, which ends before the high watermark"),
    Reading("delivered"),
    Reading("left_out"),
    Reading("withheld", rule="a read_committed consumer gets all committed records", hint=_INDEX),
    Reading("aborted_read", rule="a read_committed consumer gets no aborted record", hint=_INDEX),
    Reading(
        "open_read",
        rule="a read_committed consumer gets no record of an open transaction",
        hint="a last stable offset that was computed wrongly",
    ),
)


class FetchedBatches(ExchangeRows):
    """Takes exchanges in order. `undecoded` counts responses that cannot be read whole.

    Args:
        sources: captures and clients.

    Attributes:
        fetches: number of Fetch responses to consumers.
    """

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources, FETCHED)
        self.fetches = 0

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange; those of other apis, of followers, and without a response are passed over."""
        row = found.row
        if row.api_key != FETCH or row.response_packet is None:
            return
        request: Any = found.request
        response: Any = found.response
        if request is not None and max(request.replica_id, request.replica_state.replica_id) >= 0:
            return
        self.fetches += 1
        whole = request is not None and response is not None and row.problem is None
        if not whole or kafka_name(request) != "FetchRequest" or kafka_name(response) != "FetchResponse":
            self.undecoded += 1
            return
        origin = self._sources.origin(row)
        committed = request.isolation_level == _READ_COMMITTED
        for topic in response.responses:
            name = self._sources.topic(topic.topic, topic.topic_id)
            for part in topic.partitions:
                if part.records and not part.error_code:
                    self._batches(part, self.place(name, part.partition_index), committed, origin)

    def _batches(self, part: Any, place: int, committed: bool, origin: tuple[int, ...]) -> None:
        aborted = sorted((one.first_offset, one.producer_id) for one in part.aborted_transactions or ())
        found = (item for item in records.read(part.records, check_crc=False) if isinstance(item, Batch))
        for batch, delivered in delivered_batches(found, aborted, committed=committed):
            if batch.magic != MAGIC:
                self.old += 1
                continue
            self.append(
                batch,
                (
                    place, batch.base_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence,
                    batch.last_offset, batch.record_count, batch.transactional, committed, delivered,
                    part.high_watermark, *origin,
                ),
                whole=batch.record_count == batch.last_offset_delta + 1,
            )  # fmt: skip


def delivered_batches(
    batches: Iterator[Batch], aborted: list[tuple[int, int]], *, committed: bool
) -> Iterator[tuple[Batch, bool]]:
    """The batches of data in a response, and whether a consumer delivers each.

    Args:
        batches: in order. aborted: first offset and producer id of the transactions that the response names, in order.
        committed: whether the consumer reads committed data only.
    """
    waiting = list(reversed(aborted))
    left_out: set[int] = set()
    for batch in batches:
        while committed and waiting and waiting[-1][0] <= batch.last_offset:
            left_out.add(waiting.pop()[1])
        if batch.is_control:
            if _is_abort(batch):
                left_out.discard(batch.producer_id)
            continue
        yield batch, not (committed and batch.transactional and batch.producer_id in left_out)


def _is_abort(batch: Batch) -> bool:
    control = readable_control(batch)
    return control is not None and control.type == ABORT


def readings(fetched: PackedRows, copy: CopyOfPartition | None) -> Int8:
    """What became of each batch, by the newest copy of its partition; None: there is none."""
    found = np.full(len(fetched), NO_COPY, np.int8)
    if copy is None:
        return found
    held = copy.batches
    found[:] = NOT_IN_COPY
    if not len(held):
        return found
    place = np.minimum(np.searchsorted(held["base"], fetched["base"]), len(held) - 1)
    keys = [identity(rows["producer_id"], rows["epoch"], rows["sequence"], rows["content"]) for rows in (held, fetched)]
    content, theirs = fetched["content"], held["content"][place]
    comparable = (content != NOT_COMPARABLE) & (theirs != NOT_COMPARABLE)
    same = (held["base"][place] == fetched["base"]) & (keys[0][place] == keys[1]) & (~comparable | (content == theirs))
    if copy.diverges_at is not None:
        same &= held["last"][place] < copy.diverges_at
    state, delivered = held["state"][place], fetched["delivered"]
    settled = np.isin(state, (NONE, COMMITTED))
    # A marker may be above the last stable offset, which an older transaction holds; it is below the high watermark.
    older = copy.log_end < fetched["high"]
    outcome = np.select(
        [
            ~fetched["committed"],
            settled & delivered,
            settled,
            (state == ABORTED) & delivered,
            state == ABORTED,
            (state == OPEN) & delivered & ~older,
            state == OPEN,
        ],
        [AS_HELD, AS_HELD, WITHHELD, ABORTED_READ, LEFT_OUT, OPEN_READ, COPY_OLDER],
        OUTCOME_UNKNOWN,
    )
    return np.where(same, outcome, found).astype(np.int8)


class ReadCounts:
    """Counts of batches, and of records, by whether consumers read committed data only and by what became of them."""

    def __init__(self) -> None:
        self.batches: Counter[tuple[bool, int]] = Counter()
        self.records: Counter[tuple[bool, int]] = Counter()

    def add(self, fetched: PackedRows, judged: Int8) -> None:
        """Take those of a partition."""
        for committed in (True, False):
            for kind in np.unique(judged).tolist():
                chosen = (judged == kind) & (fetched["committed"] == committed)
                self.batches[committed, kind] += int(chosen.sum())
                self.records[committed, kind] += int(fetched["records"][chosen].sum())

    def rows(self) -> Iterator[ReadTotal]:
        """A row for each count that is not zero."""
        for (committed, kind), number in sorted(self.batches.items(), key=lambda item: (not item[0][0], item[0][1])):
            if number:
                yield ReadTotal(
                    isolation="read_committed" if committed else "read_uncommitted",
                    read=READINGS[kind].name,
                    reason=READINGS[kind].reason,
                    detail=READINGS[kind].detail,
                    batches=number,
                    records=self.records[committed, kind],
                )


def read_anomalies(
    place: Place,
    fetched: PackedRows,
    judged: Int8,
    copy: CopyOfPartition | None,
    files: list[str],
    clients: list[tuple[str, str]],
) -> Iterator[ReadAnomaly]:
    """The batches for which a promise is broken.

    Args:
        judged: of `readings`. files, clients: of `FetchedBatches`.
    """
    for one in np.flatnonzero(judged >= WITHHELD).tolist():
        kind = READINGS[int(judged[one])]
        base = int(fetched["base"][one])
        yield ReadAnomaly(
            name=kind.name,
            first_offset=base,
            last_offset=int(fetched["last"][one]),
            log=None if copy is None else copy.segment(base),
            rule=kind.rule,
            hint=kind.hint,
            **evidence_of(place, fetched, one, files, clients),
        )

"""What clients were told: Produce exchanges -> packed rows, one a batch that was sent. Pure.

Rows are packed arrays: 100 million batches are 9 GB, not 100 million objects. Nothing is ordered by a clock: rows are
in the order in which the captures have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import crc32c
import numpy as np
import numpy.typing as npt

from kafkawire import records
from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.records.header import CODEC_MASK, HEADER, MAGIC, TRANSACTIONAL
from kafkawire.witness.contents import contents
from kafkawire.witness.fates import ACKED, DUPLICATE_SEQUENCE_NUMBER, NO_ACKS, REFUSED, UNANSWERED, UNREAD

PRODUCE = 0

#: A batch in a Produce request. `place`: number of its partition. `offsets`: how many it covers. `told`: `fates.TOLD`;
#: `offset`: -1 where no answer names one. `file`, `packet`, `response_packet`: where it was captured (-1: nowhere).
#: `client`: number of the client's host and id. `connection`: in the file.
SENT = np.dtype(
    [
        ("place", "<i4"), ("producer_id", "<i8"), ("epoch", "<i2"), ("sequence", "<i4"), ("offsets", "<i4"),
        ("records", "<i4"), ("content", "<u8"), ("codec", "i1"), ("transactional", "?"), ("acks", "<i2"),
        ("told", "i1"), ("error", "<i2"), ("offset", "<i8"), ("client", "<i4"), ("file", "<i4"),
        ("connection", "<i4"), ("packet", "<i8"), ("response_packet", "<i8"),
    ]
)  # fmt: skip
Sent = npt.NDArray[np.void]

#: Rows that are kept as objects before they are packed.
_PENDING = 4096
#: The columns of a pending row that `contents` is made of.
_CONTENT = ("checksum", "size", "base_timestamp")
#: (error, base offset) of each partition of a response, by name or id of its topic.
_Answers = dict[tuple[str | UUID, int], tuple[int, int]]
#: A topic, by name; by id where no name of it is known.
Place = tuple[str, int]


class SentBatches:
    """Takes exchanges in order.

    Args:
        name_of: the name of a topic by its id; None where it is not known.

    Attributes:
        places: topic and partition of each number.
        files: names of the captures. clients: host and client id of each number.
        requests: number of Produce requests. undecoded: number of them without batches that can be read; sentences on
            the first ones are in `problems`.
        old: number of batches of magic 0 and 1, which have no fate here.
    """

    def __init__(self, name_of: Callable[[UUID], str | None]) -> None:
        self._name_of = name_of
        self._pending: list[tuple[Any, ...]] = []
        self._chunks: list[Sent] = []
        self._places: dict[Place, int] = {}
        self._files: dict[str, int] = {}
        self._clients: dict[tuple[str, str], int] = {}
        self.requests = self.undecoded = self.old = 0
        self.problems: list[str] = []

    @property
    def places(self) -> list[Place]:
        return list(self._places)

    @property
    def files(self) -> list[str]:
        return list(self._files)

    @property
    def clients(self) -> list[tuple[str, str]]:
        return list(self._clients)

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange; those of other apis are passed over."""
        row = found.row
        if row.api_key != PRODUCE or row.packet is None:
            return
        self.requests += 1
        request: Any = found.request
        if request is None or kafka_name(request) != "ProduceRequest":
            self._undecoded(row.packet, row.problem or "the request cannot be decoded")
            return
        response: Any = found.response
        answered = row.response_packet is not None
        told: _Answers = {}
        if response is not None and kafka_name(response) == "ProduceResponse":
            told = {
                (topic.name or topic.topic_id, part.index): (part.error_code, part.base_offset)
                for topic in response.responses
                for part in topic.partition_responses
            }
        host = (row.client or "").rpartition(":")[0]
        origin = (
            self._clients.setdefault((host, row.client_id or ""), len(self._clients)),
            self._files.setdefault(row.file or "-", len(self._files)),
            row.connection or -1,
            row.packet,
            row.response_packet or -1,
        )
        for topic in request.topic_data:
            name = topic.name or self._name_of(topic.topic_id) or str(topic.topic_id)
            for part in topic.partition_data:
                place = self._places.setdefault((name, part.index), len(self._places))
                answer = told.get((topic.name or topic.topic_id, part.index))
                self._batches(part.records or b"", place, request.acks, _told(request.acks, answered, answer), origin)

    def _batches(
        self, data: bytes, place: int, acks: int, told: tuple[int, int, int], origin: tuple[int, int, int, int, int]
    ) -> None:
        for item in records.read(data, check_crc=False, check_offsets=False):
            if not isinstance(item, records.Batch):
                self._undecoded(origin[3], item.detail or item.reason)
            elif item.magic != MAGIC:
                self.old += 1
            else:
                self._pending.append(
                    (
                        place, item.producer_id, item.producer_epoch, item.base_sequence, item.last_offset_delta + 1,
                        item.record_count, crc32c.crc32c(item.data[HEADER.size :]), item.size, item.base_timestamp,
                        item.attributes & CODEC_MASK, bool(item.attributes & TRANSACTIONAL), acks, *told, *origin,
                    )
                )  # fmt: skip
        if len(self._pending) >= _PENDING:
            self._pack()

    def _undecoded(self, packet: int, why: str) -> None:
        self.undecoded += 1
        if len(self.problems) < 20:
            self.problems.append(f"packet {packet}: {why}")

    def _pack(self) -> None:
        if not self._pending:
            return
        pending = np.array(self._pending, _PENDING_ROW)
        packed = np.empty(len(pending), SENT)
        for name in SENT.names or ():
            if name != "content":
                packed[name] = pending[name]
        checksum, size, base = (pending[name] for name in _CONTENT)
        packed["content"] = contents(checksum, size, pending["records"], base, np.ones(len(pending), bool))
        self._chunks.append(packed)
        self._pending.clear()

    def by_place(self) -> Iterator[tuple[Place, Sent]]:
        """The rows of each partition, in the order of the captures. They are taken out."""
        self._pack()
        chunks, self._chunks = self._chunks, []
        yield from split_by_place(chunks, self.places, SENT)


def split_by_place(chunks: list[Sent], places: list[Place], row: np.dtype[np.void]) -> Iterator[tuple[Place, Sent]]:
    """The rows of each partition, in their order.

    Args:
        chunks: rows of all partitions, whose `place` is the number of one of `places`. Emptied, so that no row is kept
            twice.
        row: of the rows.
    """
    numbers = np.concatenate([np.empty(0, np.int32), *(chunk["place"] for chunk in chunks)])
    everything = np.empty(len(numbers), row)
    order = np.argsort(numbers, kind="stable")
    target = np.empty_like(order)
    target[order] = np.arange(len(order))
    done = 0
    while chunks:
        chunk = chunks.pop(0)
        everything[target[done : done + len(chunk)]] = chunk
        done += len(chunk)
    bounds = np.searchsorted(numbers[order], np.arange(len(places) + 1))
    for number, place in enumerate(places):
        first, end = int(bounds[number]), int(bounds[number + 1])
        if first < end:
            yield place, everything[first:end]


_PENDING_ROW = np.dtype(
    [
        (name, SENT[name])
        for name in ("place", "producer_id", "epoch", "sequence", "offsets", "records")
    ]
    + [("checksum", "<u4"), ("size", "<i8"), ("base_timestamp", "<i8")]
    + [
        (name, SENT[name])
        for name in (
            "codec", "transactional", "acks", "told", "error", "offset", "client", "file", "connection", "packet",
            "response_packet",
        )
    ]
)  # fmt: skip


def _told(acks: int, answered: bool, answer: tuple[int, int] | None) -> tuple[int, int, int]:
    """What was told: `fates.TOLD`, error, offset."""
    if answer is not None:
        error, offset = answer
        if error in (0, DUPLICATE_SEQUENCE_NUMBER):
            return ACKED, error, offset if error == 0 else -1
        return REFUSED, error, -1
    if answered:
        return UNREAD, 0, -1
    return (NO_ACKS if acks == 0 else UNANSWERED), 0, -1

"""Batches that producers sent, with the brokers' answers: Produce exchanges -> packed rows, one a batch. Pure."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np

from kafkawire import records
from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.records.header import CODEC_MASK, MAGIC, TRANSACTIONAL
from kafkawire.witness.batch_fates import ACKED, DUPLICATE_SEQUENCE_NUMBER, NO_ACKS, REFUSED, UNANSWERED, UNREAD
from kafkawire.witness.exchange_rows import ORIGIN, ExchangeRows, Sources

PRODUCE = 0

#: A batch in a Produce request. `place`: number of its partition. `offsets`: how many it covers. `response`: by
#: `fates.RESPONSES`; `offset`: -1 where no answer names one.
SENT = np.dtype(
    [
        ("place", "<i4"), ("producer_id", "<i8"), ("epoch", "<i2"), ("sequence", "<i4"), ("offsets", "<i4"),
        ("records", "<i4"), ("content", "<u8"), ("codec", "i1"), ("transactional", "?"), ("acks", "<i2"),
        ("response", "i1"), ("error", "<i2"), ("offset", "<i8"), *ORIGIN,
    ]
)  # fmt: skip

#: (error, base offset) of each partition of a response, by name or id of its topic.
_Answers = dict[tuple[str | UUID, int], tuple[int, int]]


class SentBatches(ExchangeRows):
    """Takes exchanges in order. `undecoded` counts requests without batches that can be read.

    Args:
        sources: captures and clients.

    Attributes:
        requests: number of Produce requests.
    """

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources, SENT)
        self.requests = 0

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange; those of other apis are passed over."""
        row = found.row
        if row.api_key != PRODUCE or row.packet is None:
            return
        self.requests += 1
        request: Any = found.request
        if request is None or kafka_name(request) != "ProduceRequest":
            self.undecoded += 1
            return
        response: Any = found.response
        answered = row.response_packet is not None
        answers: _Answers = {}
        if response is not None and kafka_name(response) == "ProduceResponse":
            answers = {
                (topic.name or topic.topic_id, part.index): (part.error_code, part.base_offset)
                for topic in response.responses
                for part in topic.partition_responses
            }
        origin = self._sources.origin(row)
        for topic in request.topic_data:
            name = self._sources.topic(topic.name, topic.topic_id)
            for part in topic.partition_data:
                answer = answers.get((topic.name or topic.topic_id, part.index))
                result = _response(request.acks, answered, answer)
                self._batches(part.records or b"", self.place(name, part.index), (request.acks, *result, *origin))

    def _batches(self, data: bytes, place: int, about: tuple[int, ...]) -> None:
        for item in records.read(data, check_crc=False, check_offsets=False):
            if not isinstance(item, records.Batch):
                self.undecoded += 1
            elif item.magic != MAGIC:
                self.old += 1
            else:
                codec, transactional = item.attributes & CODEC_MASK, bool(item.attributes & TRANSACTIONAL)
                self.append(
                    item,
                    (
                        place, item.producer_id, item.producer_epoch, item.base_sequence, item.last_offset_delta + 1,
                        item.record_count, codec, transactional, *about,
                    ),
                )  # fmt: skip


def _response(acks: int, answered: bool, answer: tuple[int, int] | None) -> tuple[int, int, int]:
    """The answer: one of `fates.RESPONSES`, the error, the offset."""
    if answer is not None:
        error, offset = answer
        if error in (0, DUPLICATE_SEQUENCE_NUMBER):
            return ACKED, error, offset if error == 0 else -1
        return REFUSED, error, -1
    if answered:
        return UNREAD, 0, -1
    return (NO_ACKS if acks == 0 else UNANSWERED), 0, -1

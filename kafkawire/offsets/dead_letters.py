"""Copies of records in the dead-letter topics of share groups (KIP-1191), by the headers that brokers give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kafkawire._java_numbers import INT64, whole_number
from kafkawire.records import Batch, Record
from kafkawire.share_groups.record_fates import DEAD_LETTER_CAUSES

#: Names of headers, from Kafka's `ShareGroupDLQStateManager`.
TOPIC, PARTITION, OFFSET, GROUP, COUNT, MESSAGE = (
    b"__dlq.errors.topic", b"__dlq.errors.partition", b"__dlq.errors.offset", b"__dlq.errors.group",
    b"__dlq.errors.delivery.count", b"__dlq.errors.message",
)  # fmt: skip
_REASONS = (None, *DEAD_LETTER_CAUSES.values())
_CODES = {reason: code for code, reason in enumerate(_REASONS)}


class Letter(NamedTuple):
    """A copy. `group`, `topic`, `partition`, `offset`: of the original. `deliveries`, `cause`: by its headers; None
    where it has none. `copy_partition`, `copy_offset`, `timestamp`: of the copy."""

    group: str
    topic: str
    partition: int
    offset: int
    deliveries: int | None
    cause: str | None
    copy_partition: int
    copy_offset: int
    timestamp: int

    @property
    def reason(self) -> str | None:
        """The reason that the cause names; None for causes of which none is known."""
        return DEAD_LETTER_CAUSES.get(self.cause or "")


def letter(record: Record, copy_partition: int) -> Letter | None:
    """The copy that a record is; None for records without a broker's headers."""
    found: dict[bytes, bytes | None] = {}
    for header in record.headers:
        found[header.key.encode("utf-8", "surrogateescape")] = header.value
    numbers = [_number(found.get(name)) for name in (PARTITION, OFFSET)]
    group, topic = _text(found.get(GROUP)), _text(found.get(TOPIC))
    if group is None or topic is None or numbers[0] is None or numbers[1] is None:
        return None
    return Letter(
        group=group,
        topic=topic,
        partition=numbers[0],
        offset=numbers[1],
        deliveries=_number(found.get(COUNT)),
        cause=_text(found.get(MESSAGE)),
        copy_partition=copy_partition,
        copy_offset=record.offset,
        timestamp=record.timestamp,
    )


class DeadLetterCauses:
    """The reasons in the copies of one share partition, for offsets that rise. Nine bytes a copy. `letters`: of one
    group, topic and partition."""

    def __init__(self, letters: Iterable[Letter]) -> None:
        pairs = [(one.offset, _CODES[one.reason]) for one in letters]
        kept = np.array(pairs, np.int64).reshape(-1, 2)
        # The last copy of an offset counts.
        _, places = np.unique(kept[::-1, 0], return_index=True)
        kept = kept[::-1][places]
        self._offsets, self._codes = kept[:, 0], kept[:, 1].astype(np.int8)

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, offset: int) -> bool:
        place = int(np.searchsorted(self._offsets, offset))
        return place < len(self._offsets) and int(self._offsets[place]) == offset

    def at(self, offset: int) -> tuple[str | None, int]:
        """The reason of a copy of an offset, None without one; and up to which offset, without it, that holds."""
        place = int(np.searchsorted(self._offsets, offset))
        if place == len(self._offsets):
            return None, 1 << 62
        found = int(self._offsets[place])
        return (_REASONS[int(self._codes[place])], offset + 1) if found == offset else (None, found)


def letters_of(batch: Batch, copy_partition: int) -> Iterator[Letter]:
    """The copies among the records of a batch of a dead-letter topic's partition. Raises RecordError: the records
    cannot be read."""
    for record in () if batch.is_control else batch.records:
        one = letter(record, copy_partition)
        if one is not None:
            yield one


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _number(value: bytes | None) -> int | None:
    text = _text(value)
    return None if text is None else whole_number(text, INT64)

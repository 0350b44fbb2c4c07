"""`Timeline`: what one transactional producer did, in order, across connections.

A producer is known by its transactional id and by the producer ids that it was given. Both are learned on the way: who
asks for the one finds the other. Only requests count that act on a transaction (and the producer id in InitProducerId's
answer): what others list or describe does not belong to what the producer did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafkawire import records
from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.named_entities import NamedEntities
from kafkawire.rows import Step


class Timeline:
    """Takes exchanges in their order (with messages kept), gives those of one producer.

    Args:
        who: a transactional id, or a producer id in digits.
    """

    def __init__(self, who: str) -> None:
        self._ids = {who}
        self._producer_ids = {int(who)} if who.isdecimal() and len(who) < 20 else set()

    def step(self, matched: CapturedExchange) -> Step | None:
        """The step that an exchange is; None where another did it, or nobody knows."""
        row = matched.row
        describe = _DESCRIPTIONS.get(row.api or "")
        if matched.request is None or describe is None:
            return None
        found = NamedEntities().add(matched.request, matched.version)
        if (told := _given(matched)) >= 0:
            found.producer_ids.add(told)
        mine = not (self._ids.isdisjoint(found.transactional_ids) and self._producer_ids.isdisjoint(found.producer_ids))
        if not mine:
            return None
        # A request that names one of each tells which belong together.
        if len(found.transactional_ids) == 1 and len(found.producer_ids) <= 2:
            self._ids |= found.transactional_ids
            self._producer_ids |= found.producer_ids
        return Step(
            time=row.time,
            time_ns=row.time_ns,
            file=row.file,
            connection=row.connection,
            client=row.client,
            broker=row.broker,
            api=row.api,
            version=row.version,
            what=describe(matched.request, matched.response),
            transactional_id=_only(found.transactional_ids),
            producer_id=_only(found.producer_ids),
            latency_ms=row.latency_ms,
            errors=row.errors,
            problem=row.problem,
            packet=row.packet,
        )


def _given(matched: CapturedExchange) -> int:
    """The producer id that InitProducerId gave; -1 for none."""
    answer = matched.response
    given: int = getattr(answer, "producer_id", -1) if matched.row.api == "InitProducerId" else -1
    return given


def _only(values: set[Any]) -> Any:
    return next(iter(values)) if len(values) == 1 else None


# What a step says, in a few words -------------------------------------------------------------------------------------


def _init_producer_id(request: Any, answer: Any) -> str:
    asked = f"timeout {request.transaction_timeout_ms} ms"
    if answer is None or answer.error_code:
        return asked
    return f"{asked}: producer id {answer.producer_id} epoch {answer.producer_epoch}"


def _add_partitions(request: Any, answer: Any) -> str:
    topics = [*request.v3_and_below_topics, *(t for txn in request.transactions for t in txn.topics)]
    return _places((topic.name, topic.partitions) for topic in topics)


def _produce(request: Any, answer: Any) -> str:
    return ", ".join(
        f"{topic.name or topic.topic_id}-{data.index}: {_batches(data.records)}"
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _batches(data: Any) -> str:
    found = [b for b in records.read(data or b"", check_crc=False) if isinstance(b, records.Batch)]
    count = sum(batch.record_count for batch in found)
    first = found[0] if found else None
    said = f"{count} record{'s' * (count != 1)}"
    if first is None or first.base_sequence < 0:
        return said
    return f"{said} from sequence {first.base_sequence} epoch {first.producer_epoch}" + (
        "" if first.transactional else ", not transactional"
    )


def _offsets(request: Any, answer: Any) -> str:
    committed = ", ".join(
        f"{topic.name}-{partition.partition_index} @ {partition.committed_offset}"
        for topic in request.topics
        for partition in topic.partitions
    )
    return f"group {request.group_id}: {committed}"


def _end(request: Any, answer: Any) -> str:
    said = "commit" if request.committed else "abort"
    return said if answer is None or answer.producer_id < 0 else f"{said}: next epoch {answer.producer_epoch}"


def _markers(request: Any, answer: Any) -> str:
    return "; ".join(
        f"{'commit' if marker.transaction_result else 'abort'} "
        f"{_places((topic.name, topic.partition_indexes) for topic in marker.topics)}, "
        f"producer epoch {marker.producer_epoch}, coordinator epoch {marker.coordinator_epoch}"
        for marker in request.markers
    )


def _places(topics: Iterable[tuple[str, Iterable[int]]]) -> str:
    return ", ".join(f"{name}-{partition}" for name, partitions in topics for partition in partitions)


_DESCRIPTIONS: dict[str, Callable[[Any, Any], str]] = {
    "InitProducerId": _init_producer_id,
    "AddPartitionsToTxn": _add_partitions,
    "AddOffsetsToTxn": lambda request, answer: f"group {request.group_id}",
    "Produce": _produce,
    "TxnOffsetCommit": _offsets,
    "EndTxn": _end,
    "WriteTxnMarkers": _markers,
}


def steps(exchanges: Iterable[CapturedExchange], who: str) -> Iterator[Step]:
    """The steps of one transactional producer. `exchanges` in order, with their messages kept."""
    timeline = Timeline(who)
    for matched in exchanges:
        step = timeline.step(matched)
        if step is not None:
            yield step

"""`Timeline`: the requests of one transactional producer, in order, across connections.

A producer is identified by its transactional id and by the producer ids that it was assigned. Requests that name both,
and responses to InitProducerId, connect the two. Only requests that act on a transaction count; requests that list or
describe transactions do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafkawire import records
from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.capture.named_entities import NamedEntities
from kafkawire.capture.producer_overlaps import ProducerOverlaps
from kafkawire.capture.topic_names import TELLING_TOPICS, TopicNames
from kafkawire.kafka_api_keys import NAMES
from kafkawire.rows import TimelineStep


class Timeline:
    """Turns the exchanges of one producer into steps.

    Args:
        who: a transactional id, or a producer id as decimal digits.
    """

    def __init__(self, who: str) -> None:
        self._ids, self._producer_ids = first_ids(who)
        self._overlaps = ProducerOverlaps()
        self._topics = TopicNames()

    def step(self, matched: CapturedExchange) -> TimelineStep | None:
        """The step of an exchange; None for one that does not belong to the producer.

        Call it for all exchanges, in their order. Those of `APIS` need their messages (`keep` of `capture.read`).
        """
        row = matched.row
        request, response = matched.request, matched.response
        self._topics.learn(response)
        found = ids_of(matched)
        if request is None or found is None:
            return None
        describe = _DESCRIPTIONS[kafka_name(request) or ""]
        if response is not None and kafka_name(response) is None:
            response = None
        mine = not (self._ids.isdisjoint(found.transactional_ids) and self._producer_ids.isdisjoint(found.producer_ids))
        if not mine:
            return None
        # A request with one of each connects both ids.
        if len(found.transactional_ids) == 1 and len(found.producer_ids) <= 2:
            self._ids |= found.transactional_ids
            self._producer_ids |= found.producer_ids
        return TimelineStep(
            time=row.time,
            time_ns=row.time_ns,
            file=row.file,
            connection=row.connection,
            client=row.client,
            broker=row.broker,
            api=row.api,
            version=row.version,
            what=describe(request, response, self._topics),
            transactional_id=_only(found.transactional_ids),
            producer_id=_only(found.producer_ids),
            latency_ms=row.latency_ms,
            errors=row.errors,
            problem="; ".join(filter(None, (row.problem, self._overlaps.add(matched)))) or None,
            packet=row.packet,
        )


def first_ids(who: str) -> tuple[set[str], set[int]]:
    """The transactional and producer ids of a producer of which nothing else is known."""
    return {who}, {int(who)} if who.isdecimal() and len(who) < 20 else set()


def ids_of(matched: CapturedExchange) -> NamedEntities | None:
    """The ids that a request names, with the one that it is assigned; None where it is none that a timeline shows."""
    request, response = matched.request, matched.response
    if request is None or (kafka_name(request) or "") not in _DESCRIPTIONS:
        return None
    found = NamedEntities().add(request, matched.version)
    if response is not None and response.spec.api_key == INIT_PRODUCER_ID and kafka_name(response) is not None:
        assigned: Any = response
        if assigned.producer_id >= 0:
            found.producer_ids.add(assigned.producer_id)
    return found


def _only(values: set[Any]) -> Any:
    return next(iter(values)) if len(values) == 1 else None


# Short descriptions of steps ------------------------------------------------------------------------------------------


def _init_producer_id(request: Any, response: Any, topics: TopicNames) -> str:
    timeout = f"timeout {request.transaction_timeout_ms} ms"
    if response is None or response.error_code:
        return timeout
    return f"{timeout}: producer id {response.producer_id} epoch {response.producer_epoch}"


def _add_partitions(request: Any, response: Any, topics: TopicNames) -> str:
    added = [*request.v3_and_below_topics, *(t for txn in request.transactions for t in txn.topics)]
    return _places((topic.name, topic.partitions) for topic in added)


def _produce(request: Any, response: Any, topics: TopicNames) -> str:
    return ", ".join(
        f"{topics.shown(topic)}-{data.index}: {_batches(data.records)}"
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _batches(data: Any) -> str:
    found = [b for b in records.read(data or b"", check_crc=False, check_offsets=False) if isinstance(b, records.Batch)]
    count = sum(batch.record_count for batch in found)
    first = found[0] if found else None
    text = f"{count} record{'s' * (count != 1)}"
    if first is None or first.base_sequence < 0:
        return text
    return f"{text} from sequence {first.base_sequence} epoch {first.producer_epoch}" + (
        "" if first.transactional else ", not transactional"
    )


def _offsets(request: Any, response: Any, topics: TopicNames) -> str:
    committed = ", ".join(
        f"{topics.shown(topic)}-{partition.partition_index} @ {partition.committed_offset}"
        for topic in request.topics
        for partition in topic.partitions
    )
    return f"group {request.group_id}: {committed}"


def _end(request: Any, response: Any, topics: TopicNames) -> str:
    outcome = "commit" if request.committed else "abort"
    return (
        outcome if response is None or response.producer_id < 0 else f"{outcome}: next epoch {response.producer_epoch}"
    )


def _markers(request: Any, response: Any, topics: TopicNames) -> str:
    return "; ".join(
        f"{'commit' if marker.transaction_result else 'abort'} "
        f"{_places((topic.name, topic.partition_indexes) for topic in marker.topics)}, "
        f"producer epoch {marker.producer_epoch}, coordinator epoch {marker.coordinator_epoch}"
        for marker in request.markers
    )


def _places(topics: Iterable[tuple[str, Iterable[int]]]) -> str:
    return ", ".join(f"{name}-{partition}" for name, partitions in topics for partition in partitions)


INIT_PRODUCER_ID = 22
_DESCRIPTIONS: dict[str, Callable[[Any, Any, TopicNames], str]] = {
    "InitProducerIdRequest": _init_producer_id,
    "AddPartitionsToTxnRequest": _add_partitions,
    "AddOffsetsToTxnRequest": lambda request, response, topics: f"group {request.group_id}",
    "ProduceRequest": _produce,
    "TxnOffsetCommitRequest": _offsets,
    "EndTxnRequest": _end,
    "WriteTxnMarkersRequest": _markers,
}

#: Api keys of the exchanges that a timeline shows, and of those whose responses name topics; it needs their messages.
SHOWN_APIS = frozenset(key for key, name in NAMES.items() if f"{name}Request" in _DESCRIPTIONS)
NAMING_APIS = frozenset(key for key, name in NAMES.items() if f"{name}Response" in TELLING_TOPICS)
APIS = SHOWN_APIS | NAMING_APIS


def steps(exchanges: Iterable[CapturedExchange], who: str) -> Iterator[TimelineStep]:
    """The steps of one transactional producer.

    Args:
        exchanges: in their order, with their messages (`keep` of `capture.read`).
        who: a transactional id, or a producer id as decimal digits.
    """
    timeline = Timeline(who)
    for matched in exchanges:
        step = timeline.step(matched)
        if step is not None:
            yield step

"""Partitions that could not be read: the reasons as sentences and as rows, and which of them to read again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kafkawire import rows
from kafkawire.client.errors import ApiTimeoutError, ClientError, ConnectError, NoSuchBrokerError
from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.transactions.formatting import some

_NAMED = 20


class UnreadGap(msgspec.Struct, frozen=True):
    """Something that was not read. `subject` identifies it; `text` is a sentence with the reason."""

    subject: str
    text: str


def gaps_of(errors: Mapping[TopicPartition, ClientError]) -> list[UnreadGap]:
    """One sentence a topic and reason: it names the partitions, the first of them where there are many."""
    grouped: dict[tuple[str, str], list[TopicPartition]] = {}
    for place, error in sorted(errors.items()):
        grouped.setdefault((place.topic, reason(place, error)), []).append(place)
    gaps = []
    for (topic, why), places in grouped.items():
        names = some([str(place) for place in places], _NAMED)
        gaps.append(UnreadGap(f"topic {topic}", f"{names} {'was' if len(places) == 1 else 'were'} not read: {why}"))
    return gaps


def gaps_of_brokers(silent: Mapping[int, ClientError], gone: Mapping[int, ClientError]) -> list[UnreadGap]:
    """One sentence a broker. `silent`: did not list their transactional ids. `gone`: did not answer any more."""
    texts = [(n, f"did not list its transactional ids: {error}") for n, error in silent.items()]
    texts += [(n, f"did not answer any more: {error}") for n, error in gone.items()]
    return [UnreadGap(f"broker {n}", f"broker {n} {text}") for n, text in texts]


def rows_of(errors: Mapping[TopicPartition, ClientError], asked: Mapping[TopicPartition, int]) -> list[rows.Unread]:
    """A row for each partition. `asked`: the broker that should describe it, -1 for none."""
    found = []
    for place, error in sorted(errors.items()):
        broker = asked.get(place, -1)
        why = reason(place, error)
        found.append(
            rows.Unread(
                topic=place.topic, partition=place.partition, broker_id=broker if broker >= 0 else None, reason=why
            )
        )
    return found


def reason(place: TopicPartition, error: ClientError) -> str:
    """The reason why a partition was not read, without its name: equal for partitions with the same error."""
    return str(error).removeprefix("partition ").removeprefix(f"{place}: ")


def readable_again(
    errors: Mapping[TopicPartition, ClientError], metadata: Metadata, broker_id: int | None = None
) -> list[TopicPartition]:
    """The partitions that were not read because of a broker that is in the cluster's metadata now.

    Args:
        metadata: of the topics of these partitions, read after the errors.
        broker_id: the broker that describes the partitions; by default each one's leader.
    """
    found = []
    for place, error in errors.items():
        info = metadata.partitions.get(place)
        passes = error.retriable or isinstance(error, ConnectError | ApiTimeoutError | NoSuchBrokerError)
        if passes and info is not None and (info.leader if broker_id is None else broker_id) in metadata.brokers:
            found.append(place)
    return sorted(found)


def unanswered(
    unread: Mapping[TopicPartition, ClientError],
    silent: Mapping[int, ClientError],
    refused: Mapping[int, ClientError],
    leaders: Mapping[TopicPartition, int],
) -> set[int]:
    """Brokers that could not be reached, or left a request unanswered. `unread`: partitions that could not be read.
    `leaders`: the broker that was asked for each. `silent`, `refused`: brokers that did not answer other requests."""
    asked = [*refused.items(), *silent.items()]
    asked += [(leaders.get(place, -1), error) for place, error in unread.items()]
    return {broker for broker, error in asked if isinstance(error, ConnectError | ApiTimeoutError)}

"""The census of `txn doctor`: producer ids by partition, transactional ids by pattern; pure functions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kafkawire import rows
from kafkawire.client.results import ProducerState, TopicPartition, TransactionListing

#: Estimates for a broker's heap, bytes: a `ProducerStateEntry` with up to five batches, its key, and its place in the
#: maps; a `TransactionMetadata` with its lock, sets and place, without the characters of its id.
PRODUCER_BYTES, ID_BYTES = 400, 500

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9A-Za-z])")
_DIGITS = re.compile(r"\d+", re.ASCII)
#: A number with this many digits or more is no index: a time, or a random number.
LONG_DIGITS = 9
#: Characters of an id that are looked at, and kept in a pattern.
_MOST = 300


def pattern_of(transactional_id: str) -> str:
    """The id with its variable parts replaced: `orders-<n>`, `run-<uuid>`; `<n+>` for a number of many digits."""
    text = _HEX.sub("<hex>", _UUID.sub("<uuid>", transactional_id[:_MOST]))
    return _DIGITS.sub(lambda found: "<n+>" if len(found[0]) >= LONG_DIGITS else "<n>", text)


def producer_census(
    states: Mapping[TopicPartition, Sequence[ProducerState]], expiration_ms: int
) -> tuple[rows.ProducerCensus, ...]:
    """The partitions that have producers, the most first. `states`: the producers that each leader remembers.
    `expiration_ms`: producer.id.expiration.ms."""
    found = []
    for place, producers in states.items():
        idle = [
            one.last_timestamp + expiration_ms
            for one in producers
            if one.transaction_start_offset is None and one.last_timestamp is not None
        ]
        row = rows.ProducerCensus(
            topic=place.topic,
            partition=place.partition,
            producer_ids=len(producers),
            open=sum(one.transaction_start_offset is not None for one in producers),
            memory_bytes=len(producers) * PRODUCER_BYTES,
            first_expires=min(idle, default=None),
            last_expires=max(idle, default=None),
        )
        if producers:
            found.append(row)
    return tuple(sorted(found, key=lambda row: (-row.producer_ids, row.topic, row.partition)))


def id_census(
    listings: Iterable[TransactionListing], updated: Mapping[str, int], expiration_ms: int
) -> tuple[rows.IdCensus, ...]:
    """The transactional ids by pattern, the most first. `updated`: when each id was last written, epoch milliseconds;
    without those that are not known. `expiration_ms`: transactional.id.expiration.ms."""
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for one in listings:
        groups[pattern_of(one.transactional_id)][one.transactional_id] = one.state
    found = []
    for pattern, ids in groups.items():
        times = [updated[name] + expiration_ms for name in ids if name in updated]
        row = rows.IdCensus(
            pattern=pattern,
            ids=len(ids),
            states=dict(sorted(Counter(ids.values()).items())),
            example=min(ids),
            memory_bytes=sum(ID_BYTES + 2 * len(name) for name in ids),
            first_expires=min(times, default=None),
            last_expires=max(times, default=None),
        )
        found.append(row)
    return tuple(sorted(found, key=lambda row: (-row.ids, row.pattern)))

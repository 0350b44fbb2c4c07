"""librdkafka as a producer of any age, and as the reader whose rows are kept beside the files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

from .cluster_clients import Item, producer_of, read, write

TIMEOUT_S = 30.0
#: Releases for which librdkafka writes message sets of a magic: the broker is taken for one of them.
OLD_BROKER = {0: "0.9.0.1", 1: "0.10.0.0"}

_TIMESTAMP_TYPES = {TIMESTAMP_NOT_AVAILABLE: "NoTimestampType", TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}


def items(first: int, count: int, timestamp: int, *, keys: int | None = None) -> list[Item]:
    """Records that compress, with nulls among them; with `keys`, as many keys recur, and every third record has
    its own: compaction leaves those, and gaps between them.

    Args:
        first: number of the first record. `timestamp`: of the first record, epoch milliseconds; a second between two.
        keys: number of keys that recur; None for a key of its own, or none, for each record.
    """
    made: list[Item] = []
    for number in range(first, first + count):
        own = number if number % 3 == 0 else number % (keys or 1)
        key = b"key-%d" % own if keys else (None if number % 5 == 3 else b"key-%d" % number)
        value = None if number % 7 == 4 and not keys else b"value %d of many, much alike" % number
        made.append((key, value, timestamp + 1000 * (number - first)))
    return made


def produce(
    bootstrap: str, topic: str, written: Iterable[Item], *, codec: str = "none", magic: int = 2, partition: int = 0
) -> None:
    """Writes one batch (or message set): `magic` 0 and 1 as clients of that time did.

    Args:
        written: key, value and timestamp of each record. `codec`: compression.
        magic: 2, or 0 or 1 for a message set as an old client writes it.
    """
    config: dict[str, Any] = {
        "compression.type": codec,
        "linger.ms": 1000,  # all that is given goes into one batch: flush() does not wait
    }
    if magic in OLD_BROKER:
        config |= {"api.version.request": False, "broker.version.fallback": OLD_BROKER[magic]}
    write(producer_of(bootstrap, config), topic, written, partition=partition)


def read_all(bootstrap: str, topic: str, partition: int) -> list[dict[str, Any]]:
    """All records of a partition, aborted and open ones too, as librdkafka reads them; markers it does not show.

    Args:
        partition: number. It is read from its beginning to its end.
    """
    found: list[dict[str, Any]] = []
    for message in read(bootstrap, [(topic, partition)], "truth", "read_uncommitted"):
        kind, timestamp = message.timestamp()
        found.append(
            {
                "offset": message.offset(),
                "timestamp": -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
                "timestamp_type": _TIMESTAMP_TYPES.get(kind, "CreateTime"),
                "key": _text(message.key()),
                "value": _text(message.value()),
            }
        )
    return found


def last_magic(partition: Path) -> int:
    """Magic of the last batch in a partition's newest segment, -1 if it has none."""
    data = max(partition.glob("*.log")).read_bytes()
    magic, position = -1, 0
    while position < len(data):
        magic = data[position + 16]
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return magic


def _text(data: bytes | str | Sequence[Any] | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else None

"""Making a broker compute producer state from nothing but logs, as after a crash: its own logs, and made-up ones."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from kafkawire.records import Record, build, build_marker

_DERIVED = ("*.snapshot", "*.txnindex", "*.index", "*.timeindex")

_BATCHES = 150


def forget(log_dir: Path, partitions: Iterable[str]) -> None:
    """Remove what a stopped broker has derived from the logs of `partitions` (directory names): it recovers them."""
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (log_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    for name in partitions:
        for pattern in _DERIVED:
            for path in (log_dir / name).glob(pattern):
                path.unlink()


def write_log(directory: Path, segments: Iterable[tuple[int, bytes]]) -> None:
    """Replace the log in a partition's directory of a stopped broker. `segments`: base offset and content of each."""
    for path in directory.glob("*.log"):
        path.unlink()
    for base_offset, data in segments:
        (directory / f"{base_offset:020}.log").write_bytes(data)


def made_up(seed: int, now: int) -> list[tuple[int, bytes]]:
    """A log that no broker would have accepted, and each must recover: epochs and sequence numbers that jump, markers
    without data, batches that compaction emptied, missing offsets. Only what a broker refuses even then is left out: a
    batch outside of transactions while its producer's transaction is open. And what compaction never does: an emptied
    marker of an open transaction.

    Args:
        now: epoch milliseconds; timestamps are near it, so that nothing expires.
    """
    draw = random.Random(seed)
    offset = 0
    segments: list[tuple[int, bytearray]] = [(0, bytearray())]
    open_: set[int] = set()
    for i in range(_BATCHES):
        if i and draw.random() < 0.06:
            segments.append((offset, bytearray()))
        producer_id = draw.choice([-1, *range(50_000, 50_006)])
        epoch = draw.choice([0, 0, 0, 1, 2]) if producer_id >= 0 else -1
        at = now + draw.randrange(1000)
        marker = producer_id >= 0 and draw.random() < 0.3
        if draw.random() < 0.08 and (marker or producer_id in open_):
            offset += draw.randrange(1, 4)  # never before an open transaction: librdkafka would not see the end
        if marker and (draw.random() < 0.9 or producer_id in open_):
            data = build_marker(
                draw.choice(["COMMIT", "ABORT"]),
                offset=offset,
                timestamp=at,
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=draw.randrange(3),
                partition_leader_epoch=0,
            )
            open_.discard(producer_id)
            count = 1
        else:
            transactional = producer_id >= 0 and (producer_id in open_ or marker or draw.random() < 0.6)
            count = draw.randrange(1, 4)
            emptied = marker or (producer_id >= 0 and draw.random() < 0.1)
            data = build(
                [] if emptied else [Record(b"%d" % i, b"%d-%d" % (i, n), timestamp=at) for n in range(count)],
                base_offset=offset,
                last_offset=offset + count - 1,
                append_time=at if emptied else None,  # compaction keeps the newest timestamp
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=-1 if marker else draw.choice([0, 5, 2**31 - 2, -1]) if producer_id >= 0 else -1,
                partition_leader_epoch=0,
                transactional=transactional,
                control=marker,
            )
            if transactional and not marker:
                open_.add(producer_id)
        segments[-1][1].extend(data)
        offset += count
    return [(base, bytes(data)) for base, data in segments]

"""The log directory of one broker, the same after a recovery, and the records that a read_committed consumer got.

`stopped/` is the log directory of a broker that was shut down cleanly; `recovered/` is what the same broker made of
some of its logs, and of made-up ones, without their snapshots and indexes: it computes producer state from nothing but
logs, as after a crash. `consumed.json` holds, of both, the last stable offsets and what a read_committed consumer got.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafkawire.records import Record, build, build_marker
from tools.broker import RunningCluster, cluster

from . import clients
from . import read_committed_workload as workload
from .log_copies import copy_logs
from .raw_client import RawCluster

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


# The recording --------------------------------------------------------------------------------------------------------

_MADE_UP = [f"made-up-{seed}" for seed in range(3)]
_RECOVERED = ["compacted", "deleted", *_MADE_UP]
CHECKPOINTS = ("meta.properties", "replication-offset-checkpoint", "log-start-offset-checkpoint")


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `stopped/`, `recovered/` and `consumed.json` in `folder`."""
    consumed = {}
    with cluster(1, config=dict(workload.CONFIG), cache=cache) as running:
        load = workload.Workload(running.bootstrap, running.log_dirs[1])
        load.create()
        load.act()
        clients.create_topics(running.bootstrap, dict.fromkeys(_MADE_UP, 1))
        consumed["stopped"] = _consumed(running, list(workload.TOPICS))
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / "stopped", workload.TOPICS, *CHECKPOINTS)
        forget(running.log_dirs[1], [f"{topic}-0" for topic in _RECOVERED])
        for seed, topic in enumerate(_MADE_UP):
            write_log(running.log_dirs[1] / f"{topic}-0", made_up(seed, load.now))
        running.start_node(1)
        consumed["recovered"] = _consumed(running, _RECOVERED)
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / "recovered", _RECOVERED, *CHECKPOINTS)
    (folder / "consumed.json").write_text(json.dumps(consumed, indent=1) + "\n")


def _consumed(running: RunningCluster, topics: list[str]) -> dict[str, Any]:
    with RawCluster(running.bootstrap) as wire:
        wire.leaders(topics)
    return {
        "last_stable_offset": workload.stable_offsets(running.bootstrap, topics),
        "records": workload.committed(running.bootstrap, topics),
    }

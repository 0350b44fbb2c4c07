"""Leaders, in-sync and eligible leader replicas (KIP-966) of two partitions, and what was at stake in an election.

`eligible` (min.insync.replicas=2): a follower that leaves becomes eligible, and leads again when the leader has gone.
`unclean`: its leader dies with records (acks=1) that the follower has not, and the follower is elected nonetheless.
`node-1/` has the log of the leader that died, `node-2/` that of its successor, both with `__cluster_metadata`;
`truth.json` says what was done.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tools.broker import cluster
from tools.polling import until

from .errors import RecordingError

NAME = "elections"
ELIGIBLE, UNCLEAN = "eligible", "unclean"
#: Records that both replicas have, and those that the old leader alone has.
BOTH, LOST = 5, 4
_SECONDS = 60.0
_TOPICS = {
    ELIGIBLE: {"min.insync.replicas": "2"},
    UNCLEAN: {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
}


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `node-1/`, `node-2/` and `truth.json` in `folder`."""
    with cluster(
        2, controllers=1, config={"replica.high.watermark.checkpoint.interval.ms": 500}, cache=cache
    ) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = [NewTopic(name, 1, replica_assignment=[[1, 2]], config=config) for name, config in _TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result(_SECONDS)
        for name in _TOPICS:
            _send(running.bootstrap, name, BOTH, acks="all")
        time.sleep(2)
        running.stop_node(2)
        _send(running.bootstrap, UNCLEAN, LOST, acks="1")
        time.sleep(2)
        running.kill_node(1)
        _copy(running.log_dirs[1], folder / "node-1")
        running.start_node(2)

        def led() -> bool | None:
            topics = admin.list_topics(timeout=5).topics
            return all(name in topics and topics[name].partitions[0].leader == 2 for name in _TOPICS) or None

        until(led, "elections", seconds=2 * _SECONDS)
        _send(running.bootstrap, UNCLEAN, 2, acks="1")
        time.sleep(2)
        running.stop_node(2)
        _copy(running.log_dirs[2], folder / "node-2")
    truth = {"lost": {"topic": UNCLEAN, "first_offset": BOTH, "records": LOST}}
    (folder / "truth.json").write_text(json.dumps(truth) + "\n")


def _send(bootstrap: str, topic: str, records: int, *, acks: str) -> None:
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks})
    for number in range(records):
        producer.produce(
            topic,
            str(number).encode(),
            partition=0,
            on_delivery=lambda error, _: failed.append(str(error)) if error is not None else None,
        )
    if producer.flush(_SECONDS) or failed:
        raise RecordingError(f"{topic}: not written: {failed[:1]}")


def _copy(log_dir: Path, to: Path) -> None:
    to.mkdir()
    for name in (*(f"{topic}-0" for topic in _TOPICS), "__cluster_metadata-0"):
        shutil.copytree(log_dir / name, to / name, ignore=shutil.ignore_patterns("*.index", "*.timeindex"))
    for path in log_dir.iterdir():
        if path.is_file() and path.name != ".lock":
            shutil.copy(path, to / path.name)

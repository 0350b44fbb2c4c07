"""Leaders, in-sync and eligible leader replicas (KIP-966) of two partitions, and what was at stake in an election.

`eligible` (min.insync.replicas=2): a follower that leaves becomes eligible, and leads again when the leader has gone.
`unclean`: its leader dies with records (acks=1) that the follower has not, and the follower is elected nonetheless.
`node-1/` has the log of the leader that died, `node-2/` that of its successor, both with `__cluster_metadata`;
`truth.json` lists the steps.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from tools.broker import cluster

from .cluster_clients import await_leader, place_topics, send_orders
from .log_copies import copy_logs

NAME = "elections"
ELIGIBLE, UNCLEAN = "eligible", "unclean"
#: Records that both replicas have, and those that the old leader alone has.
BOTH, LOST = 5, 4
_TOPICS = {
    ELIGIBLE: {"min.insync.replicas": "2"},
    UNCLEAN: {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
}
_COPIED = (*_TOPICS, "__cluster_metadata")


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `node-1/`, `node-2/` and `truth.json` in `folder`."""
    with cluster(
        2, controllers=1, config={"replica.high.watermark.checkpoint.interval.ms": 500}, cache=cache
    ) as running:
        place_topics(running.bootstrap, {name: ((1, 2), config) for name, config in _TOPICS.items()})
        for name in _TOPICS:
            send_orders(running.bootstrap, name, range(BOTH), acks="all")
        time.sleep(2)
        running.stop_node(2)
        send_orders(running.bootstrap, UNCLEAN, range(LOST), acks="1")
        time.sleep(2)
        running.kill_node(1)
        copy_logs(running.log_dirs[1], folder / "node-1", _COPIED, "*")
        running.start_node(2)
        await_leader(running.bootstrap, _TOPICS, 2)
        send_orders(running.bootstrap, UNCLEAN, range(2), acks="1")
        time.sleep(2)
        running.stop_node(2)
        copy_logs(running.log_dirs[2], folder / "node-2", _COPIED, "*")
    truth = {"lost": {"topic": UNCLEAN, "first_offset": BOTH, "records": LOST}}
    (folder / "truth.json").write_text(json.dumps(truth) + "\n")

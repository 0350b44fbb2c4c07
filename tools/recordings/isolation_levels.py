"""Log directories of 2.8, 3.9 and 4.4, and what Kafka's Java consumer got of them at both isolation levels.

Of each release, `<release>/node-1/` and `node-2/` are log directories of brokers that were stopped, and
`<release>/consumed.json` holds, by isolation level and topic, where the consumer began, the end that the broker named,
the position that it reached, and its records. An unclean election cut the topics that node 2 has, too.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tools.broker import cluster
from tools.oracle import Oracle

from .cluster_clients import copy_logs
from .errors import RecordingError
from .isolation_workload import REPLICATED, SINGLE, IsolationWorkload
from .read_committed import CHECKPOINTS
from .read_committed_workload import CONFIG

RELEASES = ("2.8.2", "3.9.1", "4.4.0")
LEVELS = ("read_committed", "read_uncommitted")
#: Of the consumer.
_CLIENT = "4.4.0"
_SECONDS = 120
#: Brokers write their checkpoints every five seconds.
_SETTLE_S = 7.0


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes the folders of all releases in `folder`."""
    for release in RELEASES:
        _record(release, folder / release, cache)


def _record(release: str, folder: Path, cache: Path | None) -> None:
    topics = {1: [*SINGLE, *REPLICATED], 2: [*REPLICATED]}
    with cluster(3, version=release, config={**CONFIG, "min.insync.replicas": 1}, cache=cache) as running:
        load = IsolationWorkload(running.bootstrap, running.log_dirs[1])
        load.create()
        load.cut(running)
        load.act()
        consumed = _consumed(running.bootstrap, topics[1])
        time.sleep(_SETTLE_S)
        for node, names in sorted(topics.items(), reverse=True):
            running.stop_node(node)
            checkpoints = (*CHECKPOINTS, "cleaner-offset-checkpoint")
            copy_logs(running.log_dirs[node], folder / f"node-{node}", names, *checkpoints)
    (folder / "consumed.json").write_text(json.dumps(consumed, indent=1) + "\n")


def _consumed(bootstrap: str, topics: list[str]) -> dict[str, Any]:
    with Oracle(_CLIENT) as oracle:
        questions = ({"op": "consume", "bootstrap": bootstrap, "isolation": level, "topics": topics,
                      "seconds": _SECONDS} for level in LEVELS)  # fmt: skip
        answers = dict(zip(LEVELS, oracle.ask(questions), strict=True))
    for level, answer in answers.items():
        if "error" in answer:
            raise RecordingError(f"the {level} consumer: {answer['error']}: {answer['text']}")
    return {level: answer["topics"] for level, answer in answers.items()}

"""`logs_of`: the logs that copied directories are replicas of, and which of several replicas is read.

A log is known by its cluster, its topic's id and its partition, wherever its files are: a topic that was deleted and
created again has another id, and is another log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from kafkawire.logdir import Partition
from kafkawire.logdir.directory import EPOCHS
from kafkawire.logdir.entries import EpochLine
from kafkawire.logdir.file_names import TIERED
from kafkawire.logdir.tiers import epoch_lines

T = TypeVar("T")
#: The number of files of a store that are read at a time.
_AT_ONCE = 32
#: The option `replicas`.
REPLICAS = ("one", "all")


class LogId(NamedTuple):
    """The identity of a log.

    Attributes:
        cluster, topic_id: empty where the directories do not contain them.
        directory: of the only replica, where neither says what it is a replica of, or where each replica is read.
    """

    cluster: str
    topic: str
    topic_id: str
    partition: int
    directory: str = ""

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def may_be(self, other: LogId) -> bool:
        """Whether they are the same where one is known better than the other: since a file is there that was not."""
        known = ((self.cluster, other.cluster), (self.topic_id, other.topic_id))
        return self.place == other.place and all(one == another or not (one and another) for one, another in known)

    def is_new(self, before: LogId) -> bool:
        """Whether a topic of the same name was there before, in the same cluster."""
        return (
            self.place == before.place
            and self.cluster == before.cluster
            and bool(self.topic_id and before.topic_id)
            and self.topic_id != before.topic_id
        )


class CopiedLog(NamedTuple):
    """A log and its replicas, the one that is read first."""

    id: LogId
    replicas: tuple[Partition, ...]

    @property
    def replica(self) -> Partition:
        """The one that is read."""
        return self.replicas[0]


def logs_of(
    replicas: Iterable[Partition], *, every: bool = False, named: Collection[str] = (), identified: bool = True
) -> list[CopiedLog]:
    """The logs of which these are replicas, and the replica of each that is read: of those in use, the one with the
    newest leader epoch, as its leader and the followers in sync with that have it; of several, the one with the highest
    high watermark, then the one that begins first (a follower applies retention to its own segments). Where no high
    watermark is known, the one with the last segment.

    Args:
        every: each replica is read, as a log of its own.
        named: paths of files: replicas with one of them are read in any case, as logs of their own.
        identified: ids of topics are read of all; otherwise of those names only of which there are several replicas.
    """
    found = list(replicas)
    names = Counter((one.topic, one.partition) for one in found)
    several = [one for one in found if identified or (not every and names[one.topic, one.partition] > 1)]
    of_replicas(lambda one: one.files[0].listed_whole and (one.topic_id, one.small_file(EPOCHS)), several)

    def id_of(one: Partition) -> str:
        needed = identified or (not every and names[one.topic, one.partition] > 1)
        return "" if not needed or one.topic_id is None else str(one.topic_id)

    clusters = {one.broker.cluster_id for one in found} - {None}
    only = next(iter(clusters)) if len(clusters) == 1 else None
    ids: dict[tuple[str, str, int], set[str]] = {}
    for one in found:
        place = one.broker.cluster_id or only or "", one.topic, one.partition
        ids.setdefault(place, set()).update(filter(None, (id_of(one),)))
    logs: dict[LogId, list[Partition]] = {}
    for one in found:
        cluster = one.broker.cluster_id or only or ""
        known = ids[cluster, one.topic, one.partition]
        of_cluster = next(iter(known)) if cluster and len(known) == 1 else ""
        topic_id = id_of(one) or of_cluster
        alone = (
            every
            or one.state == TIERED
            or not (topic_id or (cluster and not known))
            or any(file.path in named for file in one.files)
        )
        logs.setdefault(LogId(cluster, one.topic, topic_id, one.partition, one.path if alone else ""), []).append(one)
    return [CopiedLog(id, ordered(of_log)) for id, of_log in logs.items()]


def lineage(replica: Partition) -> list[EpochLine]:
    """The leader epochs of a replica, by its `leader-epoch-checkpoint`; empty where that is not there or damaged."""
    return epoch_lines(replica.small_file(EPOCHS))


def ordered(replicas: list[Partition]) -> tuple[Partition, ...]:
    """The replicas of a log, the one that is read first: see `logs_of`."""
    if len(replicas) == 1:
        return tuple(replicas)
    return tuple(sorted(replicas, key=_reach, reverse=True))


def of_replicas(read: Callable[[Partition], T], replicas: Iterable[Partition]) -> list[T]:
    """What is read of replicas, in their order. Of those in stores, many are read at a time: each waits for its store.

    Raises:
        OSError: as `read` does.
    """
    todo = list(replicas)
    if not any(one.files[0].listed_whole for one in todo):
        return [read(one) for one in todo]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(read, todo))


def _reach(replica: Partition) -> tuple[bool, int, int, int, int, str]:
    mark, lines = replica.high_watermark, lineage(replica)
    bases = [one.offset or 0 for one in replica.segments] or [-1]
    epoch = lines[-1].epoch if lines else -1
    furthest = bases[-1] if mark is None else -bases[0]
    return not replica.state, epoch, -1 if mark is None else mark, furthest, bases[-1], replica.path

"""A replica is read: its facts, or why there are none. Whatever is raised in it costs this replica only."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.logdir import Unreadable
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge
from kafkawire.transactions.failed_reading import reason_of
from kafkawire.transactions.parts.part_columns import PartColumns

Outcome = ReplicaFacts | Unreadable


def read_whole(replica: AuditedReplica, progress: Callable[[int], None] | None = None) -> Outcome:
    """Read one replica. `progress`: see `read_part`."""
    reading = ReplicaReading(replica)
    reading.read(progress)
    return reading.result()


class ReplicaReading:
    """The merge of a replica's parts."""

    def __init__(self, replica: AuditedReplica) -> None:
        self._replica = replica
        self._failed: str | None = None
        self._merge: ReplicaMerge | None = None

    def take(self, segment: int, part: PartColumns) -> None:
        """Take the next part."""
        if self._failed is None:
            try:
                self._merging().take(segment, part)
            except Exception as error:
                self._fail(error)

    def read(self, seen: Callable[[int], None] | None) -> None:
        """Read all segments. `seen`: see `read_part`."""
        for segment in range(len(self._replica.partition.segments)):
            self.read_segment(segment, seen)

    def read_segment(self, segment: int, seen: Callable[[int], None] | None, start: int = 0, size: int = 0) -> None:
        """Read the next segment, from one of its bytes on. `size`: see `batches_of`."""
        if self._failed is None:
            try:
                self._merging().read(segment, seen, start, size)
            except Exception as error:
                self._fail(error)

    def result(self, check: Callable[[], None] | None = None) -> Outcome:
        """The facts, once all parts were taken. `check`: see `with_impacts`."""
        if self._failed is None:
            try:
                return self._merging().facts(check)
            except Exception as error:
                self._fail(error)
        return Unreadable(self._replica.partition.path, self._failed or "")

    def _merging(self) -> ReplicaMerge:
        if self._merge is None:
            self._merge = ReplicaMerge(self._replica)
        return self._merge

    def _fail(self, error: Exception) -> None:
        self._failed, self._merge = reason_of(error), None

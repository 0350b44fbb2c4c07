"""A replica is read: its facts, or why there are none. Whatever is raised in it costs this replica only."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.logdir import Unreadable
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge
from kafkawire.transactions.failed_reading import reason_of

Outcome = ReplicaFacts | Unreadable


def read_whole(replica: AuditedReplica, progress: Callable[[int], None] | None = None) -> Outcome:
    """Read one replica. `progress`: see `read_part`."""
    return outcome_of(replica, lambda merge: merge.read_all(progress))


def outcome_of(
    replica: AuditedReplica, read: Callable[[ReplicaMerge], None], check: Callable[[], None] | None = None
) -> Outcome:
    """The facts of one replica. `read`: gives all of it to the merge. `check`: see `with_impacts`."""
    try:
        merge = ReplicaMerge(replica)
        read(merge)
        return merge.facts(check)
    except Exception as error:
        return Unreadable(replica.partition.path, reason_of(error))

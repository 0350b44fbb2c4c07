"""`fate`: what became of an offset in a share group, by the group's state and by what the partition has there. Pure.

A state says that a record is archived, and not why. The reason follows from what the partition has there, from the
delivery count, and from copies in the dead-letter topic, as far as these show it.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.share_groups.delivery_states import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    delivery_state_name,
)
from kafkawire.share_groups.state_runs import Run

#: What the partition has at an offset.
RECORD, ABORTED, OPEN, UNDECIDED, NO_RECORD, DELETED, UNREAD = (
    "record", "aborted", "open", "undecided", "no_record", "deleted", "unread",
)  # fmt: skip

#: Causes that brokers write into copies in a dead-letter topic (`ShareGroupDLQManager`) -> reason.
DEAD_LETTER_CAUSES = {
    "Offset rejected by client.": "rejected",
    "Offset delivery count exceeded the threshold.": "delivery_limit",
}


class Fate(NamedTuple):
    """What an offset is to a group.

    Attributes:
        status: a delivery state's name, or no_record, before_start, skipped, unknown.
        reason: why; None where there is nothing to add. deliveries: how often it was delivered; None: not known.
    """

    status: str
    reason: str | None = None
    deliveries: int | None = None


class Known(NamedTuple):
    """What is known of a group in a partition.

    Attributes:
        start: the first offset that it has not finished with; None: no record has one.
        begun_at: the lowest offset at which it began, by the records. from_start: nothing before the records is
            missing.
        limit: of delivery counts; None: not known. limit_at_least: it is not lower.
        read_committed: of the group; None: not known.
    """

    start: int | None
    begun_at: int | None
    from_start: bool
    limit: int | None = None
    limit_at_least: int = 0
    read_committed: bool | None = None


def fate(run: Run | None, held: str, known: Known, place: str, cause: str | None = None) -> Fate:
    """What an offset is.

    Args:
        run: what the state has for it; None: nothing.
        held: what the partition has there.
        known: of the group.
        place: `below` the start offset of the group, `from` it on, in a `skipped` range, or `before` the group began.
        cause: of its copy in the dead-letter topic, a reason.
    """
    if run is not None:
        return _stated(run, held, known, cause)
    if place == "skipped":
        return Fate("skipped", "reset")
    if place == "before":
        return Fate("before_start") if known.from_start else Fate("unknown", "state_removed")
    if held == NO_RECORD:
        return Fate("no_record")
    if held == UNREAD:
        return Fate("unknown", "unread")
    if held == ABORTED and known.read_committed:
        return Fate("archived", "aborted", 0)
    if place == "from":
        return _undelivered(held, known)
    if held == DELETED:
        return Fate("archived", "below_log_start", None)
    # The start offset passed it, and no record says why.
    return Fate("unknown", "no_state")


def _undelivered(held: str, known: Known) -> Fate:
    """An offset from the start on of which the state says nothing: no delivery of it has ended."""
    if held == DELETED:
        return Fate("archived", "below_log_start", 0)
    if held == OPEN and known.read_committed:
        return Fate("available", "open_transaction", 0)
    if held in (OPEN, ABORTED, UNDECIDED) and known.read_committed is None:
        return Fate("available", "isolation_not_known", 0)
    if held == UNDECIDED:
        return Fate("available", "outcome_not_known", 0)
    return Fate("available", "never_delivered", 0)


def _stated(run: Run, held: str, known: Known, cause: str | None) -> Fate:
    count = run.deliveries
    if run.state == ARCHIVED or run.state == ARCHIVING:
        return Fate(delivery_state_name(run.state), cause or _why_archived(count, held, known), count)
    if run.state == AVAILABLE:
        if held == DELETED:
            return Fate("archived", "below_log_start", count)
        return Fate("available", "delivered_before" if count else "never_delivered", count)
    if run.state == ACKNOWLEDGED:
        return Fate("acknowledged", None, count)
    return Fate("unknown", delivery_state_name(run.state), count)


def _why_archived(count: int, held: str, known: Known) -> str:
    if held == NO_RECORD:
        return "no_record"
    below = count < (known.limit_at_least if known.limit is None else known.limit)
    if held in (DELETED, UNREAD):
        return "rejected_or_no_record" if below else "not_known"
    return "rejected" if below else "delivery_limit_or_rejected"

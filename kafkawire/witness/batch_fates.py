"""The fates of produced batches, as data: the response and what copies show -> a fate, and the rule it breaks."""

from __future__ import annotations

from typing import NamedTuple

#: What the answer to a sent batch was, in the order of what it proves: REFUSED (an error), NO_ACKS (acks=0: there is no
#: answer), UNANSWERED (none was captured), UNREAD (one was captured and cannot be read), ACKED.
REFUSED, NO_ACKS, UNANSWERED, UNREAD, ACKED = range(5)
RESPONSES = ("refused", "no_acks", "unanswered", "undecoded", "acknowledged")

#: What copies show of a batch. From LOST on an answer is proven; before it are the reasons why there is none.
(
    NO_COPY, NOT_FOUND, NO_OFFSET, ABOVE_LOG_END, ABOVE_HIGH_WATERMARK, UNREADABLE, TRUNCATED,
    COMPACTION_NOT_PROVEN, COPIES_DIFFER, DAMAGED, AMBIGUOUS, REWRITTEN, NOT_LATER, OTHER_LOG, LOST, DELETED, COMPACTED,
    CHANGED, ELSEWHERE, TWICE, HELD,
) = range(21)  # fmt: skip

#: Why a fate is unknown.
REASONS = {
    NO_COPY: ("no_copy", "no log that was given is of the partition"),
    NOT_FOUND: ("not_found", "no answer was captured, and no copy has the batch: it may never have arrived"),
    NO_OFFSET: ("no_offset", "the answer names no offset, and no copy has the batch"),
    ABOVE_LOG_END: ("above_log_end", "all copies end before the offset: they may be older than the answer"),
    ABOVE_HIGH_WATERMARK: ("above_high_watermark", "the copy has other data there, and none of it is committed"),
    UNREADABLE: ("unreadable", "the copy's bytes at the offset are damaged or missing"),
    TRUNCATED: ("truncated", "the copy ends before the offset, and its checkpoints show that it reached further"),
    COMPACTION_NOT_PROVEN: ("compaction_not_proven", "nothing is there, and no checkpoint shows that it was compacted"),
    COPIES_DIFFER: ("copies_differ", "a copy that is not the newest has other data at the offset"),
    CHANGED: ("other_records", "other records are held under its producer id, epoch and sequence"),
    NOT_LATER: (
        "copy_may_be_older",
        "other data is at the offset, and the copy holds nothing that was sent after the answer",
    ),
    OTHER_LOG: ("other_log", "nothing shows that the copy is of the log that the captures show"),
    DAMAGED: ("damaged_copy", "the copy is damaged: a batch in it may lie at another offset than its header says"),
    REWRITTEN: ("rewritten", "it has no sequence, and compaction or compression changed the bytes at its offset"),
    AMBIGUOUS: ("ambiguous", "several batches with these records were sent without idempotence, and some are held"),
}  # fmt: skip


class Fate(NamedTuple):
    """What became of a batch.

    Attributes:
        name: in rows. anomaly: whether a promise of Kafka's is broken. rule: which one, a sentence.
        hint: the KIP, or the kind of fault that leaves such traces.
    """

    name: str
    anomaly: bool = False
    rule: str = ""
    hint: str = ""


FATES = (
    Fate("held"),
    Fate(
        "held_elsewhere",
        True,
        "an acknowledged batch has the offset that its answer names",
        "the log was cut and written again, or the copy is of another log",
    ),
    Fate(
        "held_twice",
        True,
        "a batch that is sent again is appended once",
        "no idempotence (enable.idempotence=false), or the state of the producer was lost and reset (KIP-360)",
    ),
    Fate(
        "changed",
        True,
        "the log holds the records that were sent under a producer id, epoch and sequence",
        "a producer id that two producers use, or bytes that changed in the broker",
    ),
    Fate(
        "lost",
        True,
        "an acknowledged batch stays in the log",
        "an unclean leader election, or acks=1 and a leader that failed before its followers had the batch",
    ),
    Fate("compacted"),
    Fate("deleted"),
    Fate("unacknowledged_held"),
    Fate("refused"),
    Fate("refused_held"),
    Fate("unknown"),
)
NAMES = tuple(fate.name for fate in FATES)
(
    F_HELD, F_ELSEWHERE, F_TWICE, F_CHANGED, F_LOST, F_COMPACTED, F_DELETED, F_UNACKED, F_REFUSED, F_REFUSED_HELD,
    F_UNKNOWN,
) = range(len(FATES))  # fmt: skip

#: Errors after which the batch may be in the leader's log: REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, and
#: UNKNOWN_SERVER_ERROR, which says nothing.
MAY_BE_HELD = (7, 20, -1)
#: What a broker answers for a batch that it has: to a client it is success (KIP-98).
DUPLICATE_SEQUENCE_NUMBER = 46


def fate_of(response: int, seen: int) -> int:
    """The fate of a batch. That a refused batch is held breaks no promise: it may have been sent at another time, too,
    which no capture shows.

    Args:
        response: the best of its answers. seen: what copies show.
    """
    if response == ACKED:
        return {
            HELD: F_HELD, ELSEWHERE: F_ELSEWHERE, TWICE: F_TWICE, CHANGED: F_CHANGED, LOST: F_LOST,
            COMPACTED: F_COMPACTED, DELETED: F_DELETED,
        }.get(seen, F_UNKNOWN)  # fmt: skip
    if response == REFUSED:
        return F_REFUSED_HELD if seen in (HELD, ELSEWHERE, TWICE) else F_REFUSED
    if seen == TWICE:
        return F_TWICE
    return F_UNACKED if seen in (HELD, ELSEWHERE) else F_UNKNOWN

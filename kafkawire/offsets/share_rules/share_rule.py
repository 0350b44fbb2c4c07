"""`StepRule` and `StandingRule`: what the rules of share groups consist of, and what they judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.share_groups.fold import ShareState, Step
from kafkawire.transactions.answers import Tally

#: Why a step cannot be judged.
FIRST_SEEN = "records before it may have been removed: the state before is not known"
#: Why a standing cannot be judged.
NO_PARTITION = "the partition of the share group was not read"
DAMAGED = "not all of the state could be read"

#: Records of one share partition, of which one breaks a rule: kind (begin, update, snapshot, cold, tombstone), start
#: offset, snapshot epoch, state epoch, leader epoch, and runs: first and last offset, state, delivery count.
FaultRecord = tuple[str, int, int, int, int, tuple[tuple[int, int, int, int], ...]]
Fault = tuple[FaultRecord, ...]
#: The first record of a state: a group that begins at offset 0.
BEGIN: FaultRecord = ("begin", 0, 0, 1, 0, ())


class StandingFault(NamedTuple):
    """A share partition that breaks a rule, in the recorded cluster `tools.recordings.share_groups`.

    Attributes:
        records: of its state.
        topic: `orders` has more than 50 records, `ledger` committed and aborted transactions (offsets 0 to 3 and 4 to
            7), `gone` was removed.
        letters: offsets of the copies in the dead-letter topic, in order; None: the group has none.
    """

    records: Fault
    topic: str = "orders"
    letters: tuple[int, ...] | None = None


class ShareStep(NamedTuple):
    """A record, what it changed, and what is known beside it.

    Attributes:
        step: the fold's. name: of the share partition, for sentences.
        limit: the delivery count limit; None: not known.
    """

    step: Step
    name: str
    limit: int | None = None

    def neighbours(self, tally: Tally) -> tuple[ShareState, ShareState] | None:
        """The states before and after an update or a snapshot that continues one; None where there is no such step, or
        the state before is not known, which is noted."""
        before, after = self.step.before, self.step.after
        if after is None or self.step.restarted:
            return None
        if before is None:
            tally.lack(FIRST_SEEN, int(self.step.first_seen))
            return None
        return before, after

    def judged(self, tally: Tally, problem: str | None) -> None:
        """Count a violation, or, without a problem, a step that holds."""
        if problem is None:
            tally.held += 1
        else:
            self.breach(tally, problem)

    def breach(self, tally: Tally, what: str) -> None:
        """Count a violation."""
        tally.breach(self.step.record.offset, -1, f"{self.name}: {what}")


class StepRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of each record of `__share_group_state`.

    Attributes:
        name: of the check. sentence: what it asks for. source: the KIP or the class of Kafka.
        judge: counts a step as held, violated or not checkable.
        faults: name -> records that break it.
    """

    name: str
    sentence: str
    source: str
    judge: Callable[[ShareStep, Tally], None]
    faults: Mapping[str, Fault]


class StandingRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of a share partition as a whole, beside what the partition and the dead-letter topic hold.

    Attributes:
        name, sentence, source: see `StepRule`.
        judge: counts what it judges.
        faults: name -> a share partition that breaks it.
    """

    name: str
    sentence: str
    source: str
    judge: Callable[[ShareExplained, Tally], None]
    faults: Mapping[str, StandingFault]

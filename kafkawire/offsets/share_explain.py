"""`ShareExplained`: the rows of a share group in one partition, and the story of one offset. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from kafkawire.offsets.dead_letters import DeadLetterCauses, Letter
from kafkawire.offsets.share_copies import ShareSource
from kafkawire.offsets.share_fates import FateRun, Held, ShareSummary, fate_runs
from kafkawire.offsets.share_settings import ShareSettings
from kafkawire.offsets.statuses import joined
from kafkawire.rows import DeadLetter, Row, RowOrigin, SharePartitionState, ShareRange, ShareStep
from kafkawire.share_groups.delivery_states import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE, delivery_state_name
from kafkawire.share_groups.fold import Step
from kafkawire.share_groups.record_fates import Known

#: What records never show.
_ACQUIRED = (
    "which records members hold now (acquired), and the deliveries that these are: a partition's leader keeps them in "
    "memory, so that they count as available here"
)
_NO_PARTITION = "what the partition holds at these offsets: it was not read"


class PartitionBounds(NamedTuple):
    """Offsets of a partition: the log start, the last stable one, or the least that it may be, and the high watermark.
    `stable_at_most`: the highest that the last stable one may be; 0: `stable`."""

    log_start: int
    stable: int
    high: int
    stable_at_most: int = 0


class ShareExplained:
    """A share group in one partition, beside what the partition holds.

    Args:
        source: the records of the group's state.
        settings: of the group.
        bounds: of the partition; None: it could not be read.
        holds: what the partition holds up to an offset, from 0 on, anew each time.
        letters: the copies of its records in the dead-letter topic, anew each time.
        problems: what could not be read, a sentence each; it grows with what is read.
        letters_doubt: why copies in the dead-letter topic may be missing that were there; None: they are not.
        current: whether the start offset by the records is the one that the coordinator answers.
    """

    def __init__(
        self,
        source: ShareSource,
        settings: ShareSettings,
        bounds: PartitionBounds | None,
        holds: Callable[[int], Iterable[Held]],
        letters: Callable[[], Iterable[Letter]],
        problems: list[str],
        letters_doubt: str | None = None,
        *,
        current: bool = True,
    ) -> None:
        self.letters_doubt, self.current = letters_doubt, current
        self.source, self.settings, self.bounds, self.problems = source, settings, bounds, problems
        self._holds, self._letters = holds, letters

    @property
    def name(self) -> str:
        """For sentences."""
        key = self.source.key
        return f"group {key.group!r} in {self.source.topic or key.topic_id}-{key.partition}"

    @property
    def origin(self) -> RowOrigin:
        return {"file": self.source.path, "topic": self.source.topic, "partition": self.source.key.partition}

    @property
    def end(self) -> int:
        """The high watermark; where the partition is not here, the last offset that the state names, and one."""
        if self.bounds is not None:
            return self.bounds.high
        state = self.source.history.state
        runs = () if state is None else state.runs
        return max([0 if state is None else state.start_offset, *(run.last + 1 for run in runs)], default=0)

    def known(self) -> Known:
        state, history = self.source.history.state, self.source.history
        return Known(
            start=None if state is None or state.start_offset < 0 else state.start_offset,
            begun_at=history.begun_at,
            from_start=history.from_start,
            limit=self.settings.limit,
            limit_at_least=history.limit_at_least,
            read_committed=self.settings.read_committed,
        )

    def letters(self) -> Iterator[Letter]:
        """The copies of its records in the dead-letter topic."""
        key = self.source.key
        if self.settings.dead_letter_topic is None or self.source.topic is None:
            return
        for one in self._letters():
            if (one.group, one.topic, one.partition) == (key.group, self.source.topic, key.partition):
                yield one

    def fate_runs(self) -> Iterator[FateRun]:
        """The fates of all offsets below the end."""
        history, end = self.source.history, self.end
        runs = chain(self.source.finished(), () if history.state is None else history.state.runs)
        letters = None if self.settings.dead_letter_topic is None else DeadLetterCauses(self.letters())
        yield from fate_runs(self._holds(end), runs, self.known(), history.skipped, letters)

    def rows(self, most: int | None) -> Iterator[Row]:
        """The rows of `explain_shares` for this partition."""
        summary = ShareSummary(most or 1, self.source.key.group, self.origin)

        def counted() -> Iterator[FateRun]:
            for fated in self.fate_runs():
                summary.add(fated)
                yield fated

        if most is None:
            yield self.row()
            fates = joined(counted(), lambda one, two: one._replace(last=two.last) if one.fate == two.fate else None)
            yield from map(summary.row, fates)
        else:
            for _ in counted():
                pass
            yield self.row()
            yield from summary.ranges()
        yield from summary.totals()

    def row(self) -> SharePartitionState:
        """The state, as a row."""
        history, settings = self.source.history, self.settings
        state, bounds = history.state, self.bounds
        unseen = [_ACQUIRED, *settings.unseen]
        if bounds is None:
            unseen.append("what the partition held: the topic was removed" if self.source.gone else _NO_PARTITION)
        return SharePartitionState(
            **self.origin,
            group=self.source.key.group,
            topic_id=str(self.source.key.topic_id),
            start_offset=None if state is None or state.start_offset < 0 else state.start_offset,
            end_offset=None if bounds is None else bounds.high,
            log_start_offset=None if bounds is None else bounds.log_start,
            last_stable_offset=None if bounds is None else bounds.stable,
            delivery_complete_count=None if state is None or state.complete < 0 else state.complete,
            snapshot_epoch=None if state is None else state.snapshot_epoch,
            state_epoch=None if state is None else state.state_epoch,
            leader_epoch=None if state is None else state.leader_epoch,
            delivery_count_limit=settings.limit,
            delivery_count_limit_at_least=history.limit_at_least or None,
            isolation_level=settings.isolation_level,
            dead_letter_topic=settings.dead_letter_topic,
            from_start=history.from_start,
            records=history.steps,
            as_of=None if state is None else state.written,
            deleted=state is None,
            unseen=tuple(unseen),
            problems=tuple(dict.fromkeys((*self.source.problems, *self.problems))),
        )

    def story(self, offset: int) -> Iterator[Row]:
        """The story of one offset: its `ShareRange`, a `ShareStep` for each record of the state that says something of
        it, and a `DeadLetter` for each copy of it."""
        found = next((row for row in self.rows(None) if _covers(row, offset)), None)
        yield self.row()
        if found is not None:
            yield found
        for step in self.source.steps():
            row = self._step(step, offset)
            if row is not None:
                yield row
        topic = self.settings.dead_letter_topic
        for one in self.letters():
            if one.offset == offset:
                yield DeadLetter(
                    **self.origin,
                    group=one.group,
                    offset=offset,
                    copy_topic=topic or "",
                    copy_partition=one.copy_partition,
                    copy_offset=one.copy_offset,
                    timestamp=one.timestamp,
                    delivery_count=one.deliveries,
                    cause=one.cause,
                )

    def _step(self, step: Step, offset: int) -> ShareStep | None:
        what, run = told(step, offset)
        if what is None:
            return None
        value = step.record.value
        return ShareStep(
            **self.origin,
            group=self.source.key.group,
            offset=offset,
            state_partition=self.source.number,
            state_offset=step.record.offset,
            timestamp=step.record.timestamp,
            record="tombstone" if value is None else "snapshot" if step.record.snapshot else "update",
            status=None if run is None else delivery_state_name(run[0]),
            delivery_count=None if run is None else run[1],
            start_offset=None if step.after is None else step.after.start_offset,
            leader_epoch=None if step.after is None else step.after.leader_epoch,
            snapshot_epoch=None if step.after is None else step.after.snapshot_epoch,
            what=what,
        )


def _covers(row: Row, offset: int) -> bool:
    return isinstance(row, ShareRange) and row.first_offset <= offset <= row.last_offset


def told(step: Step, offset: int) -> tuple[str | None, tuple[int, int] | None]:
    """The statement of a record about an offset: a sentence, and its state and delivery count; None where it says
    nothing."""
    before, after = step.before, step.after
    if after is None:
        return "the group's state in this partition is deleted", None
    was = None if before is None else next((r for r in before.runs if r.first <= offset <= r.last), None)
    is_ = next((r for r in after.runs if r.first <= offset <= r.last), None)
    named = next((r for r in step.record.runs if r.first <= offset <= r.last), None)
    start_was = -1 if before is None else before.start_offset
    if step.restarted:
        what = "the group begins here" if before is None else "the group's offset was set by an administrator"
        where = "a leader chooses it" if after.start_offset < 0 else f"offset {after.start_offset}"
        return f"{what}: {where}", None
    if named is not None and (was is None or was.rank != named.rank) and (is_ is None or is_.rank == named.rank):
        return _SENTENCES.get(named.state, "is in a state that Kafka does not know").format(count=named.deliveries), (
            named.state,
            named.deliveries,
        )
    if named is not None and is_ is not None and is_.rank != named.rank:
        written, kept = delivery_state_name(named.state), delivery_state_name(is_.state)
        text = f"{written} at delivery {named.deliveries} does not count: {kept} at delivery {is_.deliveries} is later"
        return text, (named.state, named.deliveries)
    if start_was <= offset < after.start_offset and (before is not None or after.runs):
        left = "" if was is None else f", as {delivery_state_name(was.state)}"
        return f"the start offset passes it{left}: the group has finished with it", None
    return None, None


_SENTENCES = {
    AVAILABLE: "available again after delivery {count}: released, or not acknowledged in time",
    ACKNOWLEDGED: "acknowledged at delivery {count}",
    ARCHIVING: "on its way to the dead-letter topic after delivery {count}",
    ARCHIVED: "archived at delivery {count}: it is not delivered again",
}

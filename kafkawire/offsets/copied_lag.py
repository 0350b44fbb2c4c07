"""The lag of a group by copies of log directories: every batch from its offset on is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkawire.logdir import Outcomes, Partition, Selection, outcomes_of
from kafkawire.logdir.offset_scan import gaps_between
from kafkawire.logdir.seek import wanted_files
from kafkawire.logdir.splits import batches_from
from kafkawire.offsets.lag_count import LagCounter
from kafkawire.offsets.lag_row import Standing, unread_row
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.lineage import lineage
from kafkawire.records import Batch
from kafkawire.records.columns import header_arrays
from kafkawire.rows import Lag
from kafkawire.transactions.blocking.blockers import GroupView, Place

_LOST = "offsets are missing, or damaged"


def copied_lags(
    replicas: LeadingReplicas,
    view: GroupView,
    as_of: int | None,
    places: Iterable[Place] | None = None,
    held_by: dict[Place, list[str]] | None = None,
) -> Iterator[Lag]:
    """A row for each partition of a group, in order.

    Args:
        as_of: the clock, epoch milliseconds; None: not known.
        places: only these partitions; None: those of the group.
        held_by: what holds the last stable offset of a partition; None: what its log shows of it.
    """
    held = {place for found in view.held.values() for place in found} | view.unexplained
    metadata = replicas.metadata
    for place in sorted(view.partitions if places is None else places):
        leading, committed = replicas.of(*place), view.committed.get(place)
        if leading is None:
            yield unread_row(view.group, *place, "no copy of it is here", committed)
            continue
        try:
            outcomes = outcomes_of(leading.partition)
        except OSError as error:
            yield unread_row(view.group, *place, f"{leading.partition.path}: {error.strerror or error}", committed)
            continue
        # A log that ends before the high watermark of the checkpoint lacks its end: any of that may be records.
        high = max(outcomes.high_watermark, leading.partition.high_watermark or 0)
        cut = outcomes.last_stable_at_most >= outcomes.high_watermark
        standing = Standing(
            group=view.group,
            topic=place[0],
            partition=place[1],
            committed=committed,
            log_start=leading.partition.log_start_offset or 0,
            stable=outcomes.last_stable_offset,
            high=high,
            stable_at_most=high if cut else outcomes.last_stable_at_most,
            unstable=place in held,
        )
        counter = standing.counter()
        problems = _count(leading.partition, outcomes, counter)
        problems += [f"{path}: {damage.detail or damage.reason}" for path, damage in outcomes.damage]
        if leading.doubt is not None:
            problems.append(leading.doubt)
        problems += _deleted(leading.partition, standing)
        yield standing.row(
            counter,
            as_of=as_of,
            settings=None if metadata is None else metadata.topic_configs.get(place[0], {}),
            held_by=_open(outcomes) if held_by is None else held_by.get(place, ()),
            problems=problems,
        )


def _deleted(partition: Partition, standing: Standing) -> Iterator[str]:
    """Why records that the group has not read may be deleted, where no checkpoint says where the log begins: a broker
    that deletes records removes what is below them from the leader epochs at once (`LeaderEpochFileCache`)."""
    begins = next((line.start_offset for line in lineage(partition)), 0)
    if max(standing.log_start, standing.start) < begins <= standing.high:
        what = "records below may be deleted, and log-start-offset-checkpoint does not say so"
        yield f"{partition.path}: its leader epochs begin at offset {begins}: {what}"


def _open(outcomes: Outcomes) -> list[str]:
    """The transactions that are open in a log, in the order of their first offsets."""
    open_ = sorted(zip(outcomes.ongoing.first.tolist(), outcomes.ongoing.producer_id.tolist(), strict=True))
    return [f"producer {producer} (open) from offset {first}" for first, producer in open_]


def _count(partition: Partition, outcomes: Outcomes, counter: LagCounter) -> list[str]:
    """Counts the batches from the group's offset up to the high watermark. Returns what could not be read."""
    problems, seen, reached = list[str](), 0, counter.start
    files = list(wanted_files(partition.segments, Selection(offsets=(reached, None))))
    if files and (first := files[0].offset or 0) > reached:
        counter.unread(reached, first, "offsets before the first segment are in no file here")
        reached = first
    below = [file for file in files if (file.offset or 0) < counter.high]
    for _, item in batches_from(below, counter.start, problems.append):
        found = item.measured() if isinstance(item, Batch) else item
        base, last = header_arrays(found, "base_offset", "last_offset")
        known = max(reached, outcomes.cleaned_to)
        if len(problems) > seen:  # a cleaner explains nothing there
            counter.unread(reached, min(known, int(base[0])), _LOST)
            seen = len(problems)
        for first, end in gaps_between(base, last + 1, known):
            counter.unread(first, end, _LOST)
        if isinstance(found, Batch):
            counter.add(found, outcomes.state(found))
        else:
            counter.add_columns(found, outcomes.states(found))
        reached = max(reached, counter.read_to)
    counter.unread(reached, counter.high, "the log ends before its high watermark")
    return problems

"""The lag of a group by copies of log directories: every batch from its offset on is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkawire.logdir import Outcomes, Partition, Selection, outcomes_of
from kafkawire.logdir.seek import start_position, wanted_files
from kafkawire.logdir.splits import batches_of
from kafkawire.offsets.lag_count import LagCounter
from kafkawire.offsets.lag_row import Standing, unread_row
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.records import Batch, Damage
from kafkawire.rows import Lag
from kafkawire.transactions.blocking.blockers import GroupView, Place


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
        problems = list(_count(leading.partition, outcomes, counter))
        problems += [f"{path}: {damage.detail or damage.reason}" for path, damage in outcomes.damage]
        if leading.doubt is not None:
            problems.append(leading.doubt)
        yield standing.row(
            counter,
            as_of=as_of,
            settings=None if metadata is None else metadata.topic_configs.get(place[0], {}),
            held_by=_open(outcomes) if held_by is None else held_by.get(place, ()),
            problems=problems,
        )


def _open(outcomes: Outcomes) -> list[str]:
    """The transactions that are open in a log, in the order of their first offsets."""
    open_ = sorted(zip(outcomes.ongoing.first.tolist(), outcomes.ongoing.producer_id.tolist(), strict=True))
    return [f"producer {producer} (open) from offset {first}" for first, producer in open_]


def _count(partition: Partition, outcomes: Outcomes, counter: LagCounter) -> Iterator[str]:
    """Counts the batches from the group's offset up to the high watermark; yields what could not be read."""
    wanted = Selection(offsets=(counter.start, None))
    reached, damaged = counter.start, False
    files = list(wanted_files(partition.segments, wanted))
    if files and (base := files[0].offset or 0) > reached:
        counter.unread(reached, base, "offsets before the first segment are in no file here")
        reached = base
    for file in files:
        if (file.offset or 0) >= counter.high:
            break
        try:
            for item in batches_of(file, start_position(file, wanted)):
                if isinstance(item, Damage):
                    if not item.harmless:
                        damaged = True
                        yield f"{file.path}: at byte {item.position}: {item.detail or item.reason}"
                    continue
                base = item.base_offset if isinstance(item, Batch) else int(item.base_offset[0])
                lost = reached if damaged else max(reached, outcomes.cleaned_to)
                if base > lost:
                    counter.unread(lost, base, "offsets are missing, or damaged")
                damaged = False
                if isinstance(item, Batch):
                    measured = item.measured()
                    counter.add(measured, outcomes.state(measured))
                else:
                    _gaps(item.base_offset.tolist(), item.last_offset.tolist(), outcomes.cleaned_to, counter)
                    counter.add_columns(item, outcomes.states(item))
                reached = max(reached, counter.read_to)
        except OSError as error:
            damaged = True
            yield f"{file.path}: {error.strerror or error}"
    counter.unread(reached, counter.high, "the log ends before its high watermark")


def _gaps(base: list[int], last: list[int], cleaned_to: int, counter: LagCounter) -> None:
    """Notes the offsets between batches that are missing where no cleaner has been."""
    for before, after in zip(last, base[1:], strict=False):
        lost = max(before + 1, cleaned_to)
        if after > lost:
            counter.unread(lost, after, "offsets are missing, or damaged")

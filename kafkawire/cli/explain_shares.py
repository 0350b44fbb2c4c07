"""`kafkawire explain --share-group`: what every offset is to a share group, or the story of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkawire import rows
from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.output import Shown
from kafkawire.cli.source_options import leading_replicas
from kafkawire.cli.table import TableView, Views
from kafkawire.cli.txn_options import Address
from kafkawire.offsets.share_explain import ShareExplained

if TYPE_CHECKING:
    from kafkawire.client import Admin

#: What a table shows of each kind.
VIEWS: Views = {
    rows.SharePartitionState: TableView(
        columns=(
            "group", "topic", "partition", "start_offset", "end_offset", "log_start_offset", "last_stable_offset",
            "delivery_complete_count", "delivery_count_limit", "delivery_count_limit_at_least", "isolation_level",
            "dead_letter_topic", "state_epoch", "leader_epoch", "snapshot_epoch", "records", "deleted",
        ),
        primary=("group", "topic", "partition", "start_offset", "end_offset"),
        minor=("snapshot_epoch", "state_epoch", "leader_epoch", "records"),
    ),
    rows.ShareRange: TableView(
        columns=("first_offset", "last_offset", "offsets", "status", "reason", "delivery_count", "of"),
        primary=("first_offset", "last_offset", "status", "reason", "delivery_count", "of"),
    ),
    rows.ShareTotal: TableView(
        columns=("status", "reason", "offsets", "ranges", "deliveries", "first_offset", "last_offset"),
        primary=("status", "reason", "offsets", "deliveries"),
    ),
    rows.ShareStep: TableView(
        columns=(
            "timestamp", "state_partition", "state_offset", "record", "status", "delivery_count", "start_offset",
            "leader_epoch", "what",
        ),
        primary=("timestamp", "status", "delivery_count", "what"),
        minor=("state_partition", "state_offset", "leader_epoch"),
        prose=("what",),
    ),
    rows.DeadLetter: TableView(
        columns=("copy_topic", "copy_partition", "copy_offset", "timestamp", "delivery_count", "cause"),
        primary=("copy_topic", "copy_partition", "copy_offset", "cause"),
        prose=("cause",),
    ),
}  # fmt: skip
_KINDS: list[type[rows.Row]] = [rows.SharePartitionState, rows.ShareRange, rows.ShareTotal]
_STORY_KINDS: list[type[rows.Row]] = [rows.SharePartitionState, rows.ShareRange, rows.ShareStep, rows.DeadLetter]


def copied(
    paths: Sequence[str],
    tier_keys: Sequence[str],
    group: str,
    topic: str | None,
    partition: int | None,
    limit: int | None,
    dead_letter_topic: str | None,
) -> tuple[list[ShareExplained], list[str]]:
    """The share partitions of a group by copies of log directories; and why there may be more."""
    from kafkawire import logdir
    from kafkawire.offsets.copied_shares import UnknownShareGroupError, explained_shares

    replicas = leading_replicas(logdir.open(*paths, tier_keys=tier_keys))
    try:
        return explained_shares(
            replicas, group, topic=topic, partition=partition, limit=limit, dead_letter_topic=dead_letter_topic
        )
    except UnknownShareGroupError as error:
        raise InputError(str(error)) from None


def live_shares(
    cluster: Address,
    group: str,
    topic: str | None,
    partition: int | None,
    limit: int | None,
    dead_letter_topic: str | None,
    fetch_bytes: int,
) -> tuple[list[ShareExplained], list[str]]:
    """The share partitions of a group on a cluster; and why there may be more. `fetch_bytes`: of each partition, at
    most."""

    async def ask(admin: Admin) -> tuple[list[ShareExplained], list[str]]:
        from kafkawire.client.diagnosis.share_reading import read_shares

        return await read_shares(
            admin.cluster,
            group,
            topic=topic,
            partition=partition,
            limit=limit,
            dead_letter_topic=dead_letter_topic,
            fetch_bytes=fetch_bytes,
        )

    return cluster.run(ask)


def print_shares(
    found: Sequence[ShareExplained], gaps: Sequence[str], offset: int | None, most: int | None, printing: Shown
) -> None:
    """Prints the rows of all share partitions, or the story of one offset. Exit code 4: something could not be read.

    Args:
        gaps: why there may be more share partitions.
        offset: the offset whose story is printed; None: ranges are. most: ranges of a partition, at most; None: all.
    """
    outcome = ReadOutcome()
    for gap in gaps:
        outcome.problem(gap)
    if offset is not None and all(offset >= one.end for one in found):
        end = max(one.end for one in found)
        raise InputError(f"offset {offset} is not below the high watermark, {end}: the group has not reached it")

    def shown() -> Iterator[rows.Row]:
        for one in found:
            for row in one.rows(most) if offset is None else one.story(offset):
                outcome.read()
                yield row
            for problem in (*one.source.problems, *one.problems):
                if problem not in gaps:
                    outcome.problem(problem)

    printing.print(shown(), _KINDS if offset is None else _STORY_KINDS, VIEWS)
    outcome.end()

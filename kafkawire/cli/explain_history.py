"""`kafkawire explain --partition-history`: who led a partition, and which elections were unclean."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from kafkawire import rows
from kafkawire.cli import output
from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.output import Format
from kafkawire.cli.table import TableView, Views

_VIEWS: Views = {
    rows.PartitionEvent: TableView(
        columns=(
            "timestamp", "offset", "leader", "leader_epoch", "isr", "elr", "last_known_elr", "replicas", "election",
            "what", "at_stake",
        ),
        primary=("timestamp", "leader", "leader_epoch", "isr", "elr", "election", "what", "at_stake"),
        minor=("last_known_elr", "replicas", "offset"),
        prose=("what", "at_stake"),
    ),
}  # fmt: skip


def print_partition_history(
    paths: Sequence[str],
    tier_keys: Sequence[str],
    topic: str,
    partition: int,
    *,
    format: Format | None,
    to: str | None,
    wide: bool,
    no_cut: bool,
) -> None:
    """Prints the events in order. Exit code 4: records of the metadata log may be missing."""
    from kafkawire import logdir
    from kafkawire.offsets.copied_why import UnknownSubjectError, one_cluster
    from kafkawire.offsets.leading_replica import LeadingReplicas
    from kafkawire.offsets.partition_history import partition_history

    directory = logdir.open(*paths, tier_keys=tier_keys)
    outcome = ReadOutcome()
    try:
        one_cluster(directory)
        found = partition_history(LeadingReplicas(directory), topic, partition)
        first = next(found)
    except UnknownSubjectError as error:
        raise InputError(str(error)) from None
    except LookupError as error:
        raise InputError(str(error.args[0])) from None
    shown = outcome.counted(directory, chain([first], found))
    output.print_rows(
        shown,
        [rows.PartitionEvent, rows.DamageRow],
        format=format,
        output=to,
        views=_VIEWS,
        wide=wide,
        no_cut=no_cut,
    )
    outcome.end()

"""`kafkawire explain --partition-history`: who led a partition, and which elections were unclean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kafkawire import rows
from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.explain_cluster import renamed
from kafkawire.cli.output import Shown
from kafkawire.cli.source_options import leading_replicas
from kafkawire.cli.table import TableView, Views
from kafkawire.cli.txn_options import Address, client_properties

if TYPE_CHECKING:
    from kafkawire.client import Admin
    from kafkawire.client.diagnosis.spooled_metadata import SpooledMetadata
    from kafkawire.logdir import LogDirectory

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
_KINDS = (rows.PartitionEvent, rows.DamageRow)


def print_partition_history(
    paths: Sequence[str], tier_keys: Sequence[str], topic: str, partition: int, printing: Shown
) -> None:
    """Prints the events in order. Exit code 4: records of the metadata log may be missing."""
    from kafkawire import logdir

    directory = logdir.open(*paths, tier_keys=tier_keys)
    outcome = ReadOutcome()
    found = outcome.counted(directory, _events(directory, topic, partition))
    printing.print(found, _KINDS, _VIEWS)
    outcome.end()


def print_live_history(
    cluster: Address, topic: str, partition: int, fetch_bytes: int, printing: Shown, *, controllers: bool
) -> None:
    """Prints the events of a live cluster in order: `__cluster_metadata` is fetched from the controller that leads.

    Args:
        fetch_bytes: of the metadata log, at most.
        controllers: the addresses are those of controllers; otherwise brokers are asked for them.
    """
    from kafkawire import logdir

    with TemporaryDirectory(prefix="kafkawire-explain-") as root:

        async def ask(admin: Admin) -> SpooledMetadata:
            from kafkawire.client import Admin
            from kafkawire.client.diagnosis.spooled_metadata import controllers_of, spool_metadata

            if controllers:
                return await spool_metadata(admin.cluster, Path(root), fetch_bytes)
            addresses = await controllers_of(admin.cluster)
            text = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
            async with Admin.connect(text, client_properties(cluster.command_config, None)) as of_controllers:
                return await spool_metadata(of_controllers.cluster, Path(root), fetch_bytes)

        spooled, address = cluster.run(ask), cluster.bootstrap
        directory = logdir.open(root)
        outcome = ReadOutcome()
        for problem in spooled.problems:
            outcome.problem(problem)
        try:
            found = renamed(_events(directory, topic, partition), root, address)
        except InputError as error:
            raise InputError(": ".join([str(error).replace(root, address), *spooled.problems])) from None
        printing.print(outcome.counted(directory, found), _KINDS, _VIEWS)
        outcome.end()


def _events(directory: LogDirectory, topic: str, partition: int) -> Iterator[rows.PartitionEvent | rows.DamageRow]:
    """The events, of which there is at least one. Raises InputError: there is none."""
    from kafkawire.offsets.partition_history import partition_history

    found = partition_history(leading_replicas(directory), topic, partition)
    try:
        first = next(found)
    except LookupError as error:
        raise InputError(str(error.args[0])) from None
    return chain([first], found)

"""`kafkawire explain --partition-history`: who led a partition, and which elections were unclean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.cli import output
from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.output import Format
from kafkawire.cli.table import TableView, Views
from kafkawire.cli.txn_options import client_properties, with_admin

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

    directory = logdir.open(*paths, tier_keys=tier_keys)
    outcome = ReadOutcome()
    found = outcome.counted(directory, _events(directory, topic, partition))
    _print(found, outcome, format=format, to=to, wide=wide, no_cut=no_cut)


def print_live_history(
    bootstrap: str,
    command_config: str | None,
    topic: str,
    partition: int,
    fetch_bytes: int,
    *,
    controllers: bool,
    format: Format | None,
    to: str | None,
    wide: bool,
    no_cut: bool,
) -> None:
    """Prints the events of a live cluster in order: `__cluster_metadata` is fetched from the controller that leads.

    Args:
        bootstrap, command_config: `HOST:PORT,...`, and a file of client properties or None. controllers: the addresses
            are those of controllers; otherwise brokers are asked for them.
        fetch_bytes: of the metadata log, at most.
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
            async with Admin.connect(text, client_properties(command_config, None)) as of_controllers:
                return await spool_metadata(of_controllers.cluster, Path(root), fetch_bytes)

        spooled = with_admin(bootstrap, command_config, None, ask)
        directory = logdir.open(root)
        outcome = ReadOutcome()
        for problem in spooled.problems:
            outcome.problem(problem)
        try:
            found = _of_cluster(_events(directory, topic, partition), root, bootstrap)
        except InputError as error:
            raise InputError(": ".join([str(error).replace(root, bootstrap), *spooled.problems])) from None
        _print(outcome.counted(directory, found), outcome, format=format, to=to, wide=wide, no_cut=no_cut)


def _events(directory: LogDirectory, topic: str, partition: int) -> Iterator[rows.PartitionEvent | rows.DamageRow]:
    """The events, of which there is at least one. Raises InputError: there is none."""
    from kafkawire.offsets.copied_why import UnknownSubjectError, one_cluster
    from kafkawire.offsets.leading_replica import LeadingReplicas
    from kafkawire.offsets.partition_history import partition_history

    try:
        one_cluster(directory)
        found = partition_history(LeadingReplicas(directory), topic, partition)
        first = next(found)
    except UnknownSubjectError as error:
        raise InputError(str(error)) from None
    except LookupError as error:
        raise InputError(str(error.args[0])) from None
    return chain([first], found)


def _of_cluster(
    found: Iterable[rows.PartitionEvent | rows.DamageRow], root: str, address: str
) -> Iterator[rows.PartitionEvent | rows.DamageRow]:
    """Rows with the cluster's address in place of the folder."""
    for row in found:
        values = {
            name: value.replace(root, address)
            for name in row.__struct_fields__
            if isinstance(value := getattr(row, name), str) and root in value
        }
        yield replace(row, **values) if values else row


def _print(
    found: Iterable[rows.Row],
    outcome: ReadOutcome,
    *,
    format: Format | None,
    to: str | None,
    wide: bool,
    no_cut: bool,
) -> None:
    output.print_rows(
        found,
        [rows.PartitionEvent, rows.DamageRow],
        format=format,
        output=to,
        views=_VIEWS,
        wide=wide,
        no_cut=no_cut,
    )
    outcome.end()

"""The options shared by the commands that read copies of log directories or a cluster and judge what they find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli.arguments import InputError, check_clock

if TYPE_CHECKING:
    from kafkawire.logdir import LogDirectory
    from kafkawire.offsets.leading_replica import LeadingReplicas

PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH", help="Copies of brokers' log directories, tiers, or folders that hold several."),
]
ClusterOption = Annotated[
    str | None,
    typer.Option("--bootstrap-server", metavar="HOST:PORT,...", help="Some brokers of a cluster, in place of copies."),
]
TierKeysOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tier-key", metavar="FILE", help="An RSA private key (PEM) of an encrypted tier (KIP-405); can be repeated."
    ),
]
PartitionsOption = Annotated[
    list[int] | None, typer.Option("--partition", min=0, metavar="N", help="Only this partition; repeatable.")
]
AsOfOption = Annotated[
    int | None,
    typer.Option(
        "--as-of",
        callback=check_clock,
        metavar="MS",
        help="Count ages up to this time, epoch milliseconds; by default the newest time that a broker wrote.",
    ),
]
StatePartitionsOption = Annotated[
    int | None,
    typer.Option(
        "--txn-partitions",
        min=1,
        max=100_000,  # `transactions.cluster.cluster_metadata.MOST_PARTITIONS`
        metavar="N",
        help="Partitions of __transaction_state; default: from the metadata log, or else 50.",
    ),
]
ReportOption = Annotated[str | None, typer.Option("--report", metavar="FILE", help="Write an HTML report there.")]


def leading_replicas(directory: LogDirectory) -> LeadingReplicas:
    """The replicas in log directories. Raises InputError: these are of several clusters."""
    from kafkawire.offsets.copied_why import UnknownSubjectError, one_cluster
    from kafkawire.offsets.leading_replica import LeadingReplicas

    try:
        one_cluster(directory)
    except UnknownSubjectError as error:
        raise InputError(str(error)) from None
    return LeadingReplicas(directory)


def check_source(paths: Sequence[str] | None, bootstrap_server: str | None) -> None:
    """A usage error unless either copies or a cluster is given."""
    if bool(paths) == (bootstrap_server is not None):
        raise typer.BadParameter("give log directories (PATH...), or a cluster (--bootstrap-server)")

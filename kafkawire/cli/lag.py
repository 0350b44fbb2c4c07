"""`kafkawire lag`: how many records a group will really get, in each partition, and what holds the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.cli import exit_codes, output
from kafkawire.cli import source_options as sources
from kafkawire.cli import txn_options as txn
from kafkawire.cli.arguments import InputError
from kafkawire.cli.findings import chosen_format
from kafkawire.cli.option_groups import CLUSTER, COPIES, Group, grouped
from kafkawire.cli.output import Format
from kafkawire.cli.table import TableView

if TYPE_CHECKING:
    from kafkawire.client import Admin


class LagLine(output.CommandRow, frozen=True, kw_only=True):
    """A lag as a line of the table: bounds that are no numbers as `10-14`."""

    group: str
    topic: str
    partition: int
    committed: int | None
    last_stable: int | None
    high_watermark: int | None
    records: str
    bytes: str
    oldest: str
    held: str
    uncommitted: str
    lost: int
    deleted: str
    archived: str
    held_by: str
    problem: str


_VIEW = TableView(
    columns=LagLine.__struct_encode_fields__,
    primary=("group", "topic", "partition", "committed", "records", "bytes", "oldest", "held", "lost", "archived"),
    minor=("last_stable", "high_watermark", "uncommitted", "deleted", "held_by", "problem"),
    prose=("held_by", "problem", "deleted"),
)


def register(app: typer.Typer) -> None:
    app.command("lag")(lag)


@grouped(
    Group("What is counted", ("group", "topic", "bootstrap_server")),
    Group("A cluster", ("fetch_bytes", "command_config", "timeout"), (CLUSTER,)),
    Group("Copies", ("as_of", "tier_key"), (COPIES,)),
)
def lag(
    paths: sources.PathsArgument = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", help="The group; repeatable. Every group where none is given."),
    ] = None,
    topic: txn.TopicOption = None,
    bootstrap_server: sources.ClusterOption = None,
    fetch_bytes: txn.FetchBytesOption = 8 << 20,
    as_of: sources.AsOfOption = None,
    tier_key: sources.TierKeysOption = None,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
    format: output.PrintedFormatOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """How far groups are behind, in records that they will really get: no markers, no aborted or compacted records.

    Counts are exact where --fetch-bytes reach (copies are read to their end), and otherwise bounds: `10-14`. `records`
    is what a read_committed consumer gets now, `uncommitted` what a read_uncommitted one gets, `held` what waits behind
    open transactions. Without --group every group is looked at, and warnings say why there may be more. Exit code 4:
    something could not be read.

    \b
    On a cluster, and on copies of its log directories:
      kafkawire lag --bootstrap-server 127.0.0.1:9092 --group shipments
      kafkawire lag /copies/broker-1 /copies/broker-2 --group shipments --topic orders
      kafkawire lag /copies/broker-1 /copies/broker-2
    """
    sources.check_source(paths, bootstrap_server)
    if bootstrap_server is None:
        found, gaps = _copied(paths or [], group, topic, as_of, tier_key or ())
    else:
        found, gaps = _live(txn.Address(bootstrap_server, command_config, timeout), group, topic, fetch_bytes)
    outcome = exit_codes.ReadOutcome()
    for gap in gaps:
        txn.warn_once(gap)
        outcome.problem(gap)
    for one in found:
        if one.high_watermark is not None:
            outcome.read()
        for problem in one.problems:
            outcome.problem(f"group {one.group}, {one.topic}-{one.partition}: {problem}")
    chosen = chosen_format(format)
    if chosen is Format.table:
        output.Shown(chosen, None, wide, no_cut).print(map(_line, found), [LagLine], {LagLine: _VIEW})
    else:
        output.print_rows(found, [rows.Lag], format=chosen)
    outcome.end()


def _live(
    cluster: txn.Address, groups: list[str] | None, topics: list[str] | None, fetch_bytes: int
) -> tuple[list[rows.Lag], list[str]]:
    """The rows, and what is not in them: groups that could not be read, and why there may be more."""
    from kafkawire.client import ClientError
    from kafkawire.client.diagnosis.group_standing import every_group, read_group_lags

    search = txn.make_search(cluster, None, 1.0, fetch_bytes=fetch_bytes)

    async def ask(admin: Admin) -> tuple[list[rows.Lag], list[str]]:
        found: list[rows.Lag] = []
        names, gaps = (groups, list[str]()) if groups else await every_group(admin.cluster, search)
        for name in dict.fromkeys(names):
            try:
                found += await read_group_lags(admin.cluster, name, search, topics)
            except ClientError as error:
                if groups:
                    raise
                gaps.append(_of_group(name, str(error)))
        return found, gaps

    return cluster.run(ask)


def _copied(
    paths: list[str],
    groups: list[str] | None,
    topics: list[str] | None,
    as_of: int | None,
    tier_keys: list[str] | tuple[()],
) -> tuple[list[rows.Lag], list[str]]:
    """The rows, and what is not in them: groups that could not be read, and why there may be more."""
    from kafkawire import logdir
    from kafkawire.offsets import copied_shares
    from kafkawire.offsets.copied_lag import copied_lags
    from kafkawire.offsets.group_view import group_view, group_views

    replicas = sources.leading_replicas(logdir.open(*paths, tier_keys=tier_keys))
    clock = as_of if as_of is not None or replicas.metadata is None else replicas.metadata.newest
    found: list[rows.Lag] = []
    views, gaps = ([], []) if groups else group_views(replicas)
    shares, of_shares = (list(groups), list[str]()) if groups else copied_shares.share_group_names(replicas)
    gaps += of_shares
    shared = set()
    for name in dict.fromkeys(shares):
        try:
            explained, of_group = copied_shares.explained_shares(replicas, name)
        except copied_shares.UnknownShareGroupError:
            continue
        shared.add(name)
        chosen = [one for one in explained if topics is None or one.source.topic in topics]
        found += copied_shares.copied_share_lags(replicas, chosen, clock)
        gaps += [gap for gap in of_group if gap not in gaps]
    for name in dict.fromkeys(groups or ()):
        if name in shared:
            continue
        view = group_view(replicas, name)
        if view is None:
            raise InputError(f"no copy of __consumer_offsets names group {name}")
        views.append(view)
    known = set(gaps)
    for view in views:
        places = [place for place in view.partitions if topics is None or place[0] in topics]
        rows_ = list(copied_lags(replicas, view, clock, places))
        if view.gaps and rows_:
            rows_[0] = replace(rows_[0], problems=(*rows_[0].problems, *view.gaps))
        elif view.gaps and groups:
            raise InputError(view.gaps[0])
        elif not rows_:
            gaps += [_of_group(view.group, gap) for gap in view.gaps if gap not in known]
        found += rows_
    return found, gaps


def _of_group(name: str, text: str) -> str:
    return text if f"group {name}" in text or f"group {name!r}" in text else f"group {name}: {text}"


def _line(one: rows.Lag) -> LagLine:
    from kafkawire.transactions.formatting import duration, size, when

    def number(count: rows.LagCount | None) -> str:
        if count is None:
            return ""
        return f"{count.least:,}" if count.exact else f"{count.least:,}-{count.most:,}"

    got = one.read_committed
    return LagLine(
        group=one.group,
        topic=one.topic,
        partition=one.partition,
        committed=one.committed_offset,
        last_stable=one.last_stable_offset,
        high_watermark=one.high_watermark,
        records=number(got),
        bytes=""
        if got is None or (got.bytes_most is None and not got.bytes_least)
        else size(got.bytes_least)
        if got.exact
        else f"{size(got.bytes_least)} or more",
        oldest="" if one.age_ms is None else duration(one.age_ms),
        held=number(one.held),
        uncommitted=number(one.read_uncommitted),
        lost=one.lost_offsets,
        deleted=when(one.deleted_after) if one.deleted_after is not None else one.retention or "",
        archived=", ".join(f"{number:,} {reason}" for reason, number in sorted((one.archived or {}).items())),
        held_by="; ".join(one.held_by),
        problem="; ".join(("its offset is in an open transaction",) * one.unstable + (*one.bounds, *one.problems)),
    )

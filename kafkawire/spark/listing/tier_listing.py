"""Tiers in a listing: to the row of each replica come the folders that its partition has in tiers (KIP-405), and what
`__remote_log_metadata` has of them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkawire.logdir import Partition
from kafkawire.logdir.directory import BrokerDirectory
from kafkawire.logdir.tiers import TierEvents
from kafkawire.spark.listing.fleet_listing import (
    LISTED,
    LISTING,
    REPLICA,
    TIER,
    TIER_EVENTS,
    files_of,
)
from kafkawire.spark.session.row_batches import as_batches
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.task_sizing import Rows, by_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: Columns of a row with the place and the content of a folder.
_FOLDER = ("store", "path", "names", "sizes")
_PARTITIONS_A_TASK = 1000


class Tiers(NamedTuple):
    """The tiers of a replica, in the column `tiers`.

    Attributes:
        folders: of the partition, each with the columns `_FOLDER`. `events`: of its segments.
        keys: paths of private keys.
    """

    folders: tuple[dict[str, Any], ...]
    events: TierEvents
    keys: tuple[str, ...]


def with_tiers(listed: DataFrame, tiers: int, keys: tuple[str, ...] = ()) -> DataFrame:
    """The rows of replicas with their tiers. A tier of a partition without a replica is a replica of its own.

    Args:
        listed: see `fleet_listing.listing`. `tiers`: number of its rows of `TIER`. `keys`: paths of private keys.
    """
    if not tiers:
        return listed.where(f"kind = '{REPLICA}'")

    def joined(found: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(
            (tuple(map(row.get, LISTING.names)) for _, rows in _by_partition(found) for row in _replicas(rows, keys)),
            LISTING,
        )

    return _grouped(listed, tiers, joined, LISTED)


def of_partitions(
    listed: DataFrame,
    tiers: int,
    keys: tuple[str, ...],
    read: Callable[[Sequence[Partition]], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """A table that is computed from the replicas of each partition, with their tiers.

    Args:
        listed, tiers, keys: see `with_tiers`.
        read: yields the batches for the replicas of a partition, which are in order; their schema is `schema`.
    """

    def each(found: Rows) -> Iterator[pa.RecordBatch]:
        for _, rows in _by_partition(found):
            ordered = sorted(once(_replicas(rows, keys)), key=itemgetter("sort"))
            yield from read([one for one in map(replica_at, ordered) if one.segments])

    return _grouped(listed, tiers, each, schema)


def _grouped(
    listed: DataFrame, tiers: int, read: Callable[[Rows], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    rows = listed.where(f"kind IN ('{REPLICA}', '{TIER}', '{TIER_EVENTS}')")
    rows = rows.repartition(1 + tiers // _PARTITIONS_A_TASK, "partition")
    return by_task(rows.sortWithinPartitions("partition", "argument", "sort"), read, schema)


def _by_partition(rows: Rows) -> Iterator[tuple[bytes, list[dict[str, Any]]]]:
    return ((key, list(of_partition)) for key, of_partition in groupby(rows, key=itemgetter("partition")))


def _replicas(rows: Sequence[dict[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of the replicas of a partition, from all of its rows."""
    of_kind: dict[str, list[dict[str, Any]]] = {REPLICA: [], TIER: [], TIER_EVENTS: []}
    for row in rows:
        of_kind[row["kind"]].append(row)
    events = _events(of_kind[TIER_EVENTS])
    folders = {(row["store"], row["path"]): {name: row[name] for name in _FOLDER} for row in of_kind[TIER]}
    known = sent(Tiers(tuple(folders.values()), events, keys))
    if of_kind[REPLICA]:
        return [{**row, "tiers": known} for row in of_kind[REPLICA]]
    alone = sent(Tiers((), events, keys))
    return [{**row, "kind": REPLICA, "tiers": alone} for row in of_kind[TIER]]


def _events(rows: Sequence[dict[str, Any]]) -> TierEvents:
    """The longest copy of each partition of the metadata."""
    copies: dict[int, tuple[int, TierEvents]] = {}
    for row in sorted(rows, key=itemgetter("sort")):
        number, size, events = received(row["payload"])
        if number not in copies or size > copies[number][0]:
            copies[number] = size, events
    found = TierEvents({id: one for _, events in copies.values() for id, one in events.items()})
    found.partial = next((events.partial for _, events in copies.values() if events.partial), "")
    found.damage = tuple(one for _, events in copies.values() for one in events.damage)
    return found


def once(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each folder, chosen as `replica_files.replicas` does: that of a link to it, or else the first."""
    found: dict[bytes, dict[str, Any]] = {}
    for row in rows:
        before = found.setdefault(row["real"], row)
        if before is not row and _is_link(row) and not _is_link(before):
            found[row["real"]] = row
    return list(found.values())


def _is_link(row: dict[str, Any]) -> bool:
    return row["store"] is None and os.path.islink(row["path"])


def replica_at(row: dict[str, Any]) -> Partition:
    """The replica of a row of `REPLICA`."""
    known = _tiers(row)
    replica = _partition(row, known.keys)
    replica.copies = tuple(_partition(folder, known.keys) for folder in known.folders)
    replica.tier_metadata = lambda: known.events
    return replica


def _tiers(row: dict[str, Any]) -> Tiers:
    if not row["tiers"]:
        return Tiers((), TierEvents(), ())
    found: Tiers = received(row["tiers"])
    return found


def _partition(folder: dict[str, Any], keys: tuple[str, ...]) -> Partition:
    files = files_of(folder["store"], os.fsdecode(folder["path"]), _names(folder), keys)
    return Partition(files, BrokerDirectory(files[0].root, files[0]))


def _names(folder: dict[str, Any]) -> list[str]:
    return [os.fsdecode(name) for name in folder["names"].split(b"\0")]


def segment_sizes(row: dict[str, Any], replica: Partition) -> list[int]:
    """The bytes of a replica's segments, as they were listed: of those in a tier, as they are stored there."""
    folders = (row, *_tiers(row).folders)
    known = {
        os.path.join(place.path, name): size
        for place, folder in zip((replica, *replica.copies), folders, strict=True)
        for name, size in zip(_names(folder), array("q", folder["sizes"]), strict=True)
    }
    return [known[file.path] for file in replica.segments]

"""`kafkawire dump --bootstrap-server`: the rows of live partitions, up to the end that they have when reading begins.

Each fetched piece is treated as a part of a segment, so that the code for files makes its rows. Positions count from
the first byte that was fetched of a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from kafkawire import rows
from kafkawire.cli.arguments import InputError
from kafkawire.cli.txn_options import client_properties, warn_once
from kafkawire.client import Cluster, Config, TopicPartition
from kafkawire.client.cluster.background import Background
from kafkawire.client.diagnosis.fetched_log import FetchedLog, FetchedPiece
from kafkawire.client.diagnosis.live_log import KnownPiece, LiveLog, Range, described, known_pieces, planned
from kafkawire.client.errors import ClientError
from kafkawire.client.rpc.partition_log import DeletedOffsets
from kafkawire.logdir import Options, View
from kafkawire.wire.json_form import uuid_text

if TYPE_CHECKING:
    from kafkawire.logdir.located_file import LocatedFile
    from kafkawire.logdir.view import IsolationLevel

    Made = rows.Row | rows.Lines | rows.Columns
    RowsOf = Callable[[LocatedFile, Options], Iterator[Made]]


@contextmanager
def fetched_rows(
    bootstrap: str,
    command_config: str | None,
    chosen: tuple[list[str] | None, list[int] | None],
    options: Options,
    rows_of: RowsOf,
    outcomes: tuple[IsolationLevel | None, bool],
) -> Iterator[Iterator[Made]]:
    """The rows of the partitions, while the context lasts.

    Args:
        bootstrap, command_config: `HOST:PORT,...`, and a file of client properties or None.
        chosen: topics and numbers of partitions; None: all.
        options: how batches are read. rows_of: makes the rows of a segment.
        outcomes: the isolation level, and whether rows have the states of transactions.

    Raises:
        ClientError: the cluster cannot be reached. InputError: there is no such topic or partition.
    """
    config = Config.of(bootstrap, client_properties(command_config, None))
    for sentence in config.unapplied:
        warn_once(f"{command_config}: {sentence}")
    with Background() as loop:
        reading = _Reading(loop, Cluster(config), bootstrap, options, rows_of, *outcomes)
        try:
            logs, unread = reading.plan(*chosen)
            found = reading.all_rows(logs, unread)
            try:
                yield found
            finally:
                found.close()
        finally:
            loop.run(reading.cluster.close())


class _Reading:
    """Reads from one cluster."""

    def __init__(
        self,
        loop: Background,
        cluster: Cluster,
        address: str,
        options: Options,
        rows_of: RowsOf,
        level: IsolationLevel | None,
        shown: bool,
    ) -> None:
        self.cluster = cluster
        self._loop, self._address = loop, address
        self._options, self._rows_of = options, rows_of
        self._level, self._shown = level, shown

    def plan(
        self, topics: list[str] | None, partitions: list[int] | None
    ) -> tuple[list[LiveLog], list[rows.DamageRow]]:
        """The plan of what is read, and rows for the partitions that cannot be read."""
        options = self._options
        try:
            metadata = self._loop.run(described(self.cluster, None if topics is None else frozenset(topics)))
        except LookupError as error:
            raise InputError(f"--topic: {error.args[0]}") from None
        # Records of a topic have ids of others.
        everything = metadata if topics is None else self._loop.run(described(self.cluster, None))
        names = {uuid_text(one.topic_id): place.topic for place, one in everything.partitions.items() if one.topic_id}
        self._options = msgspec.structs.replace(options, topic_names=names.get)
        places = [place for place in metadata.partitions if partitions is None or place.partition in partitions]
        for number in sorted(set(partitions or ()) - {place.partition for place in places}):
            raise InputError(f"--partition: no topic has a partition {number}")
        for topic in sorted(set(options.messages) - {place.topic for place in places}):
            raise InputError(f"--decode: there is no topic {topic}")
        selection = options.selection

        def offsets_of(place: TopicPartition) -> Range:
            return selection.offsets or (None, None)

        since = None if selection.times is None else selection.times[0]
        logs, errors = self._loop.run(
            planned(self.cluster, places, offsets_of, since=since, committed=self._level == "read_committed")
        )
        unread = [self._unread(place, error) for place, error in errors.items()]
        unread += [
            rows.DamageRow(file=self._address, topic=topic, reason="unreadable", detail=str(error))
            for topic, error in metadata.errors.items()
        ]
        return logs, unread

    def all_rows(self, logs: list[LiveLog], unread: list[rows.DamageRow]) -> Generator[Made, None, None]:
        yield from unread
        for log in logs:
            outcomes = self._level is not None or self._shown
            found = self._loop.iterate(known_pieces(self.cluster, log, outcomes=outcomes))
            position = 0
            try:
                for piece in found:
                    if isinstance(piece, DeletedOffsets):
                        place = {"topic": log.place.topic, "partition": log.place.partition}
                        yield rows.DamageRow.of(piece.damage, file=self._path(log.place), **place)  # type: ignore[arg-type]
                    else:
                        yield from self._piece(log.place, piece, position)
                        position += len(piece.data)
            except ClientError as error:
                yield self._unread(log.place, error)
            finally:
                found.close()

    def _piece(self, place: TopicPartition, found: KnownPiece, position: int) -> Iterator[Made]:
        piece = FetchedPiece()
        piece.start, piece.end, piece.data = position, position + len(found.data), found.data
        file = FetchedLog(self._path(place), self._address, "log", place.topic, place.partition, None, piece=piece)
        view = None
        if found.outcomes is not None:
            view = View(outcomes=found.outcomes, isolation_level=self._level, shown=self._shown)
        return self._rows_of(file, msgspec.structs.replace(self._options, view=view))

    def _path(self, place: TopicPartition) -> str:
        return f"{self._address}/{place}"

    def _unread(self, place: TopicPartition, error: ClientError) -> rows.DamageRow:
        return rows.DamageRow(
            file=self._path(place), topic=place.topic, partition=place.partition, reason="unreadable", detail=str(error)
        )

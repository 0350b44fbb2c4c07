"""`LiveCopies`: the logs of a live cluster for the witness, in place of copied log directories: each partition as its
leader has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import numpy as np

from kafkawire.client.cluster.background import Background
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.live_log import KnownPiece, LiveLog, described, known_pieces, planned
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.client.rpc.partition_log import DeletedOffsets
from kafkawire.logdir.transaction_states import Outcomes
from kafkawire.offsets import statuses
from kafkawire.offsets.group_records import GroupRecord, decoded_records
from kafkawire.records import Batch, Damage
from kafkawire.records.array_types import Int8, Int64
from kafkawire.records.columns import Batches, batches
from kafkawire.rows import DamageRow
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.witness.captured_decisions import DecidedTransactions
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.group_log import CONSUMER_OFFSETS, GroupLogs
from kafkawire.witness.held import HELD, MARKER, CopyOfPartition, Held, markers_of, packed
from kafkawire.witness.held_side import HeldSide, Identity, partitions_of
from kafkawire.witness.packed_rows import PackedRows


class LiveCopies(HeldSide):
    """The logs of a cluster's leaders, as they are when they are read. `loop`: runs what is asked. `cluster`: whom to
    ask. `address`: of the cluster, as it is named in rows. Raises ClientError: the cluster cannot be reached."""

    def __init__(self, loop: Background, cluster: Cluster, address: str) -> None:
        super().__init__()
        self._loop, self._cluster, self._address = loop, cluster, address
        self._metadata: Metadata = loop.run(described(cluster, None))
        self._partitions = {(one.topic, one.partition): one for one in self._metadata.partitions}

    def topic_names(self) -> dict[UUID, str]:
        infos = self._metadata.partitions.values()
        return {info.topic_id: info.topic_partition.topic for info in infos if info.topic_id is not None}

    def copies(self, place: Place, identity: Identity, *, only_newest: bool) -> Iterator[CopyOfPartition]:
        if place not in self._partitions:
            return
        info = self._metadata.partitions[self._partitions[place]]
        same = identity.is_same(self._metadata.cluster_id, place[0], info.topic_id)
        if same is False:
            self.left_out.append(self._path(place))
            return
        reading = _Reading(self, place)
        items = [one for piece in reading.pieces() for one in _headers(piece)]
        if reading.log is not None:
            yield _copy(self._path(place), reading, items, same=same is True)

    def read_decisions(self, decided: DecidedTransactions, identity: Identity) -> None:
        for place in sorted(place for place in self._partitions if place[0] == TRANSACTION_STATE):
            reading = _Reading(self, place)
            found = (batch for piece in reading.pieces() for batch, _ in _data(piece))
            decided.add(self._path(place), place[1], found)

    def read_groups(self, logs: GroupLogs, groups: list[str], identity: Identity) -> None:
        number = sum(place[0] == CONSUMER_OFFSETS for place in self._partitions)
        for partition in partitions_of(groups, number) if number else ():
            place = CONSUMER_OFFSETS, partition
            if place in self._partitions:
                reading = _Reading(self, place)
                # How far compaction of a live log has come is not known, so a missing batch proves nothing.
                logs.add(self._path(place), self._records(reading), whole=False, rewritten=True)

    def _records(self, reading: _Reading) -> Iterator[GroupRecord]:
        found = (pair for piece in reading.pieces() for pair in _data(piece))
        problems: dict[str, None] = {}
        yield from decoded_records(TopicPartition(*reading.place), found, np.iinfo(np.int64).max, problems)
        self.problems += problems

    def _path(self, place: Place) -> str:
        return f"{self._address}/{place[0]}-{place[1]}"


class _Reading:
    """A partition, read once. `log`: None: it cannot be read. sound: whether all of it could be."""

    def __init__(self, of: LiveCopies, place: Place) -> None:
        self._of, self.place = of, place
        self.sound = True
        key = of._partitions[place]
        logs, errors = of._loop.run(planned(of._cluster, [key], lambda one: (None, None), since=None, committed=False))
        self.log: LiveLog | None = logs[0] if logs else None
        for error in errors.values():
            self._unread(str(error))

    def pieces(self) -> Iterator[KnownPiece]:
        if self.log is None:
            return
        found = self._of._loop.iterate(known_pieces(self._of._cluster, self.log, outcomes=True))
        try:
            for piece in found:
                if isinstance(piece, DeletedOffsets):
                    self._unread(piece.damage.detail or piece.damage.reason)
                else:
                    yield piece
        except ClientError as error:
            self._unread(str(error))
        finally:
            found.close()

    def _unread(self, text: str) -> None:
        self.sound = False
        topic, partition = self.place
        path = self._of._path(self.place)
        self._of.damage.append(DamageRow(file=path, topic=topic, partition=partition, reason="unreadable", detail=text))


class _Headers(NamedTuple):
    """The parts of some batches that are kept: rows of data and of markers; first and last offsets of all."""

    data: Held
    markers: Held
    base: Int64
    last: Int64
    sound: bool


def _headers(piece: KnownPiece) -> Iterator[_Headers]:
    outcomes = piece.outcomes
    assert outcomes is not None
    for item in batches(piece.data, window=len(piece.data)):
        if isinstance(item, Damage):
            nothing = np.empty(0, np.int64)
            yield _Headers(np.empty(0, HELD), np.empty(0, MARKER), nothing, nothing, item.harmless)
        elif isinstance(item, Batches):
            data = item.where(~item.is_control & (item.record_count >= 0))
            rows = packed(data, outcomes.states(data)) if len(data) else np.empty(0, HELD)
            yield _Headers(rows, markers_of(item), item.base_offset, item.last_offset, True)
        else:
            one = item.measured()
            base, last = np.array([[one.base_offset], [one.last_offset]], np.int64)
            yield _Headers(np.empty(0, HELD), np.empty(0, MARKER), base, last, True)


def _data(piece: KnownPiece) -> Iterator[tuple[Batch, int]]:
    """The batches of data in a piece, and the states of their transactions."""
    outcomes: Outcomes | None = piece.outcomes
    assert outcomes is not None
    for item in batches(piece.data, window=len(piece.data)):
        if isinstance(item, Batches):
            for index, state in enumerate(outcomes.states(item).tolist()):
                batch = item.batch(index)
                if not batch.is_control:
                    yield batch, state
        elif isinstance(item, Batch):
            yield item.measured(), 0


def _copy(path: str, reading: _Reading, items: list[_Headers], *, same: bool) -> CopyOfPartition:
    assert reading.log is not None
    first, code = _runs(reading.log, items)
    return CopyOfPartition(
        path=path,
        batches=PackedRows.of(np.concatenate([np.empty(0, HELD), *(one.data for one in items)])),
        markers=PackedRows.of(np.concatenate([np.empty(0, MARKER), *(one.markers for one in items)])),
        first=first,
        code=code,
        end=reading.log.end,
        log_end=reading.log.end,
        compacted_to=0,
        same=same,
        sound=reading.sound and all(one.sound for one in items),
        commits=True,
        diverges_at=None,
        segments=(),
    )


def _runs(log: LiveLog, items: list[_Headers]) -> tuple[Int64, Int8]:
    """Runs of offsets: deleted ones, batches, and what compaction, or damage, has left between them."""
    empty = np.empty(0, np.int64)
    base, last = (np.concatenate([empty, *(getattr(one, name) for one in items)]) for name in ("base", "last"))
    kept = last >= log.start
    base, last = np.maximum(base[kept], log.start), last[kept]
    code = np.full(len(base), statuses.CONTROL, np.int8)
    gap = np.append(log.start, last + 1)
    until = np.append(base, log.end)
    holes = gap < until
    hole = statuses.COMPACTED if all(one.sound for one in items) else statuses.UNREADABLE
    first = np.concatenate(([0], base, gap[holes]))
    codes = np.concatenate(([statuses.DELETED], code, np.full(int(holes.sum()), hole))).astype(np.int8)
    order = np.argsort(first, kind="stable")
    return first[order], codes[order]

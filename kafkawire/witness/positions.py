"""`FetchPositions`: the positions of consumers in a partition, by the offsets that they fetched from. Pure.

A consumer names an offset in each Fetch request. Two requests between which no other one can be missing from the
capture show that it was given nothing but what the captured responses have: the epochs of a fetch session (KIP-227)
follow one another, or, without a session, the correlation ids of the connection do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkawire import records
from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.records import Batch
from kafkawire.records.array_types import Bools, Int32, Int64
from kafkawire.rows import Exchange
from kafkawire.witness.exchange_rows import ORIGIN, PartitionRows, Rows, Sources

FETCH = 1
#: Requests of a member after which it may read other partitions, or from other offsets: ListOffsets, OffsetFetch,
#: JoinGroup, SyncGroup.
_REBALANCES = (2, 9, 11, 14)
#: The epoch of a request outside of a session, and of the first one of a session.
_NO_SESSION, _NEW_SESSION = -1, 0
_READ_COMMITTED = 1

#: A partition in a Fetch exchange. `offset`: that the request names. `reached`: the one after the last batch of the
#: response; -1: it has none. `run`: exchanges of one number follow one another, and none is missing. `joined`: the
#: request before did not have the partition. `broken`: the response does not say where the consumer goes on (an error,
#: another replica, no response).
STEP = np.dtype(
    [
        ("place", "<i4"), ("offset", "<i8"), ("reached", "<i8"), ("run", "<i4"), ("joined", "?"), ("broken", "?"),
        ("committed", "?"), *ORIGIN,
    ]
)  # fmt: skip


@dataclass
class _Connection:
    """A connection, after an exchange. `session`, `epoch`: of the last Fetch. `positions`: offsets of the partitions of
    the session; without one, of the last Fetch. `run`: its number. `rebalances`: of its client."""

    correlation: int = -2
    session: int = 0
    epoch: int = _NO_SESSION
    positions: dict[int, int] = field(default_factory=dict)
    run: int = 0
    rebalances: int = 0


class FetchPositions(PartitionRows):
    """Takes exchanges in order, those of all apis.

    Args:
        sources: captures and clients.
    """

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources, STEP)
        self._connections: dict[tuple[str, int], _Connection] = {}
        self._rebalances: dict[int, int] = {}
        self._runs = 0

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange."""
        row = found.row
        if row.connection is None or row.correlation_id is None or row.packet is None:
            return
        if row.api_key in _REBALANCES:
            client = self._sources.client(row)
            self._rebalances[client] = self._rebalances.get(client, 0) + 1
        one = self._connections.setdefault((row.file or "-", row.connection), _Connection())
        missing = row.correlation_id != one.correlation + 1
        one.correlation = row.correlation_id
        if row.api_key == FETCH:
            self._fetch(found, one, missing=missing)
        elif missing and one.epoch == _NO_SESSION:
            self._new_run(one)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self._runs

    def _new_run(self, one: _Connection) -> None:
        self._runs += 1
        one.run = self._runs
        one.positions = {}

    def _fetch(self, found: CapturedExchange, one: _Connection, *, missing: bool) -> None:
        row: Exchange = found.row
        request: Any = found.request
        if request is None or kafka_name(request) != "FetchRequest":
            one.epoch = _NO_SESSION
            self._new_run(one)
            return
        if max(request.replica_id, request.replica_state.replica_id) >= 0:
            return
        client, epoch = self._sources.client(row), request.session_epoch
        session = epoch not in (_NO_SESSION, _NEW_SESSION)
        follows = (
            (request.session_id == one.session and epoch == one.epoch + 1)
            if session
            else (not missing and epoch == one.epoch == _NO_SESSION)
        )
        if not follows or self._rebalances.get(client, 0) != one.rebalances:
            self._new_run(one)
            one.rebalances = self._rebalances.get(client, 0)
        asked = {
            self.place(self._sources.topic(topic.topic, topic.topic_id), part.partition): part.fetch_offset
            for topic in request.topics
            for part in topic.partitions
        }
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                one.positions.pop(self.place(self._sources.topic(gone.topic, gone.topic_id), number), None)
        # A partition that a request without a session leaves out may be read elsewhere until it is there again.
        new = [place for place in asked if place not in one.positions]
        if session:
            one.positions |= asked
        else:
            one.positions = dict(asked)
        one.epoch = epoch
        self._steps(found, one, asked, set(new), committed=request.isolation_level == _READ_COMMITTED)

    def _steps(
        self, found: CapturedExchange, one: _Connection, asked: dict[int, int], new: set[int], *, committed: bool
    ) -> None:
        response: Any = found.response
        origin = self._sources.origin(found.row)
        if response is None or kafka_name(response) != "FetchResponse" or found.row.problem or response.error_code:
            # What was given is not known, nor whether the session goes on.
            for place, offset in asked.items():
                self.append_row((place, offset, -1, one.run, place in new, True, committed, *origin))
            one.session, one.epoch = 0, _NO_SESSION
            self._new_run(one)
            return
        one.session = response.session_id
        if one.epoch == _NEW_SESSION and not response.session_id:
            one.epoch = _NO_SESSION
        given = {
            self.place(self._sources.topic(topic.topic, topic.topic_id), part.partition_index): part
            for topic in response.responses
            for part in topic.partitions
        }
        for place in dict.fromkeys((*asked, *given)):
            part = given.get(place)
            offset = asked.get(place, one.positions.get(place, -1))
            broken = part is not None and bool(part.error_code or part.preferred_read_replica >= 0)
            reached = -1 if part is None or broken else _reached(part.records or b"")
            self.append_row((place, offset, reached, one.run, place in new, broken, committed, *origin))


def _reached(data: bytes) -> int:
    last = -1
    for item in records.read(data, check_crc=False):
        if isinstance(item, Batch):
            last = item.last_offset + 1
    return last


class Moves(NamedTuple):
    """Pairs of requests of a consumer for a partition, between which none is missing: where it stood, and where it went
    on. The lengths are equal.

    Attributes:
        client: its number. at: the offset after what it was given. to: the offset that it asked for next.
        before, after: when the first was answered, and when the second was sent, each as a `moment`.
        committed: the consumer reads committed data only. row: of the second one.
    """

    client: Int32
    at: Int64
    to: Int64
    before: Int64
    after: Int64
    committed: Bools
    row: Int64


def moment(file: npt.NDArray[np.integer[Any]], packet: Int64) -> Int64:
    """The order of packets of several captures: of two in one file, the first is the lower one."""
    found: Int64 = (file.astype(np.int64) << 40) | packet
    return found


def moves(steps: Rows) -> Moves:
    """The pairs of a partition's steps.

    Args:
        steps: `STEP`, in the order of the captures.
    """
    order = np.argsort(steps["run"], kind="stable")
    rows = steps[order]
    first, second = rows[:-1], rows[1:]
    paired = (first["run"] == second["run"]) & ~first["broken"] & ~second["joined"] & (first["response_packet"] >= 0)
    first, second = first[paired], second[paired]
    return Moves(
        second["client"],
        np.maximum(first["offset"], first["reached"]),
        second["offset"].astype(np.int64),
        moment(first["file"], first["response_packet"]),
        moment(second["file"], second["packet"]),
        second["committed"],
        order[1:][paired],
    )

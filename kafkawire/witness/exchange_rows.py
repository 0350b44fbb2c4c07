"""Rows of exchanges, packed, and what all of them have in common. Pure.

Rows are packed arrays: 100 million batches are 9 GB, not 100 million objects. Nothing is ordered by a clock: rows are
in the order in which the captures have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypedDict
from uuid import UUID

import numpy as np
import numpy.typing as npt

from kafkawire.records import Batch
from kafkawire.records.header import HEADER, crc32c
from kafkawire.rows import Exchange
from kafkawire.witness.contents import contents

#: A topic, by name; by id where no name of it is known.
Place = tuple[str, int]
Rows = npt.NDArray[np.void]

#: Rows that are kept as objects before they are packed.
_PENDING = 4096
#: Where an exchange was captured: `client` is the number of the client's host and id, `file` that of the capture;
#: -1: there is none.
ORIGIN = [
    ("client", "<i4"), ("file", "<i4"), ("connection", "<i4"), ("packet", "<i8"), ("response_packet", "<i8"),
]  # fmt: skip
#: What `contents` is made of, beside the number of records. `whole`: the batch holds what its producer sent.
_CONTENT = [("checksum", "<u4"), ("size", "<i8"), ("base_timestamp", "<i8"), ("whole", "?")]


class Sources:
    """The captures and the clients of exchanges, numbered.

    Args:
        name_of: the name of a topic by its id; None where it is not known.
    """

    def __init__(self, name_of: Callable[[UUID], str | None] = lambda topic_id: None) -> None:
        self._name_of = name_of
        self._files: dict[str, int] = {}
        self._clients: dict[tuple[str, str], int] = {}

    @property
    def files(self) -> list[str]:
        """Names of the captures, of each number."""
        return list(self._files)

    @property
    def clients(self) -> list[tuple[str, str]]:
        """Host and client id of each number."""
        return list(self._clients)

    def client_number(self, client: tuple[str, str]) -> int:
        """The number of a client by its host and id."""
        return self._clients.setdefault(client, len(self._clients))

    def file_number(self, name: str) -> int:
        """The number of a capture by its name."""
        return self._files.setdefault(name, len(self._files))

    def topic(self, name: str, topic_id: UUID) -> str:
        """The name of a topic; its id where no name is known."""
        return name or self._name_of(topic_id) or str(topic_id)

    def file(self, row: Exchange) -> int:
        """The number of the capture of an exchange."""
        return self.file_number(row.file or "-")

    def client(self, row: Exchange) -> int:
        """The number of the client of an exchange."""
        host = (row.client or "").rpartition(":")[0]
        return self.client_number((host, row.client_id or ""))

    def origin(self, row: Exchange) -> tuple[int, int, int, int, int]:
        """Where an exchange was captured: the columns of `ORIGIN`."""
        return self.client(row), self.file(row), row.connection or -1, row.packet or -1, row.response_packet or -1


class Evidence(TypedDict):
    """What rows of anomalies say of a batch and of its exchange: attributes of `rows.BatchEvidence`."""

    topic: str
    partition: int
    records: int
    producer_id: int
    producer_epoch: int
    sequence: int
    client: str
    client_id: str
    file: str
    packet: int
    response_packet: int | None


def evidence_of(
    place: Place, rows: Any, one: int, files: Sequence[str], clients: Sequence[tuple[str, str]], exchange: Any = None
) -> Evidence:
    """The evidence on a row.

    Args:
        rows: have the columns of a batch and those of `ORIGIN`. one: number of the row.
        files, clients: of `Sources`.
        exchange: rows and the number of the one whose packets are named; None: those of the row.
    """
    source, at = (rows, one) if exchange is None else exchange
    host, client_id = clients[int(rows["client"][one])]
    answered = int(source["response_packet"][at])
    return Evidence(
        topic=place[0],
        partition=place[1],
        records=int(rows["records"][one]),
        producer_id=int(rows["producer_id"][one]),
        producer_epoch=int(rows["epoch"][one]),
        sequence=int(rows["sequence"][one]),
        client=host,
        client_id=client_id,
        file=files[int(source["file"][at])],
        packet=int(source["packet"][at]),
        response_packet=answered if answered >= 0 else None,
    )


class PartitionRows:
    """Collects rows of exchanges, by partition.

    Args:
        sources: captures and clients. row: of the rows; `place` is among its columns, and those of `ORIGIN` are the
            last.
    """

    def __init__(self, sources: Sources, row: np.dtype[np.void], pending_row: np.dtype[np.void] | None = None) -> None:
        self._sources = sources
        self._row = row
        self._pending_row = pending_row or row
        self._pending: list[tuple[Any, ...]] = []
        self._chunks: list[Rows] = []
        self._places: dict[Place, int] = {}

    @property
    def places(self) -> list[Place]:
        """Topic and partition of each number."""
        return list(self._places)

    def place(self, topic: str, partition: int) -> int:
        """The number of a partition."""
        return self._places.setdefault((topic, partition), len(self._places))

    def append_row(self, values: tuple[Any, ...]) -> None:
        """Add a row: a value for each column."""
        self._pending.append(values)
        if len(self._pending) >= _PENDING:
            self._pack()

    def _pack(self) -> None:
        if self._pending:
            self._chunks.append(self._packed(np.array(self._pending, self._pending_row)))
            self._pending.clear()

    def _packed(self, pending: Rows) -> Rows:
        return pending

    def by_place(self) -> Iterator[tuple[Place, Rows]]:
        """The rows of each partition, in the order of the captures. They are taken out."""
        self._pack()
        chunks, self._chunks = self._chunks, []
        yield from _split_by_place(chunks, self.places, self._row)


class ExchangeRows(PartitionRows):
    """Collects rows of the batches in exchanges.

    Args:
        sources: captures and clients. row: see `PartitionRows`; `content` and `records` are among its columns.

    Attributes:
        undecoded: number of exchanges, or of batches in them, that cannot be read. old: number of batches of magic 0
            and 1, which have no producer id and no checksum of their own.
    """

    def __init__(self, sources: Sources, row: np.dtype[np.void]) -> None:
        own = [(name, row[name]) for name in row.names or () if name != "content"]
        super().__init__(sources, row, np.dtype([*own, *_CONTENT]))
        self.undecoded = self.old = 0

    def append(self, batch: Batch, values: Sequence[Any], *, whole: bool = True) -> None:
        """Add a row.

        Args:
            batch: of magic 2. values: of all columns but `content`, in their order. whole: it holds what was sent.
        """
        checksum = crc32c(batch.data[HEADER.size :])
        self.append_row((*values, checksum, batch.size, batch.base_timestamp, whole))

    def _packed(self, pending: Rows) -> Rows:
        packed = np.empty(len(pending), self._row)
        for name in self._row.names or ():
            if name != "content":
                packed[name] = pending[name]
        parts = (pending[name] for name in ("checksum", "size", "records", "base_timestamp", "whole"))
        packed["content"] = contents(*parts)
        return packed


def _split_by_place(chunks: list[Rows], places: list[Place], row: np.dtype[np.void]) -> Iterator[tuple[Place, Rows]]:
    """The rows of each partition, in their order.

    Args:
        chunks: rows of all partitions, whose `place` is the number of one of `places`. Emptied, so that no row is kept
            twice.
        row: of the rows.
    """
    numbers = np.concatenate([np.empty(0, np.int32), *(chunk["place"] for chunk in chunks)])
    everything = np.empty(len(numbers), row)
    order = np.argsort(numbers, kind="stable")
    target = np.empty_like(order)
    target[order] = np.arange(len(order))
    done = 0
    while chunks:
        chunk = chunks.pop(0)
        everything[target[done : done + len(chunk)]] = chunk
        done += len(chunk)
    bounds = np.searchsorted(numbers[order], np.arange(len(places) + 1))
    for number, place in enumerate(places):
        first, end = int(bounds[number]), int(bounds[number + 1])
        if first < end:
            yield place, everything[first:end]

"""Ended transactions on their way to the tasks that judge them, and there in order.

`dealt` gives each task the ended transactions of its producer ids, many in a row: Java moves cells of bytes. `in_order`
has the rows of a task in the order of producer ids, epochs and times. Memory does not grow with them: more than a task
sorts at once are sorted runs in files, which are merged.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.records.control import EMPTY_CODE
from kafkawire.spark.auditing.outcome_rows import ENDING, Judged, unpacked
from kafkawire.spark.session.row_batches import as_batches
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.task_sizing import by_batches
from kafkawire.spark.session.typed_table import schema_of
from kafkawire.transactions.log.endings import JUDGED, PACKED
from kafkawire.transactions.log.spill import Groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkawire.transactions.facts import Place

#: A row that is judged, with the fields of `Judged` that order it; of an ended transaction `place` is the index of its
#: place, of another row `asked` that of the row.
ROW = np.dtype(
    [
        ("producer_id", "<i8"),
        ("data_epoch", "<i4"),
        ("timestamp", "<i8"),
        ("kind", "i1"),
        ("place", "<i4"),
        ("offset", "<i8"),
        ("marker_epoch", "<i2"),
        ("outcome", "i1"),
        ("asked", "<i4"),
    ]
)
Rows = npt.NDArray[np.void]

#: What orders rows. Other rows than ended transactions come in their order.
_KEYS = ("producer_id", "data_epoch", "timestamp", "kind", "place", "offset")
#: Of an ended transaction, as it is sent: `place` is the index of its place among those of the cell.
_FIELDS = ("producer_id", "offset", "timestamp", "data_epoch", "marker_epoch", "outcome")
_SENT = np.dtype([*((name, JUDGED[name]) for name in _FIELDS), ("place", "<i4")])
#: In place of an epoch and a time that a row does not have.
NO_EPOCH, _NO_TIME = -(1 << 31), -(1 << 63)
#: Ended transactions that are dealt at once, at least, and for each task.
_DEALT, _DEALT_A_TASK = 1 << 18, 1 << 7
#: Cells of a batch.
_CELLS = 16
#: Rows that are sorted at once, and those that are returned at once.
_SORTED, _AT_ONCE = 1 << 20, 1 << 16
#: Rows of a run that are read at once, at least.
_BLOCK = 1 << 10


def dealt(cells: DataFrame, tasks: int, *, whole: bool) -> DataFrame:
    """Ended transactions whose outcome is known, as rows of `Judged`: each has some of those of a task. `payload`: the
    places, and the transactions packed.

    Args:
        cells: with the columns of `EndedCell`.
        tasks: a producer id is of the task that is the rest of its division by that number.
        whole: all fields were kept.
    """
    fields = PACKED if whole else JUDGED
    schema = schema_of(Judged)

    def deal(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hands: dict[int, _Hand] = {}
        for row in (row for batch in batches for row in batch.to_pylist()):
            hand = hands.setdefault(row["cluster"], _Hand(row["cluster"], tasks))
            hand.take(row["place"], np.frombuffer(row["payload"], fields))
            if hand.count >= max(_DEALT, _DEALT_A_TASK * tasks):
                yield from as_batches(hand.dealt(), schema, _CELLS)
        for hand in hands.values():
            yield from as_batches(hand.dealt(), schema, _CELLS)

    return by_batches(cells, deal, from_arrow_schema(schema))


class _Hand:
    """Ended transactions of a cluster that wait to be dealt.

    Attributes:
        count: of them.
    """

    def __init__(self, cluster: int, tasks: int) -> None:
        self._cluster = cluster
        self._tasks = tasks
        self._places: dict[bytes, int] = {}
        self._chunks: list[Rows] = []
        self.count = 0

    def take(self, place: bytes, ended: Rows) -> None:
        known = ended[ended["outcome"] != EMPTY_CODE]
        found = np.empty(len(known), _SENT)
        for name in _FIELDS:
            found[name] = known[name]
        found["place"] = self._places.setdefault(place, len(self._places))
        self._chunks.append(found)
        self.count += len(found)

    def dealt(self) -> Iterator[Judged]:
        """Take out what there is."""
        rows = np.concatenate(self._chunks) if self._chunks else np.empty(0, _SENT)
        places = [unpacked(place) for place in self._places]
        self._places, self._chunks, self.count = {}, [], 0
        groups = Groups(rows["producer_id"], self._tasks)
        for number in range(self._tasks):
            found = groups.take(rows, number)
            if len(found):
                used = np.flatnonzero(np.bincount(found["place"], minlength=len(places)))
                found["place"] = np.searchsorted(used, found["place"])
                of_cell = [places[index] for index in used.tolist()]
                yield Judged(self._cluster, number, payload=sent((of_cell, found.tobytes())))


class Ordered(NamedTuple):
    """Rows of a cluster in order.

    Attributes:
        rows: of `ROW`. `asked`: those that are no ended transactions. `places`: of ended transactions.
    """

    cluster: int
    rows: Rows
    asked: Sequence[Judged]
    places: Sequence[Place]


def in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[Ordered]:
    """The rows of a task, in order.

    Args:
        batches: of `Judged`, by cluster; of each first the cells of ended transactions, then the others in order.
    """
    for cluster, of_cluster in groupby(_pieces(batches), key=lambda piece: piece[0]):
        with tempfile.TemporaryDirectory(prefix="kafkawire-", dir=_folder()) as folder:
            runs = _Runs(folder)
            others: Iterator[pa.RecordBatch] = iter(())
            for _, ended, piece in of_cluster:
                if not ended:
                    others = chain([piece], (other for _, _, other in of_cluster))
                    break
                for payload in piece["payload"]:
                    runs.take(*received(payload.as_py()))
            for rows, asked in _merged([*runs.streams(), _asked(others)]):
                yield Ordered(cluster, rows, asked, runs.places)


def _folder() -> str | None:
    """Where Spark's processes write what does not fit into memory."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bool, pa.RecordBatch]]:
    """Batches, cut where another cluster or kind of rows begins."""
    for batch in batches:
        cluster, kind = (np.array(batch[name].to_pylist()) for name in ("cluster", "kind"))
        ended = kind == ENDING
        cuts = np.flatnonzero((cluster[1:] != cluster[:-1]) | (ended[1:] != ended[:-1])) + 1
        bounds = [0, *cuts.tolist(), len(batch)]
        for start, stop in pairwise(bounds):
            if start < stop:
                yield int(cluster[start]), bool(ended[start]), batch.slice(start, stop - start)


class _Runs:
    """Ended transactions of a cluster, sorted.

    Args:
        folder: where runs are written, if there are several.

    Attributes:
        places: of them.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: list[str] = []
        self._waiting: list[Rows] = []
        self._count = 0
        self._numbers: dict[Place, int] = {}
        self.places: list[Place] = []

    def take(self, places: Sequence[Place], data: bytes) -> None:
        found = np.frombuffer(data, _SENT)
        rows = np.zeros(len(found), ROW)
        for name in _FIELDS:
            rows[name] = found[name]
        rows["kind"], rows["place"] = ENDING, np.array([self._number(place) for place in places])[found["place"]]
        self._waiting.append(rows)
        self._count += len(rows)
        if self._count >= _SORTED:
            path = os.path.join(self._folder, str(len(self._files)))
            self._sorted().tofile(path)
            self._files.append(path)

    def _number(self, place: Place) -> int:
        number = self._numbers.setdefault(place, len(self.places))
        if number == len(self.places):
            self.places.append(place)
        return number

    def _sorted(self) -> Rows:
        """Take out what waits."""
        rows = np.concatenate(self._waiting) if self._waiting else np.empty(0, ROW)
        self._waiting, self._count = [], 0
        return rows.take(
            np.lexsort([rows[name] for name in ("offset", "place", "timestamp", "data_epoch", "producer_id")])
        )

    def streams(self) -> Iterator[Iterator[_Piece]]:
        """Each run, in pieces."""
        block = max(_BLOCK, _AT_ONCE // (1 + len(self._files)))
        for path in self._files:
            yield _read(path, block)
        rows = self._sorted()
        yield (_Piece(rows[start : start + _AT_ONCE]) for start in range(0, len(rows), _AT_ONCE))


class _Piece(NamedTuple):
    """Rows in order. `asked`: those that are no ended transactions."""

    rows: Rows
    asked: Sequence[Judged] = ()


def _read(path: str, block: int) -> Iterator[_Piece]:
    with open(path, "rb") as file:
        while len(rows := np.fromfile(file, ROW, block)):
            yield _Piece(rows)


def _asked(batches: Iterable[pa.RecordBatch]) -> Iterator[_Piece]:
    """The rows that are no ended transactions."""
    for batch in batches:
        rows = np.zeros(len(batch), ROW)
        for name, nothing in (("producer_id", 0), ("data_epoch", NO_EPOCH), ("timestamp", _NO_TIME), ("kind", 0)):
            rows[name] = [nothing if value is None else value for value in batch[name].to_pylist()]
        yield _Piece(rows, list(map(Judged._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))))


def _merged(streams: Iterable[Iterator[_Piece]]) -> Iterator[_Piece]:
    """The rows of all streams in order. Of equal ones, those of the former stream come first."""
    waiting = [(piece, stream) for stream in streams if (piece := next(stream, None)) is not None]
    while waiting:
        # No row of what follows is before the last that all streams have reached.
        reached = min(tuple(piece.rows[name][-1].item() for name in _KEYS) for piece, _ in waiting)
        taken: list[_Piece] = []
        left: list[tuple[_Piece, Iterator[_Piece]]] = []
        for piece, stream in waiting:
            count = _count_until(piece.rows, reached)
            taken.append(_Piece(piece.rows[:count], piece.asked[:count]))
            following = (
                _Piece(piece.rows[count:], piece.asked[count:]) if count < len(piece.rows) else next(stream, None)
            )
            if following is not None:
                left.append((following, stream))
        waiting = left
        yield _joined([piece for piece in taken if len(piece.rows)])


def _count_until(rows: Rows, reached: tuple[Any, ...]) -> int:
    """The number of rows, in order, that are not after one."""
    low, high = 0, len(rows)
    for name, value in zip(_KEYS, reached, strict=True):
        column = rows[name][low:high]
        first, last = (low + int(np.searchsorted(column, value, side)) for side in ("left", "right"))
        if first == last:
            return first
        low, high = first, last
    return high


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    if len(pieces) == 1 and not pieces[0].asked:
        return pieces[0]
    asked: list[Judged] = []
    for piece in pieces:
        if piece.asked:
            piece.rows["asked"] = np.arange(len(asked), len(asked) + len(piece.asked))
            asked += piece.asked
    rows = np.concatenate([piece.rows for piece in pieces])
    return _Piece(rows[np.lexsort([rows[name] for name in reversed(_KEYS)])], asked)

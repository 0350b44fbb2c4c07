"""`Decided`: the decisions of a partition of `__transaction_state`, packed: there may be millions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import stacked
from kafkawire.transactions.log.producer_append import OUTCOMES
from kafkawire.transactions.log.spill import Block, Spill, of_group

#: A decision: the fields of `Decision`. `until`: `NOT_YET` for none. `partitions`: index of a list, `NOT_KNOWN` for
#: none, `NO_PARTITION` for an empty one. `id`: index of the transactional id.
DECIDED = np.dtype(
    [
        ("producer_id", "<i8"),
        ("offset", "<i8"),
        ("since", "<i8"),
        ("until", "<i8"),
        ("lowest_epoch", "<i4"),
        ("highest_epoch", "<i4"),
        ("marker_epoch", "<i4"),
        ("partitions", "<i4"),
        ("id", "<i4"),
        ("version", "<i2"),
        ("outcome", "i1"),
    ]
)
NOT_YET = np.iinfo(np.int64).min
NOT_KNOWN, NO_PARTITION = -1, -2

Rows = npt.NDArray[np.void]
Partitions = frozenset[tuple[str, int]]


class Decided(msgspec.Struct, frozen=True, eq=False):
    """Decisions: those of a producer id in the order in which they were made.

    Attributes:
        place: of the records. `rows`: packed (`DECIDED`).
        names: transactional ids. `lists`: partitions of transactions.
        blocks: rows before these, which were written (`Spill`).
    """

    place: Place
    rows: Rows
    names: Sequence[str]
    lists: Sequence[Partitions]
    blocks: tuple[Block, ...] = ()

    def __len__(self) -> int:
        return len(self.rows) + sum(map(len, self.blocks))

    def put_out(self, spill: Spill) -> Decided:
        """The same, with rows that were written."""
        block = spill.write(self.rows) if len(self.rows) else None
        if block is None:
            return self
        return msgspec.structs.replace(self, rows=np.empty(0, DECIDED), blocks=(*self.blocks, block))

    def group(self, number: int) -> Decided:
        """Those about data of one group of producer ids (`spill.GROUPS`), in memory."""
        rows = stacked(of_group([self.rows], list(self.blocks), number), DECIDED)
        return msgspec.structs.replace(self, rows=rows, blocks=())

    def __iter__(self) -> Iterator[Decision]:
        """Each as an object."""
        place, names, lists = self.place, self.names, self.lists
        for row in self.rows.tolist():
            producer_id, offset, since, until, lowest, highest, marker, partitions, name, version, outcome = row
            yield Decision(
                transactional_id=names[name],
                place=place,
                offset=offset,
                producer_id=producer_id,
                lowest_epoch=lowest,
                highest_epoch=highest,
                marker_epoch=marker,
                outcome=OUTCOMES[outcome],
                version=version,
                partitions=None if partitions == NOT_KNOWN else lists[partitions] if partitions >= 0 else frozenset(),
                since=since,
                until=None if until == NOT_YET else until,
            )

    def of(self, producer_ids: npt.NDArray[np.int64]) -> Decided:
        """The decisions about data of some producer ids."""
        return msgspec.structs.replace(self, rows=self.rows[np.isin(self.rows["producer_id"], producer_ids)])

    @classmethod
    def none(cls, place: Place) -> Decided:
        return cls(place, np.empty(0, DECIDED), (), ())

    @classmethod
    def listed(cls, place: Place, decisions: Iterable[Decision]) -> Decided:
        """Objects as rows."""
        names: dict[str, int] = {}
        lists: dict[Partitions, int] = {}
        rows = [
            (
                one.producer_id, one.offset, one.since, NOT_YET if one.until is None else one.until,
                one.lowest_epoch, one.highest_epoch, one.marker_epoch,
                NOT_KNOWN if one.partitions is None else lists.setdefault(one.partitions, len(lists)),
                names.setdefault(one.transactional_id, len(names)), one.version, OUTCOMES.index(one.outcome),
            )
            for one in decisions
        ]  # fmt: skip
        return cls(place, np.array(rows, DECIDED), list(names), list(lists))

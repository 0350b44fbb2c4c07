"""Batches that were sent, looked for in a copy of their partition. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import COMMITTED, NONE
from kafkawire.offsets import statuses
from kafkawire.records.array_types import Bools, Int8, Int64
from kafkawire.records.distinct import distinct
from kafkawire.witness import batch_fates as fates
from kafkawire.witness.contents import NOT_COMPARABLE, UInt64
from kafkawire.witness.grouping import among, identity
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.packed_rows import PackedRows

_NOWHERE = -1
#: What the status of an offset shows of an acknowledged batch that is not there; -1: above the end.
_ABSENT = np.full(statuses.CODES + 1, fates.LOST, np.int8)
for _status, _shown in (
    (statuses.COMPACTED, fates.COMPACTION_NOT_PROVEN),
    (statuses.DELETED, fates.DELETED),
    (statuses.ABOVE, fates.ABOVE_HIGH_WATERMARK),
    (statuses.TRUNCATED, fates.TRUNCATED),
    (statuses.UNREADABLE, fates.UNREADABLE),
    (-1, fates.ABOVE_LOG_END),
):
    _ABSENT[_status] = _shown


class Located(NamedTuple):
    """What a copy shows of each batch.

    Attributes:
        seen: by the codes of `batch_fates`. at: row in the copy's batches; -1: none. second: another one; -1: none.
        unseen: number of the copy's batches that none of those sent is.
    """

    seen: Int8
    at: Int64
    second: Int64
    unseen: int


def locate(sent: PackedRows, batches: PackedRows, rows: PackedRows, copy: CopyOfPartition, *, newest: bool) -> Located:
    """Looks for batches in a copy.

    Args:
        sent: what was sent to the partition. batches: the same, grouped. rows: of each batch the first sending.
        newest: whether no other copy is newer: only such a copy proves that a batch is not in the log.
    """
    held, left = copy.batches, None
    if copy.diverges_at is not None:
        cut = int(np.searchsorted(held["last"], copy.diverges_at))
        number = np.arange(len(held))
        held, left = held.take(number[:cut]), held.take(number[cut:])
    at, second, ambiguous = _found_in(batches, rows, held)
    acked = batches["response"] == fates.ACKED
    seen = np.where(acked & (batches["offset"] < 0), np.int8(fates.NO_OFFSET), np.int8(fates.NOT_FOUND))
    found = at >= 0
    seen[found] = _as_found(batches.take(found), rows.take(found), held, at[found], second[found])
    everywhere = at.copy()
    later = _later(sent, batches, rows, seen)
    _not_proven(batches, rows, copy, seen, at, later, newest=newest)
    found = at >= 0
    missing = np.flatnonzero(acked & ~found & (batches["offset"] >= 0))
    seen[missing] = _absent(batches["offset"][missing], rows["offsets"][missing], copy, later[missing], newest=newest)
    rewritten = _rewritten(batches["offset"][missing], rows.take(missing), held)
    seen[missing[rewritten & (seen[missing] == fates.LOST)]] = fates.REWRITTEN
    if left is not None and len(missing):
        only_there, _, _ = _found_in(batches.take(missing), rows.take(missing), left)
        dropped = missing[only_there >= 0]
        before = everywhere[dropped] >= 0
        seen[dropped] = np.where(before, fates.ELSEWHERE, fates.LOST)
        at[dropped] = np.where(before, everywhere[dropped], only_there[only_there >= 0] + len(held))
    seen[ambiguous] = fates.AMBIGUOUS
    _under_another_key(rows, held, seen, at)
    if not copy.sound:  # a batch's offset is under no checksum
        seen[np.isin(seen, (fates.LOST, fates.ELSEWHERE))] = fates.DAMAGED
    if not (copy.same or (seen == fates.HELD).any()):
        seen[seen >= fates.LOST] = fates.OTHER_LOG
    used = np.zeros(len(held), bool)
    used[at[found]] = True
    used[second[second >= 0]] = True
    return Located(seen, at, second, int(len(held) - used.sum()))


def _found_in(batches: PackedRows, rows: PackedRows, held: PackedRows) -> tuple[Int64, Int64, list[int]]:
    """Where batches are, where they are once more, and those of which that cannot be decided."""
    at, second = np.full((2, len(batches)), _NOWHERE, np.int64)
    if not len(held):
        return at, second, []
    keys = identity(held["producer_id"], held["epoch"], held["sequence"], held["content"])
    at = _at_acknowledged_offset(batches, rows, held, keys)
    ambiguous = _by_key(batches, rows, held, keys, at, second)
    _after_a_reset(batches, rows, held, at, second)
    return at, second, ambiguous


def _as_found(batches: PackedRows, rows: PackedRows, held: PackedRows, at: Int64, second: Int64) -> Int8:
    """What is seen of batches that a copy holds."""
    changed = (
        (held["content"][at] != rows["content"])
        & (held["content"][at] != NOT_COMPARABLE)
        & (held["codec"][at] == rows["codec"])
    )
    moved = (batches["offset"] >= 0) & (held["base"][at] != batches["offset"])
    conditions = [changed, second >= 0, moved]
    return np.select(conditions, [fates.CHANGED, fates.TWICE, fates.ELSEWHERE], fates.HELD).astype(np.int8)


def _under_another_key(rows: PackedRows, held: PackedRows, seen: Int8, at: Int64) -> None:
    """Finds the records of batches that are not at their offsets under another producer id, epoch or sequence, where
    they had been appended before a reset (KIP-360)."""
    lost = np.flatnonzero((seen == fates.LOST) & (rows["producer_id"] >= 0))
    if not len(lost) or not len(held):
        return
    content = np.where(np.isin(held["state"], (NONE, COMMITTED)), held["content"], NOT_COMPARABLE)
    order = np.argsort(content, kind="stable")
    place = np.minimum(np.searchsorted(content[order], rows["content"][lost]), len(held) - 1)
    there = content[order][place] == rows["content"][lost]
    at[lost[there]] = order[place[there]]
    seen[lost[there]] = fates.ELSEWHERE


def _not_proven(
    batches: PackedRows, rows: PackedRows, copy: CopyOfPartition, seen: Int8, at: Int64, later: Bools, *, newest: bool
) -> None:
    """Withdraws the places of batches that were acknowledged with another offset, if it is unknown what that offset
    holds. For batches without a sequence, they are withdrawn unless it holds other data: the copy's records may have
    been appended when they were sent at another time, which no capture shows."""
    moved = np.flatnonzero(seen == fates.ELSEWHERE)
    shown = _absent(batches["offset"][moved], rows["offsets"][moved], copy, later[moved], newest=newest)
    plain = rows["producer_id"][moved] < 0
    nothing = np.isin(shown, (fates.UNREADABLE, fates.TRUNCATED, fates.COMPACTION_NOT_PROVEN))
    at[moved[nothing | (plain & (shown != fates.LOST))]] = _NOWHERE


def _at_acknowledged_offset(batches: PackedRows, rows: PackedRows, held: PackedRows, keys: UInt64) -> Int64:
    """Where batches are that have the offset that was acknowledged; -1 for others."""
    place = np.minimum(np.searchsorted(held["base"], batches["offset"]), len(held) - 1)
    there = held["base"][place] == batches["offset"]
    return np.where(there & (keys[place] == batches["key"]), place, _NOWHERE)


def _rewritten(offset: Int64, rows: PackedRows, held: PackedRows) -> Bools:
    """Whether at the offset that was acknowledged a batch without a sequence is whose bytes compaction or compression
    changed: nothing shows whether its records are those that were sent."""
    if not len(held):
        return np.zeros(len(offset), bool)
    place = np.minimum(np.searchsorted(held["base"], offset), len(held) - 1)
    found: Bools = (
        (held["base"][place] == offset)
        & (rows["producer_id"] < 0)
        & (held["producer_id"][place] < 0)
        & ((held["content"][place] == NOT_COMPARABLE) | (held["codec"][place] != rows["codec"]))
        & (held["last"][place] - offset + 1 == rows["offsets"])
    )
    return found


def _by_key(
    batches: PackedRows, rows: PackedRows, held: PackedRows, keys: UInt64, at: Int64, second: Int64
) -> list[int]:
    """Fills in where the other batches are, and second copies of any. Returns those of which that cannot be decided."""
    ordered = np.sort(keys)
    repeated = distinct(ordered[1:][ordered[1:] == ordered[:-1]])
    repeated = repeated[repeated != NOT_COMPARABLE]
    lookups = at < 0
    if len(repeated):
        lookups |= among(batches["key"], repeated)
    chosen = np.flatnonzero(lookups)
    if not len(chosen):
        return []
    order = np.argsort(keys)
    wanted = batches["key"][chosen]
    first, end = np.searchsorted(ordered, wanted), np.searchsorted(ordered, wanted, side="right")
    _, which, number = np.unique(wanted, return_inverse=True, return_counts=True)
    plain = rows["producer_id"][chosen] < 0
    used = np.zeros(len(held), bool)
    used[at[at >= 0]] = True
    alone = (end - first == 1) & ((number[which] == 1) | ~plain)
    simple = np.flatnonzero(alone & (at[chosen] < 0))
    simple = simple[~(used[order[first[simple]]] & plain[simple])]
    at[chosen[simple]] = order[first[simple]]
    shared: dict[int, list[int]] = {}
    for one in np.flatnonzero(~alone & (end > first)).tolist():
        shared.setdefault(int(wanted[one]), []).append(one)
    ambiguous: list[int] = []
    for members in shared.values():
        copies = sorted(order[first[members[0]] : end[members[0]]].tolist())
        mine = chosen[members].tolist()
        if plain[members[0]]:
            ambiguous += _shared(batches, mine, copies, at, second)
        else:
            _repeated(rows, held, mine, copies, at, second)
    return ambiguous


def _repeated(
    rows: PackedRows, held: PackedRows, members: list[int], copies: list[int], at: Int64, second: Int64
) -> None:
    """Judges several copies of one producer id, epoch and sequence. The same records twice are a batch that is held
    twice."""
    for one in members:
        same = [copy for copy in copies if held["content"][copy] == rows["content"][one]]
        if at[one] < 0:
            at[one] = (same or copies)[0]
        others = [copy for copy in same if copy != at[one]]
        if others and int(at[one]) in same:
            second[one] = others[0]


def _shared(batches: PackedRows, members: list[int], copies: list[int], at: Int64, second: Int64) -> list[int]:
    """Judges several copies of the same records, or several batches of them, without idempotence. Copies at the offsets
    that were acknowledged are taken; others are of those that were not acknowledged, and second ones of what was sent
    again. Returns the batches of which that cannot be decided."""
    taken = {int(at[one]) for one in members if at[one] >= 0}
    free = [one for one in copies if one not in taken]
    acked = [one for one in members if at[one] < 0 and batches["response"][one] == fates.ACKED]
    others = [one for one in members if at[one] < 0 and batches["response"][one] != fates.ACKED]
    wanting = [one for one in others if batches["open"][one] or batches["may_be_held"][one]]
    if free and (acked or len(wanting) > len(free)) and len(acked) + len(wanting) != 1:
        return acked + wanting
    for one in acked + wanting:
        if free:
            at[one] = free.pop(0)
    for one in members:
        if free and at[one] >= 0 and batches["sendings"][one] > 1:
            second[one] = free.pop(0)
    return []


def _after_a_reset(batches: PackedRows, rows: PackedRows, held: PackedRows, at: Int64, second: Int64) -> None:
    """Second copies of batches that were sent again under another producer id or epoch (KIP-360): the same records, of
    the same client, where the first was not answered. What was aborted is sent again rightly."""
    here = (rows["producer_id"] >= 0) & (at >= 0)
    open_ones = here & (batches["response"] != fates.ACKED)
    if not open_ones.any():
        return
    chosen = np.flatnonzero(here & among(rows["content"], distinct(rows["content"][open_ones])))
    content = rows["content"][chosen]
    order = np.argsort(content, kind="stable")
    again = np.flatnonzero(content[order][1:] == content[order][:-1])
    earlier, later = chosen[order[again]], chosen[order[again + 1]]
    counted = np.isin(held["state"], (NONE, COMMITTED))
    twice = (
        (rows["client"][earlier] == rows["client"][later])
        & (
            (rows["producer_id"][earlier] != rows["producer_id"][later])
            | (rows["epoch"][earlier] != rows["epoch"][later])
        )
        & (batches["response"][earlier] != fates.ACKED)
        & (at[earlier] != at[later])
        & counted[at[earlier]]
        & counted[at[later]]
        & (held["content"][at[earlier]] == held["content"][at[later]])
    )
    second[later[twice]] = at[earlier[twice]]


def _later(sent: PackedRows, batches: PackedRows, rows: PackedRows, seen: Int8) -> Bools:
    """Whether the copy is newer than the answer to each batch: it holds one that the same capture has after it."""
    as_acknowledged = seen == fates.HELD
    files, packets = rows["file"][as_acknowledged], rows["packet"][as_acknowledged]
    newest = np.full(int(sent["file"].max(initial=0)) + 1, -1, np.int64)
    for file in np.unique(files).tolist():
        newest[file] = packets[files == file].max()
    answers = batches["answer"]
    found: Bools = newest[sent["file"][answers]] > sent["response_packet"][answers]
    return found


def _absent(offset: Int64, offsets: Int64, copy: CopyOfPartition, later: Bools, *, newest: bool) -> Int8:
    """What a copy shows of acknowledged batches that it does not hold.

    Args:
        offset: that was acknowledged. offsets: that the batch has. later: whether the copy is newer than the answer.
    """
    last = offset + offsets - 1
    status, of_last = copy.status(offset), copy.status(last)
    seen = _ABSENT[status]
    # A batch that reaches over the log start offset is still in its segment.
    seen[(seen == fates.DELETED) & (of_last != statuses.DELETED)] = fates.UNREADABLE
    seen[(seen == fates.COMPACTION_NOT_PROVEN) & (last < copy.compacted_to)] = fates.COMPACTED
    other = _ABSENT[status] == fates.LOST
    seen[other & ~later] = fates.NOT_LATER
    if not (newest and copy.commits):
        seen[other] = fates.COPIES_DIFFER if copy.commits else fates.ABOVE_HIGH_WATERMARK
    return seen

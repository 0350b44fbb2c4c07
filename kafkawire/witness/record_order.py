"""Two copies of the same records under other offsets, compared by order and checksum: a mirror. Pure but for the walk.

Each record that read_committed consumers get has a digest of its key, value and headers: a mirror may have set
the timestamps. The n-th record with
a digest in one copy is the n-th with it in the other. So a record that was copied once too often is repeated, and of
those without a partner the ones between two that have one are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from kafkawire.logdir.splits import batches_of
from kafkawire.logdir.transaction_states import COMMITTED, NONE
from kafkawire.offsets import Replica
from kafkawire.records import Damage, Record
from kafkawire.records.array_types import Int8, Int64
from kafkawire.records.columns import Batches, Records, records
from kafkawire.rows import DamageRow
from kafkawire.witness.contents import UInt64, mixed
from kafkawire.witness.copy_comparison import (
    BEFORE,
    BEHIND,
    COMPACTED,
    EXTRA,
    LOST,
    REORDERED,
    REPEATED,
    SAME,
    UNPROVEN,
)


class OrderedRecords(NamedTuple):
    """The records of a copy that read_committed consumers get. `digest`: of each. `damage`: what cannot be read.
    `key`: the digest of each record's key, 0 without one; None: not known. `compacted_to`: what the cleaner of the copy
    has come across, offsets below it."""

    offset: Int64
    digest: UInt64
    damage: tuple[DamageRow, ...]
    key: UInt64 | None = None
    compacted_to: int = 0


def ordered_records(replica: Replica, *, headers: bool = True) -> OrderedRecords:
    """Reads the records of a replica, up to its last stable offset.

    Args:
        headers: are part of the digests.

    Raises:
        OSError: a file cannot be read.
    """
    offsets, digests, keys = [], [], []
    damage: list[DamageRow] = []
    start, end = replica.bounds.log_start_offset, replica.bounds.last_stable_offset
    for file in replica.partition.segments:
        for item in batches_of(file):
            if isinstance(item, Damage):
                if not item.harmless:
                    damage.append(DamageRow.of(item, **file.place))
            elif isinstance(item, Batches):
                states = replica.outcomes.states(item)
                data = item.where(~item.is_control & np.isin(states, (NONE, COMMITTED)) & (item.record_count > 0))
                for piece in records(data) if len(data) else ():
                    damage += (DamageRow.of(one, **file.place) for one in piece.damage)
                    offsets.append(piece.offset)
                    digests.append(np.fromiter(_digests(piece, headers=headers), np.uint64, len(piece)))
                    keys.append(np.fromiter(_key_digests(piece), np.uint64, len(piece)))
            else:
                found = [(record.offset, _digest_of(record, headers=headers)) for record in item.records]
                offsets.append(np.array([offset for offset, _ in found], np.int64))
                digests.append(np.array([digest for _, digest in found], np.uint64))
                keys.append(np.array([_key_digest(record.key) for record in item.records], np.uint64))
    offset = np.concatenate([np.empty(0, np.int64), *offsets])
    digest = np.concatenate([np.empty(0, np.uint64), *digests])
    key = np.concatenate([np.empty(0, np.uint64), *keys])
    wanted = (offset >= start) & (offset < end)
    one = replica.partition
    return OrderedRecords(
        offset[wanted],
        digest[wanted],
        tuple(dict.fromkeys((*damage, *replica.support_damage))),
        key[wanted],
        one.broker.cleaned.get((one.topic, one.partition), 0),
    )


def _digests(found: Records, *, headers: bool) -> Iterator[int]:
    data = memoryview(found.data.data)
    header = 0
    names = ("header_key_start", "header_key_length", "header_value_start", "header_value_length")
    listed = list(zip(*(getattr(found, name).tolist() for name in names), strict=True))
    columns = (found.key_start, found.key_length, found.value_start, found.value_length, found.header_count)
    for key, key_length, value, value_length, count in zip(*(column.tolist() for column in columns), strict=True):
        parts = [(key, key_length), (value, value_length)]
        for one in listed[header : header + count] if headers else ():
            parts += [one[:2], one[2:]]
        header += count
        yield digest_of(data[at : at + size] if size >= 0 else None for at, size in parts)


def _key_digests(found: Records) -> Iterator[int]:
    data = memoryview(found.data.data)
    for key, length in zip(found.key_start.tolist(), found.key_length.tolist(), strict=True):
        yield _key_digest(data[key : key + length] if length >= 0 else None)


def _key_digest(key: bytes | memoryview | None) -> int:
    return 0 if key is None else digest_of([key]) | 1


def _digest_of(record: Record, *, headers: bool) -> int:
    parts = [record.key, record.value]
    for header in record.headers if headers else ():
        parts += [header.key.encode("utf-8", "surrogateescape"), header.value]
    return digest_of(parts)


def digest_of(parts: Iterable[bytes | memoryview | None]) -> int:
    """The digest of a record's key, value, and keys and values of headers."""
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part))
        if part is not None:
            digest.update(part)
    return int.from_bytes(digest.digest(), "little")


def by_order(one: OrderedRecords, other: OrderedRecords) -> tuple[Int8, Int8]:
    """What each record of a copy is in the other, by the codes of `copy_comparison`: of the first copy, then of the
    second, which was made of the first."""
    a, b = (mixed(found.digest, _occurrence(found.digest)) for found in (one, other))
    order = np.argsort(b)
    place = np.minimum(np.searchsorted(b[order], a), max(len(b) - 1, 0))
    paired = b[order][place] == a if len(b) else np.zeros(len(a), bool)
    partner = order[place[paired]] if len(b) else np.empty(0, np.int64)
    in_a = np.full(len(a), LOST, np.int8)
    in_b = np.full(len(b), LOST, np.int8)
    in_a[paired], in_b[partner] = SAME, SAME
    for kinds, ends in ((in_a, np.flatnonzero(paired)), (in_b, np.sort(partner))):
        if len(ends):
            kinds[: ends[0]], kinds[ends[-1] + 1 :] = BEFORE, BEHIND
        else:
            kinds[:] = BEHIND
    in_a = _compacted(in_a, one, other, np.flatnonzero(paired), partner)
    back = np.argsort(partner, kind="stable")
    in_b = _compacted(in_b, other, one, partner[back], np.flatnonzero(paired)[back])
    in_b[in_b == LOST] = EXTRA
    in_b[(in_b != SAME) & np.isin(other.digest, one.digest)] = REPEATED
    if len(partner):
        in_b[partner[partner < np.maximum.accumulate(partner)]] = REORDERED
    return in_a, in_b


def _compacted(kinds: Int8, mine: OrderedRecords, theirs: OrderedRecords, at: Int64, partner: Int64) -> Int8:
    """The lost records whose absence is explained by compaction of the other copy: the cleaner has come across, and a
    later record of the key is there. Without a later one it may have been a tombstone, which is removed in time.

    Args:
        at: the records that have a partner, in order. partner: their places in the other copy.
    """
    if mine.key is None or not theirs.compacted_to or not len(at):
        return kinds
    lost = np.flatnonzero(kinds == LOST)
    following = np.searchsorted(at, lost)
    behind = theirs.offset[partner[np.minimum(following, len(at) - 1)]]
    cleaned = (following < len(at)) & (behind <= theirs.compacted_to)
    order = np.lexsort((at, mine.key[at]))
    keys, places = mine.key[at][order], at[order]
    last = np.searchsorted(keys, mine.key[lost], side="right") - 1
    replaced = (last >= 0) & (keys[np.maximum(last, 0)] == mine.key[lost]) & (places[np.maximum(last, 0)] > lost)
    has_key = mine.key[lost] != 0
    found = kinds.copy()
    found[lost[cleaned & has_key]] = UNPROVEN
    found[lost[cleaned & has_key & replaced]] = COMPACTED
    return found


def _occurrence(digest: UInt64) -> Int64:
    """How often each digest was there before."""
    order = np.argsort(digest, kind="stable")
    ordered = digest[order]
    new = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    starts = np.flatnonzero(new)
    counted = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    found = np.empty(len(digest), np.int64)
    found[order] = counted
    return found

"""`FillShares`: the groups that fill a partition of `__consumer_offsets`, by the keys of its records. Pure."""

from __future__ import annotations

import msgspec

from kafkawire.errors import RecordError
from kafkawire.offsets.group_records import group_of
from kafkawire.records import Batch
from kafkawire.records.internal_topics import decode_key
from kafkawire.rows import FillShare

_TOPIC = "__consumer_offsets"
#: The most groups that are counted by name, and the most keys of all of them; records of later ones belong to none.
MOST_GROUPS, MOST_KEYS = 20_000, 1_000_000
#: Groups in an answer; the rest is one row.
SHOWN = 10


class _Share(msgspec.Struct):
    records: int = 0
    bytes: int = 0
    keys: int = 0


class FillShares:
    """Adds up what the records of each group take. `unread`: number of batches whose records cannot be read; they
    belong to no group."""

    def __init__(self) -> None:
        self._shares: dict[str | None, _Share] = {}
        self._keys: dict[bytes, str | None] = {}
        self.unread = 0
        self._first = ""

    @property
    def doubt(self) -> str | None:
        """What could not be read, a sentence; None where all was."""
        more = f", and {self.unread - 1:,} more batches" if self.unread > 1 else ""
        return f"{self._first}{more}" if self.unread else None

    def add(self, batch: Batch) -> None:
        """Count the records of a batch; those that cannot be read belong to no group."""
        if batch.is_control:
            return
        try:
            for record in batch.records:
                key = bytes(record.key or b"")
                size = len(key) + len(record.value or b"")
                known = key in self._keys
                group = self._keys[key] if known else _group(key)
                if group not in self._shares and len(self._shares) >= MOST_GROUPS:
                    group = None
                share = self._shares.setdefault(group, _Share())
                share.records += 1
                share.bytes += size
                if not known and len(self._keys) < MOST_KEYS:
                    self._keys[key] = group
                    share.keys += 1
        except RecordError as error:
            self.unread += 1
            self._first = self._first or f"the batch at offset {batch.base_offset} could not be read: {error}"
            share = self._shares.setdefault(None, _Share())
            share.records += max(batch.record_count, 0)
            share.bytes += batch.size

    def rows(self) -> tuple[FillShare, ...]:
        """The largest ones, and all others as one."""
        total = sum(one.bytes for one in self._shares.values())
        if not total:
            return ()
        ordered = sorted(self._shares.items(), key=lambda item: (-item[1].bytes, item[0] or ""))
        named = [(group, one) for group, one in ordered if group is not None]
        shown, left = named[:SHOWN], [one for _, one in named[SHOWN:]]
        left += [self._shares[None]] if None in self._shares else []
        found = [_row(group, one, total) for group, one in shown]
        if left:
            rest = _Share(sum(o.records for o in left), sum(o.bytes for o in left), sum(o.keys for o in left))
            found.append(_row(None, rest, total))
        return tuple(found)


def _row(group: str | None, one: _Share, total: int) -> FillShare:
    return FillShare(group=group, records=one.records, bytes=one.bytes, share=one.bytes / total, keys=one.keys)


def _group(key: bytes) -> str | None:
    read = decode_key(_TOPIC, key)
    return None if read is None or read.message is None else group_of(read.message)

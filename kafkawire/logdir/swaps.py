"""`in_use`: the files of a partition that a broker uses after its next start, where it was stopped while it replaced
segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kafkawire.logdir.located_file import LocatedFile, known_size
from kafkawire.logdir.tiers import copied_end

L = TypeVar("L", bound=LocatedFile)

_CLEANED, SWAP = "cleaned", "swap"
#: States of a file that is written, replaced or removed.
_LEFT = frozenset({_CLEANED, SWAP, "deleted", "part", "tmp"})
#: The kinds of a segment's files. Snapshots of producer state are not replaced.
_REPLACED = frozenset({"log", "index", "timeindex", "txnindex"})


def in_use(files: Iterable[L]) -> tuple[L, ...]:
    """The files in use of a partition's folder (Kafka's `LogLoader.load`).

    A compacted segment is written as `.cleaned`, renamed to `.swap` when it is whole, and then takes the place of those
    that it was made of. A broker that was stopped in between renames `.swap` files and deletes the segments that begin
    in the range of their offsets; `.cleaned` files, and `.swap` files from the first of these on, it deletes. `files`:
    all of the folder. Swapped segments are read for their ends; nothing is where there is none."""
    files = tuple(files)
    plain = [file for file in files if file.state not in _LEFT]
    cleaned = min((file.offset or 0 for file in files if file.state == _CLEANED), default=None)
    swaps = [file for file in files if file.state == SWAP and (cleaned is None or (file.offset or 0) < cleaned)]
    if not swaps:
        return tuple(plain)
    taken = {(file.kind, file.offset) for file in swaps}
    logs = [file for file in swaps if file.kind == "log"]
    start = min((file.offset or 0 for file in logs), default=0)
    end = max((_end(file) for file in logs), default=0)

    def replaced(file: L) -> bool:
        inside = file.kind in _REPLACED and start <= (file.offset or 0) < end
        return inside or (file.kind, file.offset) in taken

    return (*(file for file in plain if not replaced(file)), *swaps)


def _end(file: LocatedFile) -> int:
    """The offset after a segment's last batch; its first offset where it is empty."""
    end, _ = copied_end(file)
    return end if known_size(file) else file.offset or 0

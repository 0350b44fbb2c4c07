"""Reading of record batches one after the other, continuing after damage between them.

`read` yields in order of position: each `Batch`, and a `Damage` for each range of bytes that holds
none. After damage it continues at the next batch that its magic, a plausible length and its checksum prove. The work is
linear in the size of the data, whatever sizes the bytes claim (`BatchWalk`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.records.batch import Batch
from kafkawire.records.batch_walk import BatchWalk
from kafkawire.records.compression import MAX_BATCH_BYTES
from kafkawire.records.damage import Damage
from kafkawire.records.header import LOG_OVERHEAD
from kafkawire.records.source import Data, source_of


def read(
    data: Data,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    check_offsets: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[Batch | Damage]:
    """The batches in `data`, and the damage between them, in order of position.

    Args:
        start: the beginning of a batch (see `find_batch`).
        end: only what begins before it; a batch may end after it.
        check_crc: compare every batch's checksum. Without it, a batch is believed by its length, nothing but headers is
            looked at, and wrappers of magic 0 and 1 are not `measured`.
        check_offsets: a batch needs an offset that a log may have. Producers may send any: the broker assigns them.
        max_batch_bytes: most bytes of a batch, in the file and decompressed; a longer one is damage.
    """
    source = source_of(data)
    walk = BatchWalk(source, check_crc, max_batch_bytes, start, check_offsets)
    stop = source.size if end is None else min(end, source.size)
    position: int | None = start
    while position is not None and position < stop:
        found = walk.batch_at(position)
        if isinstance(found, Batch):
            yield found
            position += found.batch_length + LOG_OVERHEAD
        else:
            damage = walk.damage(position, found, stop)
            yield damage
            position = damage.resumed_at


def find_batch(
    data: Data, start: int = 0, end: int | None = None, *, max_batch_bytes: int = MAX_BATCH_BYTES
) -> int | None:
    """Position of the first batch that begins in `[start, end)` and is proven by its checksum; None where none does.

    So a file can be split anywhere: each range consists of the batches that begin in it.

    Args:
        data: bytes or a source of them.
        start, end: byte offsets; None: the end of the data.
        max_batch_bytes: what is larger is no batch.
    """
    source = source_of(data)
    stop = source.size if end is None else min(end, source.size)
    return BatchWalk(source, True, max_batch_bytes, start).find(start, stop)

"""`python -m tools.bench.witness`: how fast sent batches are joined with those of a copy, and in how much memory.

Rows are generated: a partition with batches of several idempotent producers, of which some were not answered, some were
sent twice, and some are below the log start offset. Reading captures and logs is measured elsewhere.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from kafkawire.offsets import statuses
from kafkawire.witness import batch_fates as fates
from kafkawire.witness.exchange_rows import Rows
from kafkawire.witness.held import HELD, MARKER, CopyOfPartition, Held
from kafkawire.witness.judgement import judge
from kafkawire.witness.packed_rows import PackedRows
from kafkawire.witness.sent import SENT

_PRODUCERS = 50
_RECORDS = 10
#: One batch of so many is not answered; as many are sent twice.
_EVERY = 100


def generated(batches: int) -> tuple[Rows, CopyOfPartition]:
    """What was sent, and a copy that holds it from a tenth of the log on."""
    number = np.arange(batches)
    sent = np.zeros(batches, SENT)
    sent["producer_id"], sent["sequence"] = 1000 + number % _PRODUCERS, number // _PRODUCERS * _RECORDS
    sent["offsets"] = sent["records"] = _RECORDS
    sent["content"] = number + 1
    sent["response"], sent["offset"] = fates.ACKED, number * _RECORDS
    unanswered = number % _EVERY == 0
    sent["response"][unanswered], sent["offset"][unanswered] = fates.UNANSWERED, -1
    sent["packet"], sent["response_packet"] = 2 * number, np.where(unanswered, -1, 2 * number + 1)
    again = sent[number % _EVERY == 1]
    return np.concatenate((sent, again)), _copy(_held(sent, number), batches)


def _held(sent: Rows, number: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Held:
    held = np.zeros(len(sent), HELD)
    for name in ("producer_id", "epoch", "sequence", "records", "content", "codec"):
        held[name] = sent[name]
    held["base"], held["last"] = number * _RECORDS, number * _RECORDS + _RECORDS - 1
    return held[len(held) // 10 :]


def _copy(held: Held, batches: int) -> CopyOfPartition:
    start, end = int(held["base"][0]), batches * _RECORDS
    return CopyOfPartition(
        path="copy",
        batches=PackedRows.of(held),
        markers=PackedRows.of(np.zeros(0, MARKER)),
        first=np.array([0, start]),
        code=np.array([statuses.DELETED, 0], np.int8),
        end=end,
        log_end=end,
        compacted_to=0,
        same=True,
        sound=True,
        commits=True,
        diverges_at=None,
        segments=(),
    )


def measured(batches: int) -> tuple[float, float]:
    """Batches a second of processor time, and MB that the join took beyond its input."""
    sent, copy = generated(batches)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    judgement = judge(("orders", 0), sent, [copy])
    counts = judgement.counts()
    seconds = time.process_time() - began
    if sum(number for number, _ in counts.values()) != batches:
        raise AssertionError(f"the counts of fates do not sum to {batches} batches: {counts}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return batches / seconds, grown / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=1_000_000)
    wanted = parser.parse_args().batches
    speed, grown = measured(wanted)
    print(f"{wanted:,} batches: {speed:,.0f} a second of processor time, {grown:,.0f} MB beyond their rows")

"""Sent batches that are one batch, sent again. Pure.

An idempotent producer sends a batch again under the same producer id, epoch and sequence. Another one sends the same
bytes again where an answer failed to arrive: that is told from the same records sent twice by what the client knew. It
does not send again what was acknowledged; and a connection whose answers it still awaits is not left.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Bools, Int64
from kafkawire.witness.contents import UInt64, mixed
from kafkawire.witness.fates import ACKED, MAY_BE_HELD, REFUSED, UNANSWERED, UNREAD
from kafkawire.witness.sent import Sent

#: A batch that was produced. `told`: the best of its answers. `key`: of all copies of it. `sendings`: how often it was
#: sent; `open`: how many of these have no answer that was read. `may_be_held`: an error of `MAY_BE_HELD` is among them.
#: `row`: of the first sending; `answer`: of the one whose answer is `told`.
BATCH = np.dtype(
    [
        ("key", "<u8"), ("told", "i1"), ("error", "<i2"), ("offset", "<i8"), ("sendings", "<i4"), ("open", "<i4"),
        ("may_be_held", "?"), ("row", "<i8"), ("answer", "<i8"),
    ]
)  # fmt: skip
BatchRows = npt.NDArray[np.void]


def identity(
    producer_id: Int64, epoch: npt.NDArray[np.integer], sequence: npt.NDArray[np.integer], content: UInt64
) -> UInt64:
    """The key by which a batch is found: producer id, epoch and sequence; its content where it has none."""
    both = (epoch.astype(np.int64) << 32) | (sequence.astype(np.int64) & 0xFFFFFFFF)
    return np.where(producer_id >= 0, mixed(producer_id, both), content)


def grouped(sent: Sent) -> BatchRows:
    """The batches of a partition, in the order in which they were first sent.

    Args:
        sent: what was sent to it, in the order of the captures.
    """
    if not len(sent):
        return np.empty(0, BATCH)
    idempotent: Bools = sent["producer_id"] >= 0
    content = sent["content"]
    key = identity(sent["producer_id"], sent["epoch"], sent["sequence"], content)
    with_content = np.where(idempotent, mixed(key, content), content)
    order = np.argsort(with_content, kind="stable")
    new = np.empty(len(sent), bool)
    new[0] = True
    same = with_content[order][1:] == with_content[order][:-1]
    new[1:] = ~same
    plain = np.flatnonzero(same & ~idempotent[order][1:]) + 1
    if len(plain):
        new[plain] = ~_sent_again(sent[order[plain - 1]], sent[order[plain]])
    starts = np.flatnonzero(new)
    made = np.empty(len(starts), BATCH)
    told, offset = sent["told"][order], sent["offset"][order]
    rank = (told.astype(np.int64) << 1) | (offset >= 0)
    best = np.maximum.reduceat(rank, starts)
    group = np.cumsum(new) - 1
    first_best = np.full(len(starts), len(sent), np.int64)
    is_best = np.flatnonzero(rank == best[group])
    np.minimum.at(first_best, group[is_best], is_best)
    made["answer"], made["row"] = order[first_best], order[starts]
    made["key"], made["told"] = key[made["row"]], told[first_best]
    made["error"], made["offset"] = sent["error"][made["answer"]], offset[first_best]
    made["sendings"] = np.diff(np.append(starts, len(sent)))
    is_open = (told < ACKED) & (told > REFUSED)
    may = np.isin(sent["error"][order], MAY_BE_HELD) & (told == REFUSED)
    made["open"] = np.add.reduceat(is_open.astype(np.int64), starts)
    made["may_be_held"] = np.maximum.reduceat(may, starts)
    result: BatchRows = made[np.argsort(made["row"], kind="stable")]
    return result


def _sent_again(earlier: Sent, later: Sent) -> Bools:
    """Whether the later of two batches of the same records, without idempotence, is the earlier one sent again."""
    same_client = earlier["client"] == later["client"]
    refused = earlier["told"] == REFUSED
    lost = (earlier["told"] == UNANSWERED) | (earlier["told"] == UNREAD)
    other = (earlier["connection"] != later["connection"]) | (earlier["file"] != later["file"])
    found: Bools = same_client & (refused | (lost & other))
    return found

"""Sent batches that are one batch, sent again. Pure.

An idempotent producer sends a batch again under the same producer id, epoch and sequence. Another one sends the same
bytes again where an answer failed to arrive: the difference to the same records sent twice is what the client knew. A
client does not send again what was acknowledged, and does not leave a connection whose answers it awaits.

A batch that was produced has the columns `key` (of all copies of it), `response`, `error` and `offset` (of the best of
its answers), `sendings` (how often it was sent), `open` (how many of these have no answer that was read), `may_be_held`
(an error of `MAY_BE_HELD` is among the answers), `row` (the first sending) and `answer` (the one whose answer counts).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.distinct import distinct
from kafkawire.witness.batch_fates import ACKED, MAY_BE_HELD, REFUSED, UNANSWERED, UNREAD
from kafkawire.witness.contents import UInt64, mixed
from kafkawire.witness.packed_rows import Array, PackedRows


def identity(
    producer_id: Int64, epoch: npt.NDArray[np.integer], sequence: npt.NDArray[np.integer], content: UInt64
) -> UInt64:
    """The key by which a batch is found: producer id, epoch and sequence; its content where it has none."""
    both = (epoch.astype(np.int64) << 32) | (sequence.astype(np.int64) & 0xFFFFFFFF)
    return np.where(producer_id >= 0, mixed(producer_id, both), content)


def grouped(sent: PackedRows) -> PackedRows:
    """The batches of a partition, in the order in which they were first sent.

    Args:
        sent: what was sent to it (`SENT`), in the order of the captures.
    """
    content = sent["content"]
    key = identity(sent["producer_id"], sent["epoch"], sent["sequence"], content)
    with_content = np.where(sent["producer_id"] >= 0, mixed(key, content), content)
    ordered = np.sort(with_content)
    repeated = distinct(ordered[1:][ordered[1:] == ordered[:-1]])
    several = among(with_content, repeated)
    response = sent["response"]
    row = np.arange(len(sent))
    made: dict[str, Array] = {
        "row": row,
        "answer": row,
        "sendings": np.ones(len(sent), np.int32),
        "open": ((response < ACKED) & (response > REFUSED)).astype(np.int32),
        "may_be_held": np.isin(sent["error"], MAY_BE_HELD) & (response == REFUSED),
    }
    if several.any():
        joined = _joined(sent, np.flatnonzero(several), with_content, made)
        made = {name: np.concatenate((made[name][~several], joined[name])) for name in made}
        order = np.argsort(made["row"])
        made = {name: column[order] for name, column in made.items()}
    answers = made["answer"]
    made["key"] = key[made["row"]]
    made |= {name: sent[name][answers] for name in ("response", "error", "offset")}
    return PackedRows(made)


def among(values: UInt64, wanted: UInt64) -> Bools:
    """Whether each value is one of those wanted, which are in order."""
    if not len(wanted):
        return np.zeros(len(values), bool)
    place = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    found: Bools = wanted[place] == values
    return found


def _joined(sent: PackedRows, chosen: Int64, with_content: UInt64, single: dict[str, Array]) -> dict[str, Array]:
    """The chosen rows with those of one batch joined.

    Args:
        with_content: of all rows. single: the columns of all rows, each a batch of its own.
    """
    order = chosen[np.argsort(with_content[chosen], kind="stable")]
    new = np.ones(len(order), bool)
    new[1:] = with_content[order][1:] != with_content[order][:-1]
    plain = np.flatnonzero(~new & (sent["producer_id"][order] < 0))
    new[plain] = ~_sent_again(sent.take(order[plain - 1]), sent.take(order[plain]))
    starts = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    # The answer that counts: the best, one that names an offset before one that names none, and of these the first.
    rank = (sent["response"][order].astype(np.int64) << 1) | (sent["offset"][order] >= 0)
    is_best = np.flatnonzero(rank == np.maximum.reduceat(rank, starts)[group])
    first_best = np.full(len(starts), len(order), np.int64)
    np.minimum.at(first_best, group[is_best], is_best)
    return {
        "row": order[starts],
        "answer": order[first_best],
        "sendings": np.diff(np.append(starts, len(order))).astype(np.int32),
        "open": np.add.reduceat(single["open"][order], starts),
        "may_be_held": np.maximum.reduceat(single["may_be_held"][order], starts),
    }


def _sent_again(earlier: PackedRows, later: PackedRows) -> Bools:
    """Whether the later of two batches of the same records, without idempotence, is the earlier one sent again."""
    same_client = earlier["client"] == later["client"]
    refused = earlier["response"] == REFUSED
    lost = (earlier["response"] == UNANSWERED) | (earlier["response"] == UNREAD)
    other = (earlier["connection"] != later["connection"]) | (earlier["file"] != later["file"])
    found: Bools = same_client & (refused | (lost & other))
    return found

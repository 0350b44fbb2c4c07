"""What is not known of transactions: why, and where the last stable offset may be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Above all offsets.
NO_OFFSET = int(np.iinfo(np.int64).max)


class StateProblem(NamedTuple):
    """Why something is unknown of the log from an offset on. `gap`: offsets are missing, which compaction explains."""

    offset: int
    text: str
    gap: bool = False


class Unstable(NamedTuple):
    """Where the last stable offset may be, by the transactions at an offset of the log.

    Attributes:
        least: the first offset of the earliest transaction that may be open: of data without a certain outcome, or
            among missing offsets.
        gap: the first of the missing offsets that compaction may explain.
        certain: the first offset of the earliest transaction that is known to be open.
    """

    least: int = NO_OFFSET
    gap: int = NO_OFFSET
    certain: int = NO_OFFSET


def unseen_ending(producer_id: int, begun: int, marker: int) -> StateProblem:
    """That a marker does not show how the transaction ended that began at an offset."""
    ended = f"how producer {producer_id}'s transaction from {begun} on ended"
    return StateProblem(marker, f"the marker at offset {marker} does not show {ended}")

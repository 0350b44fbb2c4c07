"""Reasons why the end of a transaction is unknown, and the range in which the last stable offset lies then."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: A number above all offsets.
NO_OFFSET = int(np.iinfo(np.int64).max)


class StateProblem(NamedTuple):
    """Why something is unknown of the log from an offset on. `gap`: offsets up to it are missing, which compaction may
    explain; -1: none."""

    offset: int
    text: str
    gap: int = -1


class FirstMarker(NamedTuple):
    """The first marker of a producer in a part of a log. `first`: of its data before that; -1: none. `gap`, `hidden`,
    `malformed`: as in `TransactionScan`, at the marker."""

    first: int
    gap: int
    hidden: int
    malformed: int
    marker: int
    code: int


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

    def among(self, cleaned_to: int) -> int:
        """The least offset. `cleaned_to`: compaction explains what is missing before it, as is known now."""
        return min(self.least, self.gap if self.gap >= cleaned_to else NO_OFFSET)


def unseen_ending(producer_id: int, begun: int, marker: int) -> StateProblem:
    """The problem where a marker does not show how the transaction ended that began at an offset."""
    ended = f"how producer {producer_id}'s transaction from {begun} on ended"
    return StateProblem(marker, f"the marker at offset {marker} does not show {ended}")

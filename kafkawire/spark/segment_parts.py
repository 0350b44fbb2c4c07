"""`SegmentPart`: what of a segment one task reads."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from kafkawire.logdir import LogFile, View
from kafkawire.records import Damage
from kafkawire.spark.log_points import NO_EPOCH, Header
from kafkawire.spark.offset_options import ALL_OFFSETS, RequestedRange


class SegmentPart(NamedTuple):
    """The batches of a segment that begin in `[start, end)`, and their records with these offsets.

    Attributes:
        end: None for the last part.
        number, of: which of how many parts of the segment, whose positions the task finds; of 1: they are known.
        listed: bytes of the segment when it was cut into several parts.
        problem: a part with one is only that row.
        view: which of the batches are read.
        live: whether the file may have changed since the plan: then `anchor` is the batch at `start`, where one is.
        epoch: of a live part: batches of a later leader epoch are not read. They were written since the plan, in the
            place of others; the next plan has them.
        topic_id: of a live part: in its directory when it was planned; None where that had none.
    """

    file: LogFile
    start: int = 0
    end: int | None = None
    offsets: RequestedRange = ALL_OFFSETS
    problem: Damage | None = None
    view: View | None = None
    live: bool = False
    anchor: Header | None = None
    epoch: int = NO_EPOCH
    topic_id: UUID | None = None
    number: int = 0
    of: int = 1
    listed: int = 0

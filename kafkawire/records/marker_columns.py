"""Transaction markers of many control batches at once, without an object for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Int32, Int64
from kafkawire.records.columns import Batches
from kafkawire.records.header import HEADER

#: A marker as brokers write it: one record without timestamp delta or headers, key (0, type), value (0, epoch).
_MARKER = bytes((32, 0, 0, 0, 8, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0))
_TYPE, _EPOCH = 8, 12
_FIXED = np.ones(len(_MARKER), bool)
_FIXED[[_TYPE, *range(_EPOCH, _EPOCH + 4)]] = False


class MarkerColumns(NamedTuple):
    """Control batches that look as brokers write them, an element a batch.

    Attributes:
        at: place in the batches. `type`: 0 ABORT, 1 COMMIT. `coordinator_epoch`: as in the marker.
        others: places of the other control batches, which `Batch.control` explains.
    """

    at: Int64
    type: npt.NDArray[np.uint8]
    coordinator_epoch: Int32
    others: Int64


def markers(found: Batches) -> MarkerColumns:
    """The markers among batches; other control batches are listed in `others`."""
    control = np.flatnonzero(found.is_control)
    if not len(control):
        return MarkerColumns(control, np.empty(0, np.uint8), np.empty(0, np.int32), control)
    same = (found.size[control] == HEADER.size + len(_MARKER)) & (found.codec[control] == 0)
    same &= found.record_count[control] == 1
    plain = control[same]
    data = np.frombuffer(found.data, np.uint8)
    records = data[found.start[plain][:, None] + np.arange(HEADER.size, HEADER.size + len(_MARKER))]
    right = (records[:, _FIXED] == np.frombuffer(_MARKER, np.uint8)[_FIXED]).all(axis=1) & (records[:, _TYPE] <= 1)
    plain, records = plain[right], records[right]
    epoch = np.ascontiguousarray(records[:, _EPOCH : _EPOCH + 4]).view(">i4")[:, 0].astype(np.int32)
    return MarkerColumns(plain, records[:, _TYPE], epoch, np.setdiff1d(control, plain, assume_unique=True))

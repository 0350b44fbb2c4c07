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
#: Its first eight bytes; the next four, without the bit of the type; after them are the epoch and a zero.
_HEAD, _TAIL = np.frombuffer(_MARKER, "<u8", 1)[0], np.frombuffer(_MARKER, "<u4", 1, 8)[0]
_NOT_TYPE = np.uint64(0xFFFFFFFE)


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
    plain = control if same.all() else control[same]
    if not len(plain):
        return MarkerColumns(plain, np.empty(0, np.uint8), np.empty(0, np.int32), control)
    at = found.start[plain] + HEADER.size
    ends = np.frombuffer(found.data, np.uint8)[at + len(_MARKER) - 1]
    sixteen = np.ndarray((len(found.data) - 15,), "V16", found.data, strides=(1,))[at].view("<u8").reshape(-1, 2)
    right = (sixteen[:, 0] == _HEAD) & ((sixteen[:, 1] & _NOT_TYPE) == _TAIL) & (ends == 0)
    if not right.all():
        plain, sixteen = plain[right], sixteen[right]
    kind = (sixteen[:, 1] & np.uint64(1)).astype(np.uint8)
    epoch = (sixteen[:, 1] >> np.uint64(32)).astype("<u4").view(">i4").astype(np.int32)
    others = control[:0] if len(plain) == len(control) else np.setdiff1d(control, plain, assume_unique=True)
    return MarkerColumns(plain, kind, epoch, others)

"""The role of batches in transactions: data, or a marker that ends one."""

from __future__ import annotations

import numpy as np

from kafkawire.records import Batch
from kafkawire.records.array_types import Int8, Int64
from kafkawire.records.batch import readable_control
from kafkawire.records.columns import Batches
from kafkawire.records.control import DATA_CODE, MALFORMED_CODE, MARKER_CODES, marker_name
from kafkawire.records.marker_columns import markers


def events(found: Batches) -> tuple[Int64, Int8]:
    """Places and codes of markers and of data of transactions."""
    codes = np.full(len(found), DATA_CODE, np.int8)
    control, of_control = control_codes(found)
    codes[control] = of_control
    has_records = found.is_control | (found.record_count > 0)  # compaction leaves a batch for its producer's state
    at = np.flatnonzero((found.producer_id >= 0) & (found.transactional | found.is_control) & has_records)
    return at, codes[at]


def control_codes(found: Batches) -> tuple[Int64, Int8]:
    """Places of control batches, and their codes."""
    plain = markers(found)
    control = np.concatenate((plain.at, plain.others))
    codes = np.concatenate((plain.type.astype(np.int8), np.full(len(plain.others), MALFORMED_CODE, np.int8)))
    codes[~found.transactional[control]] = MALFORMED_CODE
    for place in range(len(plain.at), len(control)):
        codes[place] = code_of(found.batch(int(control[place])))
    return control, codes


def code_of(batch: Batch) -> int:
    """The code of a control batch."""
    control = readable_control(batch)
    assert control is not None
    return MARKER_CODES[marker_name(control, transactional=batch.transactional)]

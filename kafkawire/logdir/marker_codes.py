"""What batches are for transactions: the data of one, or the marker that ends it."""

from __future__ import annotations

import numpy as np

from kafkawire.errors import RecordError
from kafkawire.records import Batch
from kafkawire.records.array_types import Int8, Int64
from kafkawire.records.columns import Batches
from kafkawire.records.control import ABORT, COMMIT, EMPTY
from kafkawire.records.marker_columns import markers

#: What a batch is for its transaction: the codes of markers are Kafka's.
ABORT_CODE, COMMIT_CODE, EMPTY_CODE, MALFORMED_CODE, DATA_CODE = range(5)


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
    """The code of a control batch. One outside of a transaction ends none."""
    try:
        control = batch.control
    except RecordError:
        return MALFORMED_CODE
    if control is None or not batch.transactional:
        return MALFORMED_CODE
    if control.name == EMPTY:
        return EMPTY_CODE
    return {ABORT: ABORT_CODE, COMMIT: COMMIT_CODE}.get(control.type, MALFORMED_CODE)  # type: ignore[arg-type]

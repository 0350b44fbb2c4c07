"""The content of control batches as columns of `record_table`. Needs pyarrow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkawire.errors import RecordError
from kafkawire.records.columns import Batches
from kafkawire.records.control import ABORT, COMMIT, CONTROL_TYPES, MALFORMED
from kafkawire.records.marker_columns import markers
from kafkawire.records.record_table import Validity, Values


class Controls(NamedTuple):
    """The control columns, an element a batch.

    Attributes:
        control: the names; null for batches of data.
        coordinator_epoch: null where there is none.
        malformed: index and error of the batches whose control record cannot be read.
    """

    control: Values
    coordinator_epoch: Values
    malformed: dict[int, RecordError]


def controls_of(batches: Batches) -> Controls:
    """Reads the payload of all control batches."""
    places = np.full(len(batches), -1, np.int32)
    epochs = np.zeros(len(batches), np.int32)
    known = np.zeros(len(batches), bool)
    texts = [CONTROL_TYPES[ABORT], CONTROL_TYPES[COMMIT]]
    malformed = {}
    plain = markers(batches)
    places[plain.at], epochs[plain.at], known[plain.at] = plain.type, plain.coordinator_epoch, True
    for index in plain.others.tolist():
        name, epoch = MALFORMED, None
        try:
            control = batches.batch(index).control
            assert control is not None
            name, epoch = control.name, control.coordinator_epoch
        except RecordError as error:
            malformed[index] = error
        if name not in texts:
            texts.append(name)
        places[index] = texts.index(name)
        epochs[index], known[index] = epoch or 0, epoch is not None
    return Controls(Values(places, Validity(places >= 0), tuple(texts)), Values(epochs, Validity(known)), malformed)

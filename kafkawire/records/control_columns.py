"""The columns of `record_table` with the content of control batches. Needs pyarrow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkawire.errors import RecordError
from kafkawire.records.columns import Batches, Records
from kafkawire.records.control import ABORT, COMMIT, CONTROL_TYPES, MALFORMED, control_of
from kafkawire.records.marker_columns import markers
from kafkawire.records.record import Record
from kafkawire.records.record_table import Validity, Values


class Controls(NamedTuple):
    """The control columns, an element a batch, or a record.

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


def of_records(controls: Controls, records: Records) -> Controls:
    """The control columns of records: the values of their batches; for control batches with several records, those of
    each record.

    Args:
        controls: of the records' batches.
    """
    batch = records.batch
    places, epochs = controls.control.numbers[batch], controls.coordinator_epoch.numbers[batch]
    named, known = controls.control.present, controls.coordinator_epoch.present
    assert named is not None
    assert known is not None
    flags, texts = known.flags[batch], list(controls.control.texts or ())
    several = records.batches.is_control & (records.batches.record_count > 1)
    for index in np.flatnonzero(several[batch]).tolist():
        key, value = (_bytes(records, part, index) for part in ("key", "value"))
        control = control_of(Record(key=key, value=value))
        if control.name not in texts:
            texts.append(control.name)
        places[index], epochs[index] = texts.index(control.name), control.coordinator_epoch or 0
        flags[index] = control.coordinator_epoch is not None
    return Controls(
        Values(places, Validity(named.flags[batch]), tuple(texts)), Values(epochs, Validity(flags)), controls.malformed
    )


def _bytes(records: Records, part: str, index: int) -> bytes | None:
    """A record's key or value."""
    start, length = int(getattr(records, f"{part}_start")[index]), int(getattr(records, f"{part}_length")[index])
    return None if length < 0 else bytes(records.data[start : start + length])

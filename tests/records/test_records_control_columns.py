"""Control columns: what `Batch.control` says of each batch."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from kafkawire.errors import RecordError  # noqa: E402
from kafkawire.records import columns  # noqa: E402
from kafkawire.records.control_columns import controls_of  # noqa: E402
from tests.records.test_records_marker_columns import DATA, OTHERS, marker  # noqa: E402


def test_names_and_epochs_are_those_of_each_batch() -> None:
    """An epoch may be negative: it is no null."""
    data = marker("COMMIT", 7) + DATA + b"".join(OTHERS.values()) + marker("ABORT", -1) + DATA
    (found,) = columns.batches(data)
    assert isinstance(found, columns.Batches)
    names: list[str | None] = []
    epochs: list[int | None] = []
    wrong = []
    for index in range(len(found)):
        try:
            control = found.batch(index).control
            names.append(control and control.name)
            epochs.append(control and control.coordinator_epoch)
        except RecordError as error:
            wrong.append((index, str(error)))
            names.append("MALFORMED")
            epochs.append(None)
    controls = controls_of(found)
    assert controls.control.array(pa.string()).to_pylist() == names
    assert controls.coordinator_epoch.array(pa.int32()).to_pylist() == epochs
    assert [(index, str(error)) for index, error in controls.malformed.items()] == wrong
    assert wrong
    assert -1 in epochs

"""Control columns: what `Batch.control` says of each batch."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from kafkawire.errors import RecordError  # noqa: E402
from kafkawire.records import columns  # noqa: E402
from kafkawire.records.control_columns import controls_of, of_records  # noqa: E402
from tests.records.record_bytes import kip853_header  # noqa: E402
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


def test_each_record_of_a_control_batch_has_its_own_name() -> None:
    """A snapshot of the metadata log begins with three kinds in one batch (KIP-853)."""
    (found,) = columns.batches(DATA + kip853_header() + marker("COMMIT", 7))
    assert isinstance(found, columns.Batches)
    controls = controls_of(found)
    names, epochs = [], []
    for records in columns.records(found):
        own = of_records(controls, records)
        names += own.control.array(pa.string()).to_pylist()
        epochs += own.coordinator_epoch.array(pa.int32()).to_pylist()
    assert names == [None, "SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS", "COMMIT"]
    assert epochs == [None, None, None, None, 7]

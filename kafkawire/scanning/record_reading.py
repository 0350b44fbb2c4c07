"""`RecordReading`: batches that were read, from files or from brokers, as the rows of a scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from kafkawire import rows
from kafkawire.errors import RecordError
from kafkawire.logdir.segment_secrets import without_secret, without_secrets
from kafkawire.logdir.transaction_states import NONE, STATES
from kafkawire.records import Batch, Damage, columns
from kafkawire.records.array_types import Bools, Int8
from kafkawire.records.columns import Batches
from kafkawire.records.control_columns import controls_of, of_records
from kafkawire.rows.arrow import arrow_text
from kafkawire.scanning.record_columns import TRANSACTION, Origin, RecordColumns
from kafkawire.scanning.record_filter import Range
from kafkawire.scanning.record_options import RecordOptions
from kafkawire.scanning.stream import Problems


class RecordReading:
    """Makes rows; what cannot be read is added to the problems.

    Attributes:
        sees_outcomes: whether the states of transactions decide what is read, or are shown.
    """

    def __init__(self, options: RecordOptions, columns: RecordColumns, problems: Problems) -> None:
        self._options = options
        self._filter = options.filter
        self._columns = columns
        self._problems = problems
        self.sees_outcomes = bool(options.isolation_level or columns.needs_states or self._filter.states is not None)

    def batches(
        self,
        found: Batches,
        origin: Origin,
        offsets: Range,
        chosen: Bools,
        states: Int8 | None,
        *,
        secret: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of batches of magic 2.

        Args:
            offsets: of the records. chosen: which batches.
            states: of all of them, where they are seen.
            secret: whether the records may hold secrets.
        """
        if not chosen.any():
            return
        states = None if states is None else states[chosen]
        found = found if chosen.all() else found.where(chosen)
        controls = controls_of(found) if self._columns.needs_controls else None
        for index, error in controls.malformed.items() if controls else ():
            self.problem(Damage(int(found.position[index]), "bad_records", str(error)), origin)
        hidden = secret and not self._options.show_secrets
        for part in columns.records(found):
            for damage in part.damage:
                self.problem(damage, origin)
            own = of_records(controls, part) if controls else None
            shown = without_secrets(part) if hidden else part
            yield self._columns.of_records(shown, origin, own, states, self._filter.records(part, offsets))

    def old(self, batch: Batch, origin: Origin, offsets: Range, *, secret: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows of a batch of magic 0 or 1: those have no transactions.

        Args:
            batch: measured. offsets, secret: see `batches`.
        """
        low, high = offsets
        wanted = self._filter
        if (high is not None and batch.base_offset >= high) or (low is not None and batch.last_offset < low):
            return
        if (wanted.producer_ids is not None and -1 not in wanted.producer_ids) or (
            wanted.states is not None and NONE not in wanted.states
        ):
            return
        batch_row = rows.to_dict(rows.BatchRow.of(batch, None))
        found: list[Mapping[str, Any]] = []
        hidden = secret and not self._options.show_secrets
        try:
            for record in batch.records:
                if wanted.one(record.offset, record.timestamp, offsets):
                    shown = without_secret(record) if hidden else record
                    found.append(batch_row | {
                        TRANSACTION: STATES[NONE], "topic": origin.topic and arrow_text(origin.topic),
                        "partition": origin.partition, "offset": shown.offset, "timestamp": shown.timestamp,
                        "sequence": shown.sequence, "key": shown.key, "value": shown.value, "headers": [],
                        "key_size": None if shown.key is None else len(shown.key),
                        "value_size": None if shown.value is None else len(shown.value),
                    })  # fmt: skip
        except RecordError as error:
            self.problem(Damage(batch.position, "bad_records", str(error)), origin)
        if found:
            yield self._columns.of_rows(found, origin)

    def problem(self, damage: Damage, origin: Origin) -> None:
        """Add damage at its place."""
        self._problems.add(damage, file=origin.file, topic=origin.topic, partition=origin.partition)

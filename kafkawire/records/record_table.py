"""The columns of batches and records: name, Arrow type, and the array of `columns` that each is taken from.

They are stated here once. `Records.to_arrow`, the tables of Spark's `kafka_segment` and the Parquet files of `dump` are
made of them. Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkawire.records.array_types import Bools
from kafkawire.records.batch import TIMESTAMP_TYPES
from kafkawire.records.compression import CODEC_NAMES

#: In place of an array of `Records`: a record has the value of its batch.
OF_BATCH = "of_batch"
#: The columns that need the payload of control batches: `of_batches` takes them from `marker_columns.controls`.
CONTROL_COLUMNS = frozenset(("control", "coordinator_epoch"))


class Validity:
    """Which values are not null; columns share it."""

    def __init__(self, flags: Bools) -> None:
        self.flags = flags

    @cached_property
    def none(self) -> bool:
        return not self.flags.any()

    @cached_property
    def buffer(self) -> pa.Buffer | None:
        return None if self.flags.all() else bitmap(self.flags)


class Values(NamedTuple):
    """The values of a column.

    Attributes:
        numbers: numbers or flags; with `texts`, places in these.
        present: which of them are not null; None: all.
        texts: the texts of the numbers.
    """

    numbers: npt.NDArray[Any]
    present: Validity | None = None
    texts: tuple[str, ...] | None = None

    def map(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Values:
        """The values with numbers and flags changed alike."""
        present = None if self.present is None else Validity(change(self.present.flags))
        return Values(change(self.numbers), present, self.texts)

    def array(self, type: pa.DataType) -> pa.Array:
        """As Arrow. Texts are a dictionary."""
        validity = None if self.present is None else self.present.buffer
        if self.texts is not None:
            places = np.ascontiguousarray(self.numbers, np.int32)
            indices = pa.Array.from_buffers(pa.int32(), len(places), [validity, pa.py_buffer(places)])
            return pa.DictionaryArray.from_arrays(indices, text_array(self.texts))
        if pa.types.is_boolean(type):
            return pa.Array.from_buffers(type, len(self.numbers), [validity, bitmap(self.numbers)])
        content = np.ascontiguousarray(self.numbers, type.to_pandas_dtype())
        return pa.Array.from_buffers(type, len(content), [validity, pa.py_buffer(content)])


class Column(NamedTuple):
    """A column; with neither `batch` nor `record` it has one value in a file, or no numbers.

    Attributes:
        type: as narrow as Kafka's own.
        batch: the array of `Batches`; None where batches do not have the column.
        record: the array of `Records`, or `OF_BATCH`; None where records do not have the column.
        present: the values that are not null, from the `Batches` or `Records`; None: all.
        texts: the texts of the numbers.
    """

    type: pa.DataType
    batch: str | None = None
    record: str | None = None
    present: Callable[[Any], Bools] | None = None
    texts: tuple[str, ...] | None = None

    def of_batches(self, batches: Any, controls: Any = None) -> Values:
        """The values of `Batches`. `controls`: their `Controls`, needed for `CONTROL_COLUMNS`."""
        assert self.batch is not None
        if self.batch in CONTROL_COLUMNS:
            found: Values = getattr(controls, self.batch)
            return found
        return self._of(batches, self.batch)

    def of_records(self, records: Any, controls: Any = None) -> Values:
        """The values of `Records`. `controls`: those of the records, needed for `CONTROL_COLUMNS`."""
        assert self.record is not None
        if self.record in CONTROL_COLUMNS:
            found: Values = getattr(controls, self.record)
            return found
        if self.record == OF_BATCH:
            return self.of_batches(records.batches, controls).map(lambda values: values[records.batch])
        return self._of(records, self.record)

    def _of(self, origin: Any, array: str) -> Values:
        present = None if self.present is None else Validity(self.present(origin))
        return Values(getattr(origin, array), present, self.texts)


#: The keys of headers are bytes as on the wire.
HEADERS = pa.list_(pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]))

COLUMNS: dict[str, Column] = {
    "file": Column(pa.string()),
    "topic": Column(pa.string()),
    "partition": Column(pa.int32()),
    "position": Column(pa.int64(), "position", OF_BATCH),
    "base_offset": Column(pa.int64(), "base_offset"),
    "last_offset": Column(pa.int64(), "last_offset"),
    "records": Column(pa.int32(), "record_count"),
    "magic": Column(pa.int8(), "magic"),
    "codec": Column(pa.string(), "codec", texts=CODEC_NAMES),
    "crc": Column(pa.int64(), "crc"),
    "size": Column(pa.int32(), "size"),
    "offset": Column(pa.int64(), None, "offset"),
    "timestamp": Column(pa.int64(), "max_timestamp", "timestamp"),
    "timestamp_type": Column(pa.string(), "log_append_time", OF_BATCH, texts=TIMESTAMP_TYPES),
    "timestamp_type_id": Column(pa.int32(), "log_append_time", OF_BATCH),
    "leader_epoch": Column(pa.int32(), "leader_epoch", OF_BATCH),
    "producer_id": Column(pa.int64(), "producer_id", OF_BATCH),
    "producer_epoch": Column(pa.int16(), "producer_epoch", OF_BATCH),
    "sequence": Column(pa.int32(), "base_sequence", "sequence"),
    "last_sequence": Column(pa.int32(), "last_sequence"),
    "transactional": Column(pa.bool_(), "transactional", OF_BATCH),
    "is_control": Column(pa.bool_(), "is_control", OF_BATCH),
    "control": Column(pa.string(), "control", "control"),
    "coordinator_epoch": Column(pa.int32(), "coordinator_epoch", "coordinator_epoch"),
    "delete_horizon": Column(pa.int64(), "base_timestamp", present=lambda batches: batches.delete_horizon),
    "key_size": Column(pa.int32(), None, "key_length", lambda records: records.key_length >= 0),
    "value_size": Column(pa.int32(), None, "value_length", lambda records: records.value_length >= 0),
    "key": Column(pa.binary()),
    "value": Column(pa.binary()),
    "headers": Column(HEADERS),
}


def bitmap(flags: Bools) -> pa.Buffer:
    """Flags as Arrow's bits."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


@lru_cache(maxsize=64)
def text_array(texts: tuple[str, ...]) -> pa.Array:
    """Texts as an Arrow array. Not `pa.array`, which imports pandas wherever that is installed: tens of megabytes."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )

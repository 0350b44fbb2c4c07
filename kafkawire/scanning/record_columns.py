"""The columns of records in a scan: their Arrow types, and how they are made of `records.columns`. Needs pyarrow.

They are columns of `records.record_table` with the types that analysts expect: timestamps with a time zone, texts that
repeat as dictionaries, and null where Kafka writes -1 for nothing. What a message is decoded to has a column of the
message's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkawire.logdir.transaction_states import STATES
from kafkawire.records.array_types import Int8
from kafkawire.records.batch import TIMESTAMP_TYPES
from kafkawire.records.columns import Records
from kafkawire.records.compression import CODEC_NAMES
from kafkawire.records.control import CONTROL_TYPES, EMPTY, MALFORMED
from kafkawire.records.control_columns import Controls
from kafkawire.records.decoded_message import MessageFormat, RecordMessages
from kafkawire.records.record_arrays import text_headers
from kafkawire.records.record_table import COLUMNS, CONTROL_COLUMNS, Validity, Values
from kafkawire.rows.arrow import arrow_text
from kafkawire.wire.columns import decode_structs, shape
from kafkawire.wire.columns.schema import struct_type

#: Text of which each value repeats in many rows.
TEXT = pa.dictionary(pa.int32(), pa.string())
TIME = pa.timestamp("ms", "UTC")
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
#: What is wrong with a message that could not be decoded.
ERROR = "decode_error"
#: The state of the transaction.
TRANSACTION = "transaction"

#: Where -1 stands for nothing.
_NOTHING = frozenset(("timestamp", "producer_id", "producer_epoch", "sequence", "leader_epoch"))
_DEFAULT = (
    "topic", "partition", "offset", "timestamp", "key", "value", "headers", "producer_id", "producer_epoch", "sequence",
    TRANSACTION,
)  # fmt: skip
_FURTHER = (
    "timestamp_type", "leader_epoch", "transactional", "codec", "control", "coordinator_epoch", "key_size",
    "value_size",
)  # fmt: skip
#: The columns that only records in files have.
OF_FILES = ("file", "position")


#: The dictionaries of columns. That of `control` is continued by types that Kafka does not have yet.
_TEXTS: dict[str, tuple[str, ...]] = {
    TRANSACTION: STATES,
    "codec": CODEC_NAMES,
    "timestamp_type": TIMESTAMP_TYPES,
    "control": (*CONTROL_TYPES.values(), EMPTY, MALFORMED),
}


class Origin(NamedTuple):
    """Where records are from. `file`: None for a live topic."""

    topic: str | None
    partition: int | None
    file: str | None = None


class Decoding(NamedTuple):
    """A message that a scan decodes: of keys or of values, and in which topics."""

    part: str
    topics: frozenset[str]
    format: MessageFormat


def decodings(messages: Mapping[str, RecordMessages]) -> dict[str, Decoding]:
    """Name of a column -> what it decodes.

    Args:
        messages: topic -> its messages.

    Raises:
        ValueError: two messages have one name, or that of another column.
    """
    found: dict[str, Decoding] = {}
    for topic, both in messages.items():
        for part in ("key", "value"):
            format: MessageFormat | None = getattr(both, part)
            if format is None:
                continue
            name = format.message.spec.name
            known = found.setdefault(name, Decoding(part, frozenset(), format))
            if known.part != part or known.format != format:
                raise ValueError(f"decode: {name} would be two columns: scan the topics one by one")
            found[name] = known._replace(topics=known.topics | {topic})
    for name in found:
        if name in COLUMNS or name in (TRANSACTION, ERROR):
            raise ValueError(f"decode: the message {name} has the name of another column")
    return found


def schema_of(columns: Iterable[str] | None, messages: Mapping[str, Decoding], *, files: bool) -> pa.Schema:
    """The schema of a scan.

    Args:
        columns: names; None: the default ones.
        messages: of `decodings`.
        files: whether the records are in files.

    Raises:
        LookupError: there is no column of that name.
    """
    if isinstance(columns, str):
        raise TypeError("columns is a list of names, not one string")
    decoded = (*messages, ERROR) if messages else ()
    known = (*_DEFAULT, *_FURTHER, *(OF_FILES if files else ()), *decoded)
    names = [*_DEFAULT, *decoded] if columns is None else list(columns)
    for place, name in enumerate(names):
        if name not in known:
            raise LookupError(f"there is no column {name!r}; the columns are {', '.join(known)}")
        if name in names[:place]:
            raise ValueError(f"columns names {name} twice")
    return pa.schema([_field(name, messages) for name in names])


def _field(name: str, messages: Mapping[str, Decoding]) -> pa.Field:
    if name in messages:
        return pa.field(name, struct_type(shape(messages[name].format.message)))
    if name == "timestamp":
        return pa.field(name, TIME)
    if name == "headers":
        return pa.field(name, HEADERS, nullable=False)
    if name == ERROR:
        return pa.field(name, pa.string())
    kind = COLUMNS[name].type if name != TRANSACTION else pa.string()
    always = name in ("offset", "transactional", TRANSACTION, "timestamp_type", "codec", "position")
    return pa.field(name, TEXT if pa.types.is_string(kind) else kind, nullable=not always)


class RecordColumns:
    """Makes the columns of a scan. All batches have the same dictionaries, so that tables of them can be grouped.

    Args:
        schema: of the batches.
        messages: of `decodings`.
        topics, files: all that records can be from.

    Attributes:
        schema: of the batches.
        needs_states: whether the states of transactions are a column. `needs_controls`: whether the content of control
            records is.
    """

    def __init__(
        self,
        schema: pa.Schema,
        messages: Mapping[str, Decoding],
        topics: Iterable[str | None],
        files: Iterable[str] = (),
    ) -> None:
        self.schema = schema
        given = {"topic": {one for one in topics if one is not None}, "file": set(files)}
        self._texts = {name: tuple(sorted(map(arrow_text, found))) for name, found in given.items()} | _TEXTS
        self._places = {name: {text: place for place, text in enumerate(self._texts[name])} for name in given}
        self._messages = messages
        self._decoded = [name for name in schema.names if name in messages]
        self.needs_states = TRANSACTION in schema.names
        self.needs_controls = not CONTROL_COLUMNS.isdisjoint(schema.names)
        # The error is that of all messages, also of those that are no columns.
        wanted = messages if ERROR in schema.names else self._decoded
        self._parts = {name: messages[name] for name in wanted}
        own = [name for name in schema.names if name not in messages and name != ERROR]
        self._base = [*own, *sorted({one.part for one in self._parts.values()} - set(own))]

    def of_records(
        self, found: Records, origin: Origin, controls: Controls | None, states: Int8 | None, chosen: Any = None
    ) -> pa.RecordBatch:
        """A row a record.

        Args:
            origin: of all records.
            controls: of the records, where they are needed. `states`: of their batches.
            chosen: which records have a row; None: all.
        """
        arrays = {name: self._array(name, found, origin, controls, states) for name in self._base}
        data = ~found.batches.is_control[found.batch]
        if chosen is not None:
            mask = pa.array(chosen)
            arrays = {name: array.filter(mask) for name, array in arrays.items()}
            data = data[chosen]
        count = len(found) if chosen is None else int(chosen.sum())
        return self._batch(arrays, origin.topic, count, data)

    def of_rows(self, rows: list[Mapping[str, Any]], origin: Origin) -> pa.RecordBatch:
        """Rows of the fields of `rows.RecordRow` and of headers, for batches that are read as objects."""
        arrays = {}
        for name in self._base:
            values = [row.get(name) for row in rows]
            if name in ("topic", "partition", "file"):
                arrays[name] = self._repeated(name, origin, len(rows))
            elif name in self._texts:
                texts = self._texts[name]
                places = np.array([-1 if value is None else texts.index(value) for value in values], np.int32)
                arrays[name] = Values(places, Validity(places >= 0), texts).array(pa.string())
            else:
                nothing = name in _NOTHING
                values = [None if nothing and value == -1 else value for value in values]
                arrays[name] = pa.array(values, _field(name, {}).type)
        return self._batch(arrays, origin.topic, len(rows), np.ones(len(rows), bool))

    def _batch(self, arrays: dict[str, pa.Array], topic: str | None, count: int, data: Any) -> pa.RecordBatch:
        errors: list[pa.Array] = []
        for name, (part, topics, format) in self._parts.items():
            type_ = struct_type(shape(format.message))
            if topic not in topics:
                arrays[name] = pa.nulls(count, type_)
                continue
            content = arrays[part]
            if not data.all():  # the key and the value of a control record are Kafka's own
                content = _where(content, data)
            version = "prefix" if format.version is None else format.version
            decoded = decode_structs(format.message, content, version)
            arrays[name] = decoded.array
            errors.append(decoded.problems())
        if ERROR in self.schema.names:
            arrays[ERROR] = _first(errors, count)
        made = [arrays[name] for name in self.schema.names]
        if not made:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        return pa.RecordBatch.from_arrays(made, schema=self.schema)

    def _array(
        self, name: str, found: Records, origin: Origin, controls: Controls | None, states: Int8 | None
    ) -> pa.Array:
        if name in _CONTENT:
            return _CONTENT[name](found)
        if name == TRANSACTION:
            assert states is not None
            return Values(states[found.batch], texts=STATES).array(pa.string())
        if name == "codec":
            return Values(found.batches.codec[found.batch], texts=COLUMNS[name].texts).array(pa.string())
        if name in ("topic", "partition", "file"):
            return self._repeated(name, origin, len(found))
        column = COLUMNS[name]
        values = column.of_records(found, controls)
        if name == "control":
            values = _with_texts(values, self._texts[name])
        if name in _NOTHING and (values.numbers == -1).any():
            values = values._replace(present=Validity(values.numbers != -1))
        if name == "timestamp":
            return values.array(pa.int64()).view(TIME)
        return values.array(column.type)

    def _repeated(self, name: str, origin: Origin, count: int) -> pa.Array:
        value = getattr(origin, name)
        if value is None:
            return pa.nulls(count, _field(name, {}).type)
        if name == "partition":
            return Values(np.full(count, value)).array(pa.int32())
        texts = self._texts[name]
        place = self._places[name][arrow_text(value)]
        return Values(np.full(count, place, np.int32), texts=texts).array(pa.string())


_CONTENT: dict[str, Callable[[Records], pa.Array]] = {
    "key": lambda found: found.arrow_keys(),
    "value": lambda found: found.arrow_values(),
    "headers": lambda found: text_headers(found),
}


def _with_texts(values: Values, texts: tuple[str, ...]) -> Values:
    """The values with places in other texts, which are continued by what is not among them."""
    own = values.texts or ()
    whole = (*texts, *(text for text in own if text not in texts))
    places = np.array([whole.index(text) for text in own], np.int32)
    return Values(places[values.numbers], values.present, whole)


def _where(array: pa.Array, chosen: Any) -> pa.Array:
    """The values that are chosen; the others are null."""
    return pc.if_else(pa.array(chosen), array, pa.scalar(None, array.type))


def _first(errors: list[pa.Array], count: int) -> pa.Array:
    """What is wrong with each row, of several messages that it holds."""
    if not errors:
        return pa.nulls(count, pa.string())
    return errors[0] if len(errors) == 1 else pc.coalesce(*errors)

"""The layouts of the messages that the project is named for, written a second time, in `construct`.

Written from the protocol's descriptions (KIP-664, KIP-360, KIP-98, KIP-482, KIP-1228), not from the schemas, and run
by a library that shares no code with the codecs: a mistake would have to be made twice to go unseen.

Values are plain dicts in the attribute names of the codecs: arrays are lists, unknown tagged fields (tag, bytes) pairs
under `unknown_tagged_fields`. Each `Kind` is a construct of the bytes and a strategy of the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import construct as c
from hypothesis import strategies as st


@dataclass(frozen=True)
class Kind:
    """One type: its bytes and its values."""

    bytes: Any
    values: st.SearchStrategy[Any]


def _integer(con: Any, bits: int) -> Kind:
    return Kind(con, st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) | st.sampled_from([-1, 0, 1]))


INT8, INT16, INT32, INT64 = (
    _integer(con, bits) for con, bits in ((c.Int8sb, 8), (c.Int16sb, 16), (c.Int32sb, 32), (c.Int64sb, 64))
)
BOOL = Kind(c.Flag, st.booleans())

#: Lengths: in a flexible version an unsigned varint that is one more than the length, so that 0 is null.
_COMPACT = c.ExprAdapter(c.VarInt, c.obj_ - 1, c.obj_ + 1)


def _text(length: Any) -> Any:
    raw = c.Prefixed(length, c.GreedyBytes)
    return c.ExprAdapter(
        raw,
        lambda obj, _: obj.decode("utf-8", "surrogateescape"),
        lambda obj, _: obj.encode("utf-8", "surrogateescape"),
    )


class _Nullable(c.Construct):  # type: ignore[misc]
    """A value that begins with its length, or the length -1 for null."""

    def __init__(self, length: Any, there: Any) -> None:
        super().__init__()
        self.length = length
        self.there = there

    def _parse(self, stream: Any, context: Any, path: Any) -> Any:
        start = c.stream_tell(stream, path)
        if self.length._parsereport(stream, context, path) < 0:
            return None
        c.stream_seek(stream, start, 0, path)
        return self.there._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        return (
            self.length._build(-1, stream, context, path)
            if obj is None
            else self.there._build(obj, stream, context, path)
        )


_strings = st.text(max_size=6) | st.binary(max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
_strings |= st.sampled_from(["", "x" * 127, "é" * 100])

STRING = Kind(_text(c.Int16sb), _strings)
COMPACT_STRING = Kind(_text(_COMPACT), _strings)
COMPACT_NULLABLE_STRING = Kind(_Nullable(_COMPACT, _text(_COMPACT)), st.none() | _strings)


def array(item: Kind) -> Kind:
    return Kind(c.PrefixedArray(c.Int32sb, item.bytes), st.lists(item.values, max_size=3))


def nullable_array(item: Kind) -> Kind:
    values = st.none() | st.lists(item.values, max_size=3)
    return Kind(_Nullable(c.Int32sb, c.PrefixedArray(c.Int32sb, item.bytes)), values)


def compact_array(item: Kind) -> Kind:
    return Kind(c.PrefixedArray(_COMPACT, item.bytes), st.lists(item.values, max_size=3))


def compact_nullable_array(item: Kind) -> Kind:
    values = st.none() | st.lists(item.values, max_size=3)
    return Kind(_Nullable(_COMPACT, c.PrefixedArray(_COMPACT, item.bytes)), values)


class _Tagged(c.Adapter):  # type: ignore[misc]
    """The tagged fields of one struct: {tag: (name, kind, default)} are known, the rest is kept as it is."""

    def __init__(self, known: dict[int, tuple[str, Kind, Any]]) -> None:
        super().__init__(c.PrefixedArray(c.VarInt, c.Sequence(c.VarInt, c.Prefixed(c.VarInt, c.GreedyBytes))))
        self.known = known

    def _decode(self, obj: Any, context: Any, path: Any) -> dict[str, Any]:
        values: dict[str, Any] = {name: default for name, _, default in self.known.values()}
        values["unknown_tagged_fields"] = [(tag, data) for tag, data in obj if tag not in self.known]
        for tag, data in obj:
            if tag in self.known:
                name, kind, _ = self.known[tag]
                values[name] = kind.bytes.parse(data)
        return values

    def _encode(self, obj: Any, context: Any, path: Any) -> list[list[Any]]:
        fields = [list(pair) for pair in obj["unknown_tagged_fields"]]
        for tag, (name, kind, default) in self.known.items():
            if obj[name] != default:
                fields.append([tag, kind.bytes.build(obj[name])])
        return sorted(fields)


class _Merged(c.Adapter):  # type: ignore[misc]
    """A struct whose last member holds the tagged fields: one dict outside."""

    def _decode(self, obj: Any, context: Any, path: Any) -> dict[str, Any]:
        values = {name: value for name, value in obj.items() if name not in ("_io", "tagged")}
        return values | dict(obj.get("tagged") or {"unknown_tagged_fields": []})

    def _encode(self, obj: Any, context: Any, path: Any) -> dict[str, Any]:
        return {**obj, "tagged": obj}


def plain(**fields: Kind) -> Kind:
    """A struct of a version that is not flexible."""
    con = c.Struct(*(name / kind.bytes for name, kind in fields.items()))
    values = {name: kind.values for name, kind in fields.items()}
    return Kind(_Merged(con), st.fixed_dictionaries({**values, "unknown_tagged_fields": st.just([])}))


def flexible(tags: dict[int, tuple[str, Kind, Any]] | None = None, /, **fields: Kind) -> Kind:
    """A struct of a flexible version."""
    known = tags or {}
    con = c.Struct(*(name / kind.bytes for name, kind in fields.items()), "tagged" / _Tagged(known))
    values = {name: kind.values for name, kind in fields.items()}
    values |= {name: st.just(default) | kind.values for name, kind, default in known.values()}
    pairs = st.tuples(st.integers(len(known), 400) | st.just((1 << 31) - 2), st.binary(max_size=4))
    unknown = st.lists(pairs, max_size=2, unique_by=lambda pair: pair[0]).map(sorted)
    return Kind(_Merged(con), st.fixed_dictionaries({**values, "unknown_tagged_fields": unknown}))


# DescribeProducers (KIP-664; api key 61) ----------------------------------------------------------------------------

DESCRIBE_PRODUCERS_REQUEST = flexible(
    topics=compact_array(flexible(name=COMPACT_STRING, partition_indexes=compact_array(INT32)))
)

DESCRIBE_PRODUCERS_RESPONSE = flexible(
    throttle_time_ms=INT32,
    topics=compact_array(
        flexible(
            name=COMPACT_STRING,
            partitions=compact_array(
                flexible(
                    partition_index=INT32,
                    error_code=INT16,
                    error_message=COMPACT_NULLABLE_STRING,
                    active_producers=compact_array(
                        flexible(
                            producer_id=INT64,
                            producer_epoch=INT32,
                            last_sequence=INT32,
                            last_timestamp=INT64,
                            coordinator_epoch=INT32,
                            current_txn_start_offset=INT64,
                        )
                    ),
                )
            ),
        )
    ),
)

# ListTransactions (KIP-664, KIP-994, KIP-1152; api key 66) ----------------------------------------------------------

_FILTERS = {"state_filters": compact_array(COMPACT_STRING), "producer_id_filters": compact_array(INT64)}
LIST_TRANSACTIONS_REQUEST = {
    0: flexible(**_FILTERS),
    1: flexible(**_FILTERS, duration_filter=INT64),
    2: flexible(**_FILTERS, duration_filter=INT64, transactional_id_pattern=COMPACT_NULLABLE_STRING),
}
LIST_TRANSACTIONS_RESPONSE = flexible(
    throttle_time_ms=INT32,
    error_code=INT16,
    unknown_state_filters=compact_array(COMPACT_STRING),
    transaction_states=compact_array(
        flexible(transactional_id=COMPACT_STRING, producer_id=INT64, transaction_state=COMPACT_STRING)
    ),
)

# DescribeTransactions (KIP-664; api key 65) -------------------------------------------------------------------------

DESCRIBE_TRANSACTIONS_REQUEST = flexible(transactional_ids=compact_array(COMPACT_STRING))
DESCRIBE_TRANSACTIONS_RESPONSE = flexible(
    throttle_time_ms=INT32,
    transaction_states=compact_array(
        flexible(
            error_code=INT16,
            transactional_id=COMPACT_STRING,
            transaction_state=COMPACT_STRING,
            transaction_timeout_ms=INT32,
            transaction_start_time_ms=INT64,
            producer_id=INT64,
            producer_epoch=INT16,
            topics=compact_array(flexible(topic=COMPACT_STRING, partitions=compact_array(INT32))),
        )
    ),
)

# WriteTxnMarkers (KIP-98, KIP-482, KIP-1228; api key 27) ------------------------------------------------------------


def _markers(**topic: Kind) -> dict[str, Kind]:
    return {
        "producer_id": INT64,
        "producer_epoch": INT16,
        "transaction_result": BOOL,
        "topics": compact_array(flexible(name=COMPACT_STRING, **topic)),
        "coordinator_epoch": INT32,
    }


_INDEXES = compact_array(INT32)
WRITE_TXN_MARKERS_REQUEST = {
    0: plain(
        markers=array(
            plain(
                producer_id=INT64,
                producer_epoch=INT16,
                transaction_result=BOOL,
                topics=array(plain(name=STRING, partition_indexes=array(INT32))),
                coordinator_epoch=INT32,
            )
        )
    ),
    1: flexible(markers=compact_array(flexible(**_markers(partition_indexes=_INDEXES)))),
    2: flexible(markers=compact_array(flexible(**_markers(partition_indexes=_INDEXES), transaction_version=INT8))),
}
#: What KIP-664's texts proposed for version 1 and Kafka never shipped: partitions that may have a start offset.
DRAFT_WRITE_TXN_MARKERS_REQUEST = flexible(
    markers=compact_array(
        flexible(
            **_markers(partitions=compact_array(flexible({0: ("txn_start_offset", INT64, 0)}, partition_index=INT32)))
        )
    )
)

_RESULTS = {
    "producer_id": INT64,
    "topics": compact_array(
        flexible(
            name=COMPACT_STRING,
            partitions=compact_array(flexible(partition_index=INT32, error_code=INT16)),
        )
    ),
}
WRITE_TXN_MARKERS_RESPONSE = {
    0: plain(
        markers=array(
            plain(
                producer_id=INT64,
                topics=array(
                    plain(name=STRING, partitions=array(plain(partition_index=INT32, error_code=INT16))),
                ),
            )
        )
    ),
    1: flexible(markers=compact_array(flexible(**_RESULTS))),
}

# Records of the coordinator and of the log --------------------------------------------------------------------------

TRANSACTION_LOG_VALUE = {
    0: plain(
        producer_id=INT64,
        producer_epoch=INT16,
        transaction_timeout_ms=INT32,
        transaction_status=INT8,
        transaction_partitions=nullable_array(plain(topic=STRING, partition_ids=array(INT32))),
        transaction_last_update_timestamp_ms=INT64,
        transaction_start_timestamp_ms=INT64,
    ),
    1: flexible(
        {
            0: ("previous_producer_id", INT64, -1),
            1: ("next_producer_id", INT64, -1),
            2: ("client_transaction_version", INT16, 0),
            3: ("next_producer_epoch", INT16, -1),
        },
        producer_id=INT64,
        producer_epoch=INT16,
        transaction_timeout_ms=INT32,
        transaction_status=INT8,
        transaction_partitions=compact_nullable_array(
            flexible(topic=COMPACT_STRING, partition_ids=compact_array(INT32))
        ),
        transaction_last_update_timestamp_ms=INT64,
        transaction_start_timestamp_ms=INT64,
    ),
}
#: Value of a control record; an int16 with the version stands before it (EndTransactionMarker).
END_TXN_MARKER = plain(coordinator_epoch=INT32)
#: Entry of a `.txnindex` file; an int16 with the version stands before it.
ABORTED_TXN = plain(producer_id=INT64, first_offset=INT64, last_offset=INT64, last_stable_offset=INT64)

# KIP-360's value of `__transaction_state`, version 1, in both revisions; an int16 with the version stands before it.

# The text does not say that the partitions may be null; the version before could, so null is accepted.
_OLDER_PARTITIONS = nullable_array(plain(topic=STRING, partitions=array(INT32)))
_REST = {
    "txn_timeout_duration": INT32,
    "txn_status": INT8,
    "txn_partitions": _OLDER_PARTITIONS,
    "txn_last_update_time": INT64,
    "txn_start_time": INT64,
}
STATE_LAST_EPOCH = plain(producer_id=INT64, current_epoch=INT16, last_epoch=INT16, **_REST)
STATE_INSTANCE_EPOCH = plain(instance_epoch=INT16, producer_id=INT64, producer_epoch=INT16, **_REST)

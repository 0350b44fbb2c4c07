"""Columns: many values of one message at once -> Arrow.

    from kafkawire import columns
    batch = columns.decode(TransactionLogValue, values, "prefix", columns=["producer_id", "transaction_status"])

All versions of a message have one schema (`schema`): a field that a version does not carry has its default. A value
is bad exactly when the message's `decode` refuses it; then its columns are null and `_error` is the text of that error.

- `schema`: the Arrow types, and which fields are selected; `inputs`: buffers, offsets, versions
- `plan`: a layout as the steps of the native engine (`native/src/columns`), and the columns that they fill
- `build`: the columns of a plan -> Arrow arrays
- `objects`: values decoded one by one: all of them without the native engine, otherwise those that it refuses
- `decoding`: the entry points
"""

from __future__ import annotations

from kafkawire.errors import MissingExtraError

try:
    import numpy  # noqa: F401
except ImportError:
    raise MissingExtraError("kafkawire.columns", "arrow") from None

from kafkawire.wire.columns.decoding import ERROR, VERSION, DecodedColumns, decode, decode_structs, schema, shape

__all__ = ["ERROR", "VERSION", "DecodedColumns", "decode", "decode_structs", "schema", "shape"]
